//! Small changes to an object's JSON that need no decoding: the resourceVersion, which is the first
//! field of metadata in what is stored and served, and the apiVersion of custom resources.

use std::ops::Range;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

const FIELD: &[u8] = b"\"resourceVersion\":\"";

/// A value whose resourceVersion the store fills in: the JSON with an empty one, and where its
/// digits go.
pub(crate) struct Unstamped {
    pub(crate) value: Bytes,
    pub(crate) at: usize,
}

impl Unstamped {
    /// `None` if there is no metadata to put a version into.
    pub(crate) fn new(json: &[u8]) -> Option<Self> {
        let start = metadata_start(json)?;
        if json[start..].starts_with(FIELD) {
            return None;
        }
        let separator: &[u8] = if json.get(start) == Some(&b'}') { b"\"" } else { b"\"," };
        let value = [&json[..start], FIELD, separator, &json[start..]].concat();
        Some(Self { value: Bytes::from(value), at: start + FIELD.len() })
    }

    /// Whether `stored` is this value at `version`, stamped or not.
    pub(crate) fn is(&self, stored: &[u8], version: u64) -> bool {
        if stored == self.value {
            return true;
        }
        let digits = version.to_string();
        let (before, after) = self.value.split_at(self.at);
        let rest = stored.strip_prefix(before).and_then(|it| it.strip_prefix(digits.as_bytes()));
        rest == Some(after)
    }

    pub(crate) fn stamped(&self, version: u64) -> Bytes {
        let (before, after) = self.value.split_at(self.at);
        Bytes::from([before, version.to_string().as_bytes(), after].concat())
    }
}

/// A stored value as it is served. The same bytes, if the store has put the version in.
pub(crate) fn served(value: &Bytes, version: u64) -> Bytes {
    let found = metadata_start(value).and_then(|at| value[at..].strip_prefix(FIELD));
    let end = format!("{version}\"");
    if found.is_some_and(|it| it.starts_with(end.as_bytes())) {
        return value.clone();
    }
    with_version(value, version)
}

/// Puts the version into JSON that has none. Gives the bytes back unchanged if there is no
/// metadata.
pub(crate) fn with_version(json: &[u8], version: u64) -> Bytes {
    let Some(at) = metadata_start(json) else {
        return Bytes::copy_from_slice(json);
    };
    if json[at..].starts_with(FIELD) {
        return replace_version(json, version);
    }
    let is_empty = json.get(at) == Some(&b'}');
    splice(json, at, at, version, if is_empty { b"" } else { b"," })
}

/// Exchanges the version that `with_version` put there.
pub(crate) fn replace_version(json: &[u8], version: u64) -> Bytes {
    let Some(at) = metadata_start(json).filter(|at| json[*at..].starts_with(FIELD)) else {
        return Bytes::copy_from_slice(json);
    };
    let digits = json[at + FIELD.len()..].iter().position(|it| *it == b'"').unwrap_or(0);
    splice(json, at, at + FIELD.len() + digits + 1, version, b"")
}

fn splice(json: &[u8], start: usize, end: usize, version: u64, separator: &[u8]) -> Bytes {
    let digits = version.to_string();
    let mut out = Vec::with_capacity(json.len() + FIELD.len() + digits.len() + 2);
    out.extend_from_slice(&json[..start]);
    out.extend_from_slice(FIELD);
    out.extend_from_slice(digits.as_bytes());
    out.push(b'"');
    out.extend_from_slice(separator);
    out.extend_from_slice(&json[end..]);
    Bytes::from(out)
}

/// Puts ownership into JSON that has none, where an encoder would have put it. `None` if there is
/// no metadata.
pub(crate) fn with_managed_fields(json: &[u8], entries: &[ManagedFieldsEntry]) -> Option<Bytes> {
    let start = metadata_start(json)?;
    let at = place_of(json, start, b"managedFields")?;
    let field = format!("\"managedFields\":{}", serde_json::to_string(entries).ok()?);
    let is_first = at == start;
    let is_last = json.get(at) == Some(&b'}');
    let mut out = Vec::with_capacity(json.len() + field.len() + 1);
    out.extend_from_slice(&json[..at]);
    if is_last && !is_first {
        out.push(b',');
    }
    out.extend_from_slice(field.as_bytes());
    if !is_last {
        out.push(b',');
    }
    out.extend_from_slice(&json[at..]);
    Some(out.into())
}

/// Where a field of that name goes among the fields from `at` on, which are in order: at the start
/// of the first one behind it, or at the brace that ends them.
fn place_of(json: &[u8], mut at: usize, name: &[u8]) -> Option<usize> {
    loop {
        if json.get(at) == Some(&b'}') {
            return Some(at);
        }
        let end = string_end(json, at)?;
        if &json[at + 1..end] > name {
            return Some(at);
        }
        // After the quote and the colon.
        at = value_end(json, end + 2)?;
        if json.get(at) == Some(&b',') {
            at += 1;
        }
    }
}

