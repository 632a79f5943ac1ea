//! JSON for those who want it as YAML, or indented. Its members stay in their order.

use bytes::Bytes;
use serde_json::Value;

use super::negotiate::{Form, Media};

/// A JSON text in the form that was asked for. What is none stays as it is.
pub(super) fn text(json: Bytes, form: Form) -> Bytes {
    match form.media {
        Media::Yaml => serde_json::from_slice(&json).map_or(json, |it: Value| to_yaml(&it).into()),
        Media::Json if form.is_pretty => indent(&json).into(),
        Media::Json | Media::Protobuf => json,
    }
}

/// Two spaces a level; what is empty stays on its line.
fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + depth * 2, b' ');
    };
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if is_text {
            out.push(byte);
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'{' | b'[' => {
                out.push(byte);
                while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
                if let Some(end) = bytes.next_if(|it| matches!(it, b'}' | b']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                is_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

/// Block style, members by name. Texts that could be taken for something else are quoted as in
/// JSON, which YAML reads as well.
fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => put_yaml(&mut out, value, 0, false),
        scalar => out.push_str(&yaml_scalar(scalar)),
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// `is_item`: the first line goes on behind the dash of a list.
fn put_yaml(out: &mut String, value: &Value, depth: usize, is_item: bool) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if !(is_item && index == 0) {
                    out.push_str(&"  ".repeat(depth));
                }
                out.push_str(&yaml_text(name));
                out.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        put_yaml(out, value, depth + 1, false);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push('\n');
                        put_yaml(out, value, depth, false);
                    }
                    scalar => put_line(out, &yaml_scalar(scalar)),
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if !(is_item && index == 0) {
                    out.push_str(&"  ".repeat(depth));
                }
                out.push('-');
                match item {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push(' ');
                        put_yaml(out, item, depth + 1, true);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push(' ');
                        put_yaml(out, item, depth + 1, true);
                    }
                    scalar => put_line(out, &yaml_scalar(scalar)),
                }
            }
        }
        scalar => out.push_str(&yaml_scalar(scalar)),
    }
}

fn put_line(out: &mut String, scalar: &str) {
    out.push(' ');
    out.push_str(scalar);
    out.push('\n');
}

fn yaml_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => yaml_text(text),
        // Empty lists and maps, numbers, flags and null are the same in both.
        other => other.to_string(),
    }
}

/// Plain if it starts with a letter or slash, has nothing that YAML gives a meaning, and is none of
/// the words that some reader takes for a flag or for nothing.
fn yaml_text(text: &str) -> String {
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    let is_word = WORDS.iter().any(|it| it.eq_ignore_ascii_case(text));
    let starts_plain = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/');
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./".contains(it);
    let has_colons_inside = |it: char| is_plain(it) || it == ':';
    let is_safe = text.chars().all(has_colons_inside) && !text.ends_with(':');
    if starts_plain && is_safe && !is_word {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{indent, to_yaml};
    use crate::yaml;

    #[test]
    fn indented_json_keeps_its_order() {
        let json = r#"{"kind":"A","b":{},"c":[ ],"d":[1,{"e\"{":"f,:"}],"a":null}"#;
        let expected = "{\n  \"kind\": \"A\",\n  \"b\": {},\n  \"c\": [],\n  \"d\": [\n    1,\n    {\n      \"e\\\"{\": \"f,:\"\n    }\n  ],\n  \"a\": null\n}";
        assert_eq!(String::from_utf8(indent(json.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn yaml_is_in_blocks_and_sorted() {
        let value = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "immutable": true, "n": 1, "none": null,
            "data": {"a b": "x: y", "version": "1", "flag": "true", "image": "a/b:c", "": ""},
            "list": [{"b": 1, "a": [1, 2]}, [], ["x", {"y": {}}], "z"], "lines": "a\nb",
        });
        let expected = "apiVersion: v1\ndata:\n  \"\": \"\"\n  \"a b\": \"x: y\"\n  flag: \"true\"\n  image: a/b:c\n  version: \"1\"\nimmutable: true\nkind: ConfigMap\nlines: \"a\\nb\"\nlist:\n- a:\n  - 1\n  - 2\n  b: 1\n- []\n- - x\n  - \"y\": {}\n- z\n\"n\": 1\nnone: null\n";
        assert_eq!(to_yaml(&value), expected);
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = "[ -~\\n\\té\u{85}\u{2028}]{0,8}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text, inner, 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_written_can_be_read(value in values()) {
            let text = to_yaml(&value);
            prop_assert_eq!(yaml::parse(text.as_bytes()), Ok(value.clone()), "{}", text);
            let indented = indent(value.to_string().as_bytes());
            let read: Value = serde_json::from_slice(&indented).expect("JSON");
            prop_assert_eq!(read, value);
        }
    }
}
