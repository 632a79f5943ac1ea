//! The grammar of label selectors: `a=b,c in (d,e),!f,g>1`. Keys and values are never quoted; `in`
//! and `notin` are words only where an operator is due, so labels may carry those names too.

use super::{Error, Requirement};
use crate::validation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the word operators.
    Word(&'a str),
    /// `= == != > < ! ( ) ,`
    Symbol(&'a str),
    End,
}

impl Token<'_> {
    /// As error messages show it; the end is shown as nothing.
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Symbol("!") => requirements.push(
                parser
                    .requirement()
                    .map_err(|err| Error(format!("unable to parse requirement: {err}")))?,
            ),
            Token::End => return Ok(requirements),
            other @ Token::Symbol(_) => {
                return Err(expected(other, "!, identifier, or 'end of string'"));
            }
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(expected(other, "identifier after ','")),
            },
            other => return Err(expected(other, "',' or 'end of string'")),
        }
    }
}

fn expected(found: Token<'_>, what: &str) -> Error {
    Error(format!("found '{}', expected: {what}", found.text()))
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        scan(self.rest).0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = scan(self.rest);
        self.rest = rest;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let is_absent = self.peek() == Token::Symbol("!");
        if is_absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => checked_key(key)?,
            other => return Err(expected(other, "identifier")),
        };
        if is_absent {
            return Ok(Requirement::Absent(key));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement::Exists(key));
        }
        match self.next() {
            Token::Symbol("=" | "==") => Requirement::new_in(&key, vec![self.value()?]),
            Token::Symbol("!=") => Requirement::new_not_in(&key, vec![self.value()?]),
            Token::Symbol(">") => Ok(Requirement::GreaterThan(key, self.bound()?)),
            Token::Symbol("<") => Ok(Requirement::LessThan(key, self.bound()?)),
            Token::Word("in") => Requirement::new_in(&key, self.values()?),
            Token::Word("notin") => Requirement::new_not_in(&key, self.values()?),
            other => Err(expected(other, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<String, Error> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(expected(other, "identifier")),
        }
    }

    fn bound(&mut self) -> Result<i64, Error> {
        let text = self.value()?;
        text.parse().map_err(|_| {
            Error(format!(
                "values[0]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    /// `(a,b)`; an empty place between commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, Error> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(Error(format!("found '{}' expected: '('", other.text()))),
        }
        if self.peek() == Token::Symbol(")") {
            self.next();
            return Ok(Vec::new());
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(value) => {
                    self.next();
                    values.push(value.to_owned());
                }
                Token::Symbol("," | ")") => values.push(String::new()),
                other => return Err(expected(other, "',', ')' or identifier")),
            }
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(expected(other, "',' or ')'")),
            }
        }
    }
}

/// The first token and what follows it.
fn scan(text: &str) -> (Token<'_>, &str) {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    let length = match text.as_bytes() {
        [] => return (Token::End, text),
        [b'=', b'=', ..] | [b'!', b'=', ..] => 2,
        [b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<', ..] => 1,
        _ => {
            let end = text
                .find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<'])
                .unwrap_or(text.len());
            return (Token::Word(&text[..end]), &text[end..]);
        }
    };
    (Token::Symbol(&text[..length]), &text[length..])
}

pub(super) fn checked_key(key: &str) -> Result<String, Error> {
    let problems = validation::is_qualified_name(key);
    if problems.is_empty() {
        return Ok(key.to_owned());
    }
    Err(Error(format!("key: Invalid value: {key:?}: {}", problems.join("; "))))
}

/// The values in order, each once: the order in which they are rendered.
pub(super) fn checked_values(key: &str, mut values: Vec<String>) -> Result<Vec<String>, Error> {
    if values.is_empty() {
        let why = "for 'in', 'notin' operators, values set can't be empty";
        return Err(Error(format!("values: Invalid value: []: {why}")));
    }
    for (index, value) in values.iter().enumerate() {
        let problems = validation::is_label_value(value);
        if !problems.is_empty() {
            return Err(Error(format!(
                "values[{index}][{key}]: Invalid value: {value:?}: {}",
                problems.join("; ")
            )));
        }
    }
    values.sort();
    values.dedup();
    Ok(values)
}

pub(super) fn validate_no_values(values: &[String]) -> Result<(), Error> {
    if values.is_empty() {
        return Ok(());
    }
    let why = "values set must be empty for exists and does not exist";
    Err(Error(format!("values: Invalid value: {values:?}: {why}")))
}
