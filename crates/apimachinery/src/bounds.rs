//! How deep values may be nested, and how long the way to one may be. Whatever walks a value calls
//! itself once per level, and so does dropping it: a value that is deeper than these bounds is
//! never made. Who reports on a value writes the way to it, for each of its parts again.

use serde_json::Value;

/// What clients may send, and what a patch may make of an object. Readers of JSON in most
/// languages, ours included, take 128; lists, watch events and tables put an object a few levels
/// further down.
pub const DEPTH_MAX: usize = 100;
/// Bytes of all field names on the way to a value.
pub const PATH_MAX: usize = 16 * 1024;
/// The records of who owns what are a few levels deeper than what they are about.
const RECORDS_MAX: usize = DEPTH_MAX + 10;

/// Levels of nesting: a scalar has none. Takes no stack.
pub fn depth(value: &Value) -> usize {
    measure(value).0
}

/// Levels of nesting, and how many values there are in all.
pub(crate) fn measure(value: &Value) -> (usize, usize) {
    let (mut deepest, mut n_values) = (0, 0);
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        n_values += 1;
        match value {
            Value::Array(items) => open.extend(items.iter().map(|it| (it, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|it| (it, depth + 1))),
            _ => {}
        }
    }
    (deepest, n_values)
}

/// Whether an object is nested deeper than one may be.
pub fn is_too_deep(object: &Value) -> bool {
    let Value::Object(fields) = object else { return depth(object) > DEPTH_MAX };
    fields.iter().any(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => metadata.iter().any(|(name, value)| {
            let max = if name == "managedFields" { RECORDS_MAX } else { DEPTH_MAX };
            depth(value) + 2 > max
        }),
        value => depth(value) + 1 > DEPTH_MAX,
    })
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is nested deeper than {DEPTH_MAX} levels")]
    Deep,
    #[error("the names of the fields on the way to a value are longer than {PATH_MAX} bytes")]
    Path,
}

/// Checks JSON before anything is made of it, in one pass without recursion. What is no JSON
/// passes: whoever reads it will say so.
pub fn validate_text(json: &[u8]) -> Result<(), Error> {
    validate_text_to(json, DEPTH_MAX)
}

/// The same for a whole object, whose records of ownership may be deeper.
pub fn validate_object_text(json: &[u8]) -> Result<(), Error> {
    match validate_text(json) {
        Err(Error::Deep) => {}
        other => return other,
    }
    validate_text_to(json, RECORDS_MAX)?;
    match serde_json::from_slice(json) {
        Ok(object) if is_too_deep(&object) => Err(Error::Deep),
        _ => Ok(()),
    }
}

/// One object or list that is open.
#[derive(Default)]
struct Open {
    is_object: bool,
    awaits_name: bool,
    /// Bytes of the name of the field that is being read.
    name: usize,
}

fn validate_text_to(json: &[u8], depth_max: usize) -> Result<(), Error> {
    let mut open: Vec<Open> = Vec::new();
    let mut path = 0;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let mut length = 0;
                while let Some(byte) = bytes.next().filter(|it| **it != b'"') {
                    length += 1;
                    if *byte == b'\\' {
                        bytes.next();
                    }
                }
                if let Some(inner) = open.last_mut().filter(|it| it.awaits_name) {
                    path = path - inner.name + length;
                    inner.name = length;
                    if path > PATH_MAX {
                        return Err(Error::Path);
                    }
                }
            }
            b'{' | b'[' if open.len() == depth_max => return Err(Error::Deep),
            b'{' => open.push(Open { is_object: true, awaits_name: true, name: 0 }),
            b'[' => open.push(Open::default()),
            b'}' | b']' => path -= open.pop().map_or(0, |it| it.name),
            b':' => {
                if let Some(inner) = open.last_mut() {
                    inner.awaits_name = false;
                }
            }
            b',' => {
                if let Some(inner) = open.last_mut().filter(|it| it.is_object) {
                    path -= std::mem::take(&mut inner.name);
                    inner.awaits_name = true;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DEPTH_MAX, Error, PATH_MAX, depth, is_too_deep, validate_text};

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn depth_is_the_longest_way_down() {
        assert_eq!(depth(&json!(1)), 0);
        assert_eq!(depth(&json!({"a": [1, {"b": "]}"}], "c": 1})), 3);
        assert_eq!(depth(&nested(90)), 90);
    }

    #[test]
    fn text_is_as_deep_as_its_brackets() {
        assert_eq!(validate_text(nested(DEPTH_MAX).to_string().as_bytes()), Ok(()));
        assert_eq!(validate_text(nested(DEPTH_MAX + 1).to_string().as_bytes()), Err(Error::Deep));
        assert_eq!(validate_text(&[b'['; 3_000_000]), Err(Error::Deep));
        let text = format!("{{{:?}: {:?}}}", "[".repeat(200), "{\"[".repeat(200));
        assert_eq!(validate_text(text.as_bytes()), Ok(()));
        for garbage in [&b"]]}}"[..], b"\"", b"{\"a\\", b",:,:", b"{,,:\"a\",}", b"{\"a\"\"b\"}"] {
            assert_eq!(validate_text(garbage), Ok(()));
        }
    }

    #[test]
    fn the_way_to_a_value_is_short_however_many_there_are() {
        let name = "x".repeat(PATH_MAX / 3);
        let below = |inner: Value| json!({name.as_str(): inner, "beside": 1});
        let three = below(below(below(json!(["y".repeat(PATH_MAX)]))));
        assert_eq!(validate_text(three.to_string().as_bytes()), Ok(()));
        assert_eq!(validate_text(below(three).to_string().as_bytes()), Err(Error::Path));
        let names: serde_json::Map<String, Value> =
            (0..PATH_MAX).map(|it| (format!("name-{it}"), json!(it))).collect();
        assert_eq!(validate_text(Value::Object(names).to_string().as_bytes()), Ok(()));
    }

    #[test]
    fn records_of_ownership_may_be_a_little_deeper() {
        let object = |name: &str, levels| json!({"metadata": {name: nested(levels)}});
        assert!(!is_too_deep(&object("annotations", DEPTH_MAX - 2)));
        assert!(is_too_deep(&object("annotations", DEPTH_MAX - 1)));
        assert!(!is_too_deep(&object("managedFields", DEPTH_MAX + 8)));
        assert!(is_too_deep(&object("managedFields", DEPTH_MAX + 9)));
        assert!(is_too_deep(&json!({"spec": nested(DEPTH_MAX)})));
    }
}
