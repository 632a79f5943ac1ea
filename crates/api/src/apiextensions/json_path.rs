//! The simple JSONPath of CustomResourceDefinitions: `.spec.x`, `['key']`, `[0]`, `[*]` and
//! `[?(@.type=="Ready")]`. No recursion, no slices, no functions: a path reads one place or one
//! list.

use serde_json::Value;

/// Longer paths are refused: nobody writes them by hand.
const STEPS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Negative counts from the end.
    Index(i64),
    All,
    /// Items whose field equals (or does not equal) the value.
    Filter {
        path: Vec<String>,
        is_equal: bool,
        value: Value,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    #[error("a path starts with a dot or a bracket")]
    Start,
    #[error("a field name is missing after a dot")]
    EmptyField,
    #[error("a bracket is not closed")]
    OpenBracket,
    #[error("cannot read {0:?} between brackets")]
    Bracket(String),
    #[error("a path may have at most {STEPS_MAX} steps")]
    TooLong,
}

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let text = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == STEPS_MAX {
                return Err(Error::TooLong);
            }
            let step;
            (step, rest) = match rest.as_bytes()[0] {
                b'.' if rest[1..].starts_with('[') => parse_bracket(&rest[1..])?,
                b'.' => parse_field(&rest[1..])?,
                b'[' => parse_bracket(rest)?,
                _ => return Err(Error::Start),
            };
            steps.push(step);
        }
        if steps.is_empty() { Err(Error::Start) } else { Ok(Self(steps)) }
    }

    /// The field names, when the path consists of nothing else.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|it| match it {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The first value found.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        find(&self.0, value)
    }

    /// Writes a value, making the objects on the way. Does nothing when the path has other steps
    /// than fields.
    pub(crate) fn set(&self, target: &mut Value, value: Value) {
        let Some(fields) = self.fields() else { return };
        let mut place = target;
        for field in fields {
            if !place.is_object() {
                *place = Value::Object(serde_json::Map::new());
            }
            place = &mut place[field];
        }
        *place = value;
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => find(rest, value.get(name)?),
        Step::Index(index) => {
            let items = value.as_array()?;
            let index = if *index < 0 { index + i64::try_from(items.len()).ok()? } else { *index };
            find(rest, items.get(usize::try_from(index).ok()?)?)
        }
        Step::All => value.as_array()?.iter().find_map(|it| find(rest, it)),
        Step::Filter { path, is_equal, value: wanted } => value
            .as_array()?
            .iter()
            .filter(|it| {
                let found = path.iter().try_fold(*it, |place, name| place.get(name));
                found.is_some_and(|it| (it == wanted) == *is_equal)
            })
            .find_map(|it| find(rest, it)),
    }
}

/// After a dot: up to the next dot or bracket; a backslash escapes one character.
fn parse_field(text: &str) -> Result<(Step, &str), Error> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, it)| it)),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(letter),
        }
    }
    match name.as_str() {
        "" => Err(Error::EmptyField),
        "*" => Ok((Step::All, &text[end..])),
        _ => Ok((Step::Field(name), &text[end..])),
    }
}

fn parse_bracket(text: &str) -> Result<(Step, &str), Error> {
    let end = closing_bracket(text).ok_or(Error::OpenBracket)?;
    let (inside, rest) = (text[1..end].trim(), &text[end + 1..]);
    let unreadable = || Error::Bracket(inside.to_owned());
    let step = if inside == "*" {
        Step::All
    } else if let Some(filter) = inside.strip_prefix("?(").and_then(|it| it.strip_suffix(')')) {
        parse_filter(filter).ok_or_else(unreadable)?
    } else if let Some(name) = unquote(inside) {
        Step::Field(name.to_owned())
    } else {
        Step::Index(inside.parse().map_err(|_| unreadable())?)
    };
    Ok((step, rest))
}

/// The first `]` outside of quotes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, letter)| {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
        None
    })
}

/// `@.type=="Ready"`
fn parse_filter(text: &str) -> Option<Step> {
    let (is_equal, (left, right)) = match text.split_once("==") {
        Some(sides) => (true, sides),
        None => (false, text.split_once("!=")?),
    };
    let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
    let right = right.trim();
    let value = match unquote(right) {
        Some(text) => Value::String(text.to_owned()),
        None => serde_json::from_str(right).ok()?,
    };
    Some(Step::Filter { path, is_equal, value })
}

fn unquote(text: &str) -> Option<&str> {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('\'').or_else(|| inside('"'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_one_place() {
        let object = json!({
            "metadata": { "annotations": { "example.org/a": "x" } },
            "spec": { "weight": 3, "tags": ["a", "b"] },
            "status": { "conditions": [
                { "type": "Ripe", "status": "False" },
                { "type": "Ready", "status": "True" },
            ] },
        });
        let check = |path: &str, expected: Value| {
            let found = JsonPath::parse(path).unwrap().find(&object).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{path}");
        };
        check(".spec.weight", json!(3));
        check(".spec.tags[1]", json!("b"));
        check(".spec.tags[-1]", json!("b"));
        check(".spec.tags[*]", json!("a"));
        check(".spec['weight']", json!(3));
        check(".metadata.annotations['example.org/a']", json!("x"));
        check(r".metadata.annotations.example\.org/a", json!("x"));
        check(r#".status.conditions[?(@.type=="Ready")].status"#, json!("True"));
        check(r#".status.conditions[?(@.type!='Ready')].status"#, json!("False"));
        check(r#".status.conditions[?(@.type=="Gone")].status"#, json!(null));
        check(".spec.nothing.there", json!(null));
    }

    #[test]
    fn malformed_paths_are_refused() {
        let check = |path: &str, expected: Error| {
            assert_eq!(JsonPath::parse(path), Err(expected), "{path}");
        };
        check("", Error::Start);
        check("spec", Error::Start);
        check(".spec..x", Error::EmptyField);
        check(".spec[0", Error::OpenBracket);
        check(".spec[x]", Error::Bracket("x".to_owned()));
        check(&".a".repeat(65), Error::TooLong);
    }

    #[test]
    fn set_makes_the_way() {
        let mut object = json!({});
        JsonPath::parse(".spec.replicas").unwrap().set(&mut object, json!(2));
        assert_eq!(object, json!({ "spec": { "replicas": 2 } }));
    }
}
