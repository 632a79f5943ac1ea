//! What the tests of kinds share: manifest in; problems, defaults or cells out.

use jiff::Timestamp;
use serde_json::Value;

use apimachinery::FieldErrors;

use crate::kind::{Part, Resource};
use crate::version::Version;

/// A manifest as the server has it when defaults are filled in.
pub(crate) fn defaulted<T: Resource>(manifest: Value) -> T {
    let mut object = T::decode(manifest.to_string().as_bytes()).expect("the manifest decodes");
    object.apply_defaults();
    object
}

pub(crate) fn created<T: Resource>(manifest: Value) -> T {
    let mut object = defaulted::<T>(manifest);
    object.prepare_create();
    object
}

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Problems on create.
pub(crate) fn check<T: Resource>(manifest: Value, expected: &[&str]) {
    let object = created::<T>(manifest);
    let mut errors = FieldErrors::new();
    object.validate(&mut errors);
    object.validate_create(&mut errors);
    assert_eq!(texts(&errors), expected);
}

/// Problems when `manifest` is written over `stored`.
pub(crate) fn check_update<T: Resource>(
    stored: &T,
    manifest: Value,
    part: Part,
    expected: &[&str],
) {
    let mut object = defaulted::<T>(manifest);
    object.prepare_update(stored, part);
    let mut errors = FieldErrors::new();
    if T::FACTS.judges_changes_first {
        object.validate_update(stored, part, &mut errors);
        object.validate(&mut errors);
    } else {
        object.validate(&mut errors);
        object.validate_update(stored, part, &mut errors);
    }
    assert_eq!(texts(&errors), expected);
}

/// What defaults and creation make of a manifest, at one JSON pointer.
pub(crate) fn check_created<T: Resource>(manifest: Value, pointer: &str, expected: Value) {
    let object: Value =
        serde_json::from_slice(&created::<T>(manifest).encode()).expect("objects encode as JSON");
    assert_eq!(object.pointer(pointer).cloned().unwrap_or_default(), expected, "at {pointer}");
}

pub(crate) fn check_row<T: Resource>(manifest: Value, now: &str, expected: Value) {
    let object = defaulted::<T>(manifest);
    let now: Timestamp = now.parse().expect("a timestamp");
    let row = object.row(now);
    assert_eq!(row.len(), T::columns().len(), "one cell per column");
    assert_eq!(Value::from(row), expected);
}

/// Nothing of a stored object is lost in another version.
pub(crate) fn check_there_and_back<V: Version<Hub>, Hub: Resource>(hub: &Hub) {
    let served = V::from_hub(hub);
    let json = |it: &Hub| serde_json::from_slice::<Value>(&it.encode()).expect("JSON");
    let decoded = V::decode(&served.encode()).expect("what is served can be read");
    assert_eq!(json(&decoded.into_hub()), json(hub));
}
