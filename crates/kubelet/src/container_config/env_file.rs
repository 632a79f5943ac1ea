//! Environment variables in a file that a container wrote (KEP-3721): a strict part of the shell's
//! syntax. Pure.
//!
//! ```text
//! # a comment
//! NAME='anything, on
//! several lines too' # another
//! EMPTY= 'is empty'
//! ```

/// Of a file; there is no reason for a larger one.
pub(crate) const SIZE_MAX: usize = 1 << 20;
/// Upstream's reader takes no longer lines.
const LINE_MAX: usize = (64 << 10) - 1;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("invalid environment variable format at line {line}: {problem}")]
    Line { line: usize, problem: &'static str },
    #[error("invalid environment variable format starting at line {line}: unclosed single quote")]
    Unclosed { line: usize },
    #[error("line {line} has more than {LINE_MAX} bytes")]
    TooLong { line: usize },
}

/// The value of the first variable of this name; empty if there is none. What is behind it is not
/// looked at.
pub(crate) fn find(content: &[u8], name: &str) -> Result<String, Error> {
    let mut lines = Lines { rest: content, number: 0 };
    while let Some(line) = lines.next()? {
        let line = trimmed(line);
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let (found, value) = assignment(line).map_err(|problem| lines.wrong(problem))?;
        let value = match value.first() {
            // As in a shell: the variable is empty, and the rest a command.
            Some(b' ' | b'\t') => Vec::new(),
            Some(b'\'') => quoted(&value[1..], &mut lines)?,
            _ => return Err(lines.wrong("value must be enclosed in single quotes")),
        };
        if found == name.as_bytes() {
            return Ok(String::from_utf8_lossy(&value).into_owned());
        }
    }
    Ok(String::new())
}

/// The name, and what is behind the `=`.
fn assignment(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let equals = line.iter().position(|it| *it == b'=').ok_or("missing '='")?;
    let (name, value) = (&line[..equals], &line[equals + 1..]);
    match name.last() {
        None => Err("empty variable name"),
        Some(b' ' | b'\t') => Err("whitespace before '=' is not allowed"),
        Some(_) => Ok((name, value)),
    }
}

/// `rest` is behind the opening quote.
fn quoted<'a>(mut rest: &'a [u8], lines: &mut Lines<'a>) -> Result<Vec<u8>, Error> {
    let line = lines.number;
    let mut value = Vec::new();
    loop {
        if let Some(end) = rest.iter().position(|it| *it == b'\'') {
            value.extend_from_slice(&rest[..end]);
            let behind = trimmed(&rest[end + 1..]);
            return match behind.first() {
                None | Some(b'#') => Ok(value),
                Some(_) => Err(lines.wrong("unexpected content after closing quote")),
            };
        }
        value.extend_from_slice(rest);
        value.push(b'\n');
        rest = lines.next()?.ok_or(Error::Unclosed { line })?;
    }
}

fn trimmed(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = line {
        line = rest;
    }
    line
}

struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    /// Without its end, which may be a line feed with a carriage return before it.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|it| *it == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        if line.len() > LINE_MAX {
            return Err(Error::TooLong { line: self.number });
        }
        self.rest = rest;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn wrong(&self, problem: &'static str) -> Error {
        Error::Line { line: self.number, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, find};

    fn check(content: &str, expected: &str) {
        let found = find(content.as_bytes(), "KEY");
        let found = found.unwrap_or_else(|err| format!("error: {err}"));
        assert_eq!(found, expected, "{content:?}");
    }

    #[test]
    fn values_are_in_single_quotes_and_taken_as_they_are() {
        check("KEY='value'", "value");
        check("\n  # KEY='no'\n\t KEY='a \"b\" $C \\n # d'  # why\r\n", "a \"b\" $C \\n # d");
        check("OTHER='x'\nKEY='one\n two\n#three'\n", "one\n two\n#three");
        check("KEY='first'\nKEY='second'", "first");
        check("KEY=''", "");
        check("KEY= 'is empty'\nKEY='second'", "");
        check("KEY='x=y'", "x=y");
        check("OTHER='x'", "");
        check("", "");
        // What is behind it is not looked at.
        check("KEY='a'\nnothing", "a");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let at = |line: usize, problem: &str| {
            format!("error: invalid environment variable format at line {line}: {problem}")
        };
        check("nothing", &at(1, "missing '='"));
        check("\n='x'", &at(2, "empty variable name"));
        check("KEY ='x'", &at(1, "whitespace before '=' is not allowed"));
        check("A='x'\nKEY=x", &at(2, "value must be enclosed in single quotes"));
        check("KEY=\"x\"", &at(1, "value must be enclosed in single quotes"));
        check("KEY=", &at(1, "value must be enclosed in single quotes"));
        check("KEY='x\ny'z", &at(2, "unexpected content after closing quote"));
        let unclosed =
            "error: invalid environment variable format starting at line 2: unclosed single quote";
        check("A='x'\nKEY='y\nz", unclosed);
    }

    #[test]
    fn lines_are_bounded() {
        let long = |n: usize| format!("KEY='{}'", "x".repeat(n - "KEY=''".len()));
        check(&long(LINE_MAX), &"x".repeat(LINE_MAX - "KEY=''".len()));
        check(&long(LINE_MAX + 1), "error: line 1 has more than 65535 bytes");
    }
}
