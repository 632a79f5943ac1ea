//! JSON as values, by its schema and in place.

use ::cel::{Duration, Error, ListKind, Shape, Text, Timestamp, UNTYPED, Value, from_json};
use base64::Engine as _;
use serde_json::{Map, Value as Json};

use super::{Form, Node, names};
use crate::schema::{ListType, parse_duration};

impl Shape for Node {
    fn scalar<'a>(&'a self, json: &'a Json) -> Result<Value<'a>, Error> {
        match (&self.form, json) {
            (Form::Unknown, json) => UNTYPED.scalar(json),
            (_, Json::Null) if self.nullable => Ok(Value::Null),
            (_, Json::Null) => {
                Err(Error::refused("invalid data, got null for schema with nullable=false"))
            }
            (Form::Text | Form::IntOrString, Json::String(text)) => Ok(Value::borrowed(text)),
            (Form::Boolean, Json::Bool(value)) => Ok(Value::Bool(*value)),
            (Form::Integer | Form::IntOrString, Json::Number(it)) if it.is_i64() => {
                Ok(Value::Int(it.as_i64().unwrap_or_default()))
            }
            (Form::Number, Json::Number(it)) => Ok(Value::Double(it.as_f64().unwrap_or(f64::NAN))),
            (Form::Bytes, Json::String(text)) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map(Value::from)
                .map_err(|err| malformed("byte", text, &err.to_string())),
            (Form::Duration, Json::String(text)) => parse_duration(text)
                .map(|n| Value::Duration(Duration::from_nanoseconds(n)))
                .ok_or_else(|| {
                    Error::refused(format!(
                        "Invalid duration {text}: unable to parse {text} as duration"
                    ))
                }),
            (Form::Date, Json::String(text)) => Timestamp::parse(&format!("{text}T00:00:00Z"))
                .map(Value::Timestamp)
                .ok_or_else(|| malformed("date", text, "it is no date")),
            (Form::DateTime, Json::String(text)) => date_time(text),
            (form, json) => Err(mismatch(form, json)),
        }
    }

    fn get<'a>(
        &'a self,
        object: &'a Map<String, Json>,
        name: &str,
    ) -> Result<Option<Value<'a>>, Error> {
        match &self.form {
            Form::Object(fields) => {
                let Some(name) = names::unescape(name) else { return Ok(None) };
                // A field that is null is as good as absent.
                let json = object.get(&name).filter(|it| !it.is_null());
                let found = json.zip(fields.get(&name));
                found.map(|(json, node)| from_json(json, &**node)).transpose()
            }
            Form::Map(value) => object.get(name).map(|json| from_json(json, &**value)).transpose(),
            _ => object.get(name).map(|json| from_json(json, &UNTYPED)).transpose(),
        }
    }

    fn name<'a>(&'a self, key: &'a str, value: &Json) -> Option<Text<'a>> {
        match &self.form {
            Form::Object(fields) if value.is_null() || !fields.contains_key(key) => None,
            Form::Object(_) => Some(match names::escape(key) {
                Some(escaped) if escaped != key => Text::Shared(escaped.into()),
                _ => Text::Borrowed(key),
            }),
            _ => Some(Text::Borrowed(key)),
        }
    }

    fn item(&self) -> &dyn Shape {
        match &self.form {
            Form::List { item, .. } => &**item,
            _ => &UNTYPED,
        }
    }

    fn list_kind(&self) -> ListKind<'_> {
        match &self.form {
            Form::List { list_type: ListType::Set, .. } => ListKind::Set,
            Form::List { list_type: ListType::Map { keys }, .. } => ListKind::Map(keys),
            _ => ListKind::Atomic,
        }
    }

    /// Fields that expressions do not see are part of the object all the same.
    fn has_equal_rest(&self, one: &Map<String, Json>, other: &Map<String, Json>) -> bool {
        let Form::Object(fields) = &self.form else { return true };
        let unseen = one.iter().filter(|(name, _)| !fields.contains_key(*name));
        one.len() == other.len()
            && unseen.into_iter().all(|(name, json)| other.get(name).is_none_or(|it| it == json))
    }
}

fn date_time(text: &str) -> Result<Value<'_>, Error> {
    // What the language itself does not read may still be a time.
    let loose =
        || text.parse::<jiff::Timestamp>().ok().and_then(|it| Timestamp::parse(&it.to_string()));
    Timestamp::parse(text)
        .or_else(loose)
        .map(Value::Timestamp)
        .ok_or_else(|| malformed("date-time", text, "it is no time"))
}

fn malformed(format: &str, text: &str, why: &str) -> Error {
    Error::refused(format!("Invalid {format} formatted string {text}: {why}"))
}

/// In upstream's words, which are those of Go.
fn mismatch(form: &Form, json: &Json) -> Error {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(it) if it.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    Error::refused(match form {
        Form::IntOrString => {
            "invalid data, expected XIntOrString value to be either a string or integer".to_owned()
        }
        Form::Object(_) | Form::Map(_) => {
            "invalid data, expected a map for the provided schema with type=object".to_owned()
        }
        Form::List { .. } => {
            "invalid data, expected an array for the provided schema with type=array".to_owned()
        }
        Form::Integer => format!("invalid data, expected int, got {found}"),
        Form::Number => format!("invalid data, expected float, got {found}"),
        Form::Boolean => format!("invalid data, expected bool, got {found}"),
        Form::Text | Form::Bytes | Form::Duration | Form::Date | Form::DateTime => {
            format!("invalid data, expected string, got {found}")
        }
        Form::Unknown => "invalid data".to_owned(),
    })
}
