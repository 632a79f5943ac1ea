//! Paths to fields below a schema: `.a['b'].c`.

use crate::field::Path;
use crate::schema::{Schema, SchemaRef};

/// A path that leads somewhere.
#[derive(Debug)]
pub struct FieldPath {
    /// As problems name it: `a[b].c`.
    pub path: String,
    /// What it leads to; `None` if that is where it began.
    pub schema: Option<SchemaRef>,
}

/// Where a path leads from a schema, or why nowhere.
pub fn find_field(text: &str, schema: &Schema) -> Result<FieldPath, String> {
    const END: &str = "unexpected end of JSON path";
    const LOST: &str = "does not refer to a valid field";
    let mut path = Path::root();
    let mut at: Option<SchemaRef> = None;
    let mut rest = text;
    while let Some((token, after)) = next_token(rest) {
        let (name, after) = match token {
            "." => {
                let (name, after) = next_token(after).ok_or(END)?;
                (name.to_owned(), after)
            }
            "[" => {
                let (quoted, after) = next_token(after).ok_or(END)?;
                let name = unquote(quoted)?;
                let (close, after) = next_token(after).ok_or(END)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
                (name, after)
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        rest = after;
        let here = at.as_deref().unwrap_or(schema);
        if !here.properties.is_empty() {
            path = path.child(&name);
            let given = here.has_given_metadata && name == "metadata";
            let own = if given { here.own_metadata.as_ref() } else { here.properties.get(&name) };
            at = Some(own.ok_or(LOST)?.clone());
        } else if let Some(values) = &here.additional {
            path = path.key(&name);
            at = Some(values.clone());
        } else {
            return Err(LOST.to_owned());
        }
    }
    Ok(FieldPath { path: path.as_str().to_owned(), schema: at })
}

/// `.`, `[`, `]`, a quoted text, or what is between those; and what follows.
fn next_token(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?;
    let end = match first {
        '.' | '[' | ']' => 1,
        '\'' => {
            let bytes = text.as_bytes();
            let close = (1..bytes.len()).find(|it| bytes[*it] == b'\'' && bytes[it - 1] != b'\\');
            close.map_or(text.len(), |it| it + 1)
        }
        _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
    };
    Some(text.split_at(end))
}

fn unquote(token: &str) -> Result<String, String> {
    let inner = token.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
    let mut name = String::new();
    let mut chars = inner.chars();
    while let Some(it) = chars.next() {
        if it != '\\' {
            name.push(it);
            continue;
        }
        name.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => {
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
            None => break,
        });
    }
    Ok(name)
}