/// Behind the value that starts at `at`.
fn value_end(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = string_end(json, at)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// The JSON with another version of the same group as its apiVersion; `None` if there is nothing to
/// change.
pub(crate) fn with_api_version(json: &[u8], wanted: &str) -> Option<Bytes> {
    let place = api_version_place(json)?;
    let found = std::str::from_utf8(&json[place.clone()]).ok()?;
    let group = |it: &str| it.split_once('/').map(|it| it.0.to_owned());
    if found == wanted || group(found) != group(wanted) {
        return None;
    }
    let (before, after) = (&json[..place.start], &json[place.end..]);
    Some(Bytes::from([before, wanted.as_bytes(), after].concat()))
}

pub(crate) fn api_version_of(json: &[u8]) -> Option<&str> {
    std::str::from_utf8(&json[api_version_place(json)?]).ok()
}

/// Where the apiVersion stands. Versions have nothing in them that JSON would escape.
fn api_version_place(json: &[u8]) -> Option<Range<usize>> {
    let start = after_field(json, b"\"apiVersion\":\"")?;
    let length = json[start..].iter().position(|it| *it == b'"')?;
    Some(start..start + length)
}

/// The position after the `{` of the top-level `metadata`.
fn metadata_start(json: &[u8]) -> Option<usize> {
    after_field(json, b"\"metadata\":{")
}

/// The position after `key`, a field of the object itself with the first character of its value.
/// Our encoders write no blanks between tokens.
fn after_field(json: &[u8], key: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < json.len() {
        match json[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                if depth == 1 && json[at..].starts_with(key) {
                    return Some(at + key.len());
                }
                at = string_end(json, at)?;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position of the quote that closes the string opened at `at`.
fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match json.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use api::core::ConfigMap;
    use api::{Dynamic, Resource as _};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

    use super::{
        Unstamped, replace_version, served, with_api_version, with_managed_fields, with_version,
    };

    fn check(json: &str, expected: &str) {
        assert_eq!(with_version(json.as_bytes(), 7), expected.as_bytes());
    }

    #[test]
    fn the_version_goes_into_the_metadata_of_the_object_alone() {
        check(r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"7"}}"#);
        check(
            r#"{"a":{"metadata":{"x":1}},"b":"\"metadata\":{","metadata":{"name":"n"}}"#,
            r#"{"a":{"metadata":{"x":1}},"b":"\"metadata\":{","metadata":{"resourceVersion":"7","name":"n"}}"#,
        );
        check(r#"{"kind":"x"}"#, r#"{"kind":"x"}"#);
    }

    #[test]
    fn a_stamped_value_is_served_as_it_is() {
        for json in [r#"{"metadata":{}}"#, r#"{"kind":"x","metadata":{"name":"n"}}"#] {
            let unstamped = Unstamped::new(json.as_bytes()).expect("it has metadata");
            let stamped = unstamped.stamped(12);
            assert_eq!(stamped, with_version(json.as_bytes(), 12));
            assert!(unstamped.is(&stamped, 12) && !unstamped.is(&stamped, 1));
            assert_eq!(served(&stamped, 12).as_ptr(), stamped.as_ptr());
            // A value from elsewhere, or from before, is corrected.
            assert_eq!(served(&stamped, 1), with_version(json.as_bytes(), 1));
            assert_eq!(served(&json.to_owned().into(), 12), stamped);
            // An engine that cannot stamp gives back what it was given.
            assert!(unstamped.is(&unstamped.value, 12));
            assert_eq!(served(&unstamped.value, 12), stamped);
        }
        assert!(Unstamped::new(b"{}").is_none());
    }

    #[test]
    fn the_api_version_changes_within_its_group_alone() {
        let check = |json: &str, expected: Option<&str>| {
            let changed = with_api_version(json.as_bytes(), "example.com/v2");
            assert_eq!(changed.as_deref(), expected.map(str::as_bytes), "{json}");
        };
        check(
            r#"{"spec":{"apiVersion":"example.com/v1"},"apiVersion":"example.com/v1","kind":"x"}"#,
            Some(
                r#"{"spec":{"apiVersion":"example.com/v1"},"apiVersion":"example.com/v2","kind":"x"}"#,
            ),
        );
        check(r#"{"apiVersion":"example.com/v2"}"#, None);
        check(r#"{"apiVersion":"autoscaling/v1"}"#, None);
        check(r#"{"apiVersion":"v1"}"#, None);
        check("{}", None);
    }

    #[test]
    fn a_version_is_replaced_whatever_its_length() {
        let json = with_version(br#"{"metadata":{"name":"n"}}"#, 9);
        let expected = r#"{"metadata":{"resourceVersion":"1234","name":"n"}}"#;
        assert_eq!(replace_version(&json, 1234), expected.as_bytes());
    }

    #[test]
    fn ownership_is_put_where_an_encoder_puts_it() {
        let entry = ManagedFieldsEntry {
            manager: Some("kubectl".to_owned()),
            operation: Some("Update".to_owned()),
            ..ManagedFieldsEntry::default()
        };
        for metadata in [
            r#"{}"#,
            r#"{"name":"a"}"#,
            r#"{"labels":{"managedFields":"}","z":"\\\""}}"#,
            r#"{"annotations":{"a":"{[,"},"generation":7,"labels":{"b":"c"},"name":"a","uid":"u"}"#,
        ] {
            let json = format!(
                r#"{{"apiVersion":"v1","data":{{"k":"v"}},"kind":"ConfigMap","metadata":{metadata}}}"#
            );
            let mut object = ConfigMap::decode(json.as_bytes()).expect("a ConfigMap");
            let bare = object.encode();
            object.metadata.managed_fields = Some(vec![entry.clone()]);
            let put = with_managed_fields(&bare, std::slice::from_ref(&entry)).expect("metadata");
            assert_eq!(put, object.encode(), "{metadata}");
            let mut object = Dynamic::decode(json.as_bytes()).expect("an object");
            let bare = api::ApiObject::encode(&object);
            object.metadata.managed_fields = Some(vec![entry.clone()]);
            let put = with_managed_fields(&bare, std::slice::from_ref(&entry)).expect("metadata");
            assert_eq!(put, api::ApiObject::encode(&object), "{metadata}");
        }
    }
}
