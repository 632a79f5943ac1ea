//! Field selectors: `metadata.name=x,status.phase!=Running`. `\` escapes `,`, `=` and itself in
//! values.

use super::{Error, TERMS_MAX, too_many};

/// `metadata.name=x,status.phase!=Running`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// (field, value, is_equal)
    pub terms: Vec<(String, String, bool)>,
}

impl Fields {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = Vec::new();
        for term in split_terms(text).into_iter().filter(|it| !it.is_empty()) {
            let (field, operator, value) = split_term(term).ok_or_else(|| {
                Error(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            terms.push((field.to_owned(), unescape(value)?, operator != "!="));
        }
        if terms.len() > TERMS_MAX {
            return Err(too_many(terms.len()));
        }
        Ok(Self { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// `get` gives the value of a field; a field it does not know counts as empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms
            .iter()
            .all(|(field, value, is_equal)| (get(field).unwrap_or("") == value) == *is_equal)
    }

    /// The value that `field` is required to equal, if there is one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|(name, _, is_equal)| name == field && *is_equal)
            .map(|(_, value, _)| value.as_str())
    }
}

/// The text form that `Fields::parse` reads.
impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (field, value, is_equal)) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if *is_equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}{}", escape(value))?;
        }
        Ok(())
    }
}

/// Splits at the commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (at, it) in text.char_indices() {
        match it {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// (field, operator, escaped value), split at the first operator.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut text = String::with_capacity(value.len());
    let mut is_escaped = false;
    for it in value.chars() {
        match (is_escaped, it) {
            (true, '\\' | ',' | '=') => text.push(it),
            (true, _) => return Err(bad_escape(&format!("\\{it}"))),
            (false, '\\') => {}
            (false, ',' | '=') => {
                let why = "unescaped character in value";
                return Err(Error(format!("invalid field selector: {why}: {it}")));
            }
            (false, _) => text.push(it),
        }
        is_escaped = !is_escaped && it == '\\';
    }
    if is_escaped { Err(bad_escape("\\")) } else { Ok(text) }
}

fn bad_escape(sequence: &str) -> Error {
    Error(format!("invalid field selector: invalid escape sequence: {sequence}"))
}

fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for it in value.chars() {
        if matches!(it, '\\' | ',' | '=') {
            text.push('\\');
        }
        text.push(it);
    }
    text
}
