//! What holds at every place of every kind that is served, by their schemas.

use apimachinery::schema::{SchemaRef, Type};
use serde_json::Value;

use super::places::{KEY, Place, Step, is_struct, places, wrap};
use super::samples::{Draw, plain};
use crate::Kind;
use crate::protobuf::{Envelope, encode_telling, message};

fn for_each_kind(mut check: impl FnMut(&dyn Kind, &str)) {
    for kind in crate::kinds().into_iter().chain(crate::served::bodies()) {
        let (version, name) = (kind.names().api_version(), kind.names().kind.clone());
        check(kind.as_ref(), &format!(r#""apiVersion":"{version}","kind":"{name}""#));
    }
}

fn for_each_place(mut check: impl FnMut(&dyn Kind, &str, &Place)) {
    let mut n_places = 0;
    for_each_kind(|kind, names| {
        for place in places(&kind.schema()) {
            check(kind, names, &place);
            n_places += 1;
        }
    });
    assert!(n_places > 10_000, "{n_places}");
}

/// What strict decoding says of a text.
fn problems(kind: &dyn Kind, text: &str) -> Vec<String> {
    kind.schema().validate_fields(text.as_bytes()).problems
}

fn written(kind: &dyn Kind, text: &str) -> String {
    let object = kind.decode(text.as_bytes()).unwrap_or_else(|err| panic!("{text}: {err}"));
    String::from_utf8(object.encode()).expect("JSON is UTF-8")
}

#[test]
fn what_nothing_was_said_of_is_known_without_encoding() {
    for_each_kind(|kind, names| {
        let mut found: Value =
            serde_json::from_str(&written(kind, &format!("{{{names}}}"))).expect("JSON");
        let fields = found.as_object_mut().expect("an object");
        fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
        // Typed structs cannot tell an empty reference from none.
        if names.contains(r#""IPAddress""#) {
            found["spec"].as_object_mut().expect("an object").remove("parentRef");
        }
        assert_eq!(Some(found), kind.zero(), "{names}");
    });
}

#[test]
fn a_field_that_is_not_known_is_named_with_its_path() {
    for_each_kind(|kind, names| {
        let text = format!(r#"{{{names},"zzz":1}}"#);
        assert_eq!(problems(kind, &text), [r#"unknown field "zzz""#]);
    });
    for_each_place(|kind, names, place| {
        let text = wrap(names, &place.steps, r#"{"zzz":1}"#);
        let schema = place.schema.resolve();
        if is_struct(&schema) && !schema.preserve_unknown {
            let expected = format!("unknown field \"{}.zzz\"", place.path());
            assert_eq!(problems(kind, &text), [expected], "{text}");
        }
    });
}

#[test]
fn a_field_that_is_there_twice_is_named_with_its_path() {
    for_each_place(|kind, names, place| {
        let Some((last, before)) = place.steps.split_last() else { return };
        let name = match last {
            Step::Field(_, name) => name,
            Step::Key => KEY,
            Step::Item => return,
        };
        let value = plain(&place.schema.resolve());
        let text = wrap(names, before, &format!("{{{name:?}:{value},{name:?}:{value}}}"));
        let expected = format!("duplicate field \"{}\"", place.path());
        assert_eq!(problems(kind, &text), [expected], "{text}");
    });
}

/// A value of another type and how Go calls it; `None` where any is taken.
fn wrong(schema: &SchemaRef) -> Option<(&'static str, &'static str)> {
    match schema.kind {
        Type::Any => None,
        Type::Object if schema.preserve_unknown => None,
        Type::Object | Type::Array | Type::String => Some(("1", "number")),
        Type::Boolean | Type::Integer | Type::Number => Some((r#""x""#, "string")),
        Type::IntOrString => Some(("true", "bool")),
    }
}

fn go_name(at: &SchemaRef) -> String {
    if !at.go_type.is_empty() {
        return at.go_type.clone();
    }
    let schema = at.resolve();
    let member = |of: &Option<SchemaRef>| of.as_ref().map(go_name).unwrap_or_default();
    match (schema.kind, schema.format.as_str()) {
        (Type::String, "byte") => "[]uint8".to_owned(),
        (Type::String, _) => "string".to_owned(),
        (Type::Boolean, _) => "bool".to_owned(),
        (Type::Integer, "int64") => "int64".to_owned(),
        (Type::Integer | Type::IntOrString, _) => "int32".to_owned(),
        (Type::Number, _) => "float64".to_owned(),
        (Type::Array, _) => format!("[]{}", member(&schema.items)),
        (Type::Object, _) if schema.additional.is_some() => {
            format!("map[string]{}", member(&schema.additional))
        }
        _ => {
            let mut names = schema.definition.rsplit('.');
            let name = names.next().unwrap_or_default();
            format!("{}.{name}", names.next().unwrap_or_default())
        }
    }
}

#[test]
fn a_value_of_another_type_is_refused_in_gos_words() {
    for_each_place(|kind, names, place| {
        let schema = place.schema.resolve();
        let Some((value, found)) = wrong(&schema) else { return };
        let text = wrap(names, &place.steps, value);
        let (path, wanted) = (place.go_path(), go_name(&place.schema));
        let expected = match schema.format.as_str() {
            "quantity" => "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned(),
            _ => format!("json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"),
        };
        let report = kind.schema().validate_fields(text.as_bytes());
        let is_fatal = report.fatal_error.is_some();
        assert_eq!(report.refusal(), Some(expected), "{text}");
        assert!(is_fatal || kind.decode(text.as_bytes()).is_err(), "{text}");
    });
}

#[test]
fn null_is_the_zero_value() {
    for_each_place(|kind, names, place| {
        let Some((last, before)) = place.steps.split_last() else { return };
        let schema = place.schema.resolve();
        let zero = match (last, schema.kind) {
            (Step::Field(..), _) => wrap(names, before, "{}"),
            // Null is a value like any other.
            (_, Type::Any) => return,
            (_, Type::Object) if schema.preserve_unknown => return,
            (_, Type::Object) => wrap(names, &place.steps, "{}"),
            (_, Type::Array) => wrap(names, &place.steps, "[]"),
            (_, Type::String) if schema.format == "date-time" => return,
            (_, Type::String) => wrap(names, &place.steps, r#""""#),
            (_, Type::Boolean) => wrap(names, &place.steps, "false"),
            (_, Type::IntOrString) if schema.format == "quantity" => {
                wrap(names, &place.steps, r#""0""#)
            }
            (_, Type::Integer | Type::Number | Type::IntOrString) => wrap(names, &place.steps, "0"),
        };
        let text = wrap(names, &place.steps, "null");
        let report = kind.schema().validate_fields(text.as_bytes());
        assert_eq!((report.problems.len(), report.refusal()), (0, None), "{text}");
        assert_eq!(written(kind, &text), written(kind, &zero), "{text}");
    });
}

/// Whether there is nothing in it that Go would not have put there itself.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0",
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
    }
}

/// Everything that was given is found, and nothing else.
fn check_same(found: &Value, given: &Value, path: &str) {
    match (found, given) {
        (Value::Object(found), Value::Object(given)) => {
            for (name, value) in given {
                let path = format!("{path}.{name}");
                match found.get(name) {
                    Some(there) => check_same(there, value, &path),
                    None => assert!(is_nothing(value), "{path} is lost: {value}"),
                }
            }
            for (name, value) in found.iter().filter(|it| !given.contains_key(it.0)) {
                // Those of objects inside are always the same.
                let is_name = matches!(name.as_str(), "apiVersion" | "kind");
                assert!(is_nothing(value) || is_name, "{path}.{name} is new: {value}");
            }
        }
        (Value::Array(found), Value::Array(given)) => {
            assert_eq!(found.len(), given.len(), "{path}");
            for (found, given) in found.iter().zip(given) {
                check_same(found, given, path);
            }
        }
        (found, given) if is_nothing(given) => assert!(is_nothing(found), "{path}: {found}"),
        _ => assert_eq!(found, given, "{path}"),
    }
}

#[test]
fn objects_are_read_and_written_as_they_are_in_json_and_in_protobuf() {
    for_each_kind(|kind, names| {
        let message = message(&kind.definition()).expect("it is listed");
        let (version, name) = (kind.names().api_version(), kind.names().kind.clone());
        for seed in 0..4 {
            let drawn = Draw::new(seed).value(&kind.schema()).to_string();
            let text = wrap(names, &[], &drawn);
            let given: Value = serde_json::from_str(&text).expect("JSON");
            let report = kind.schema().validate_fields(text.as_bytes());
            assert_eq!((report.problems.len(), report.refusal()), (0, None), "{text}");
            let json = written(kind, &text);
            let found = serde_json::from_str(&json).expect("JSON");
            check_same(&found, &given, &name);
            assert_eq!(written(kind, &json), json, "a second time");
            let protobuf = encode_telling(message, (&version, &name), json.as_bytes());
            let protobuf = protobuf.expect("it encodes");
            assert!(protobuf.is_exact, "{json}");
            let envelope = Envelope::parse(&protobuf.bytes).expect("an envelope");
            let back = envelope.to_json(message).expect("it decodes");
            assert_eq!(written(kind, &String::from_utf8_lossy(&back)), json, "through protobuf");
        }
    });
}
