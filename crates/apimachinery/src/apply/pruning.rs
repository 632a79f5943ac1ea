//! What a manager applied last time and does not apply now goes, unless somebody else owns it. Each
//! owner is asked in its own version.

use serde_json::{Map, Value, json};

use super::compare::{self, Mode};
use super::entries::Entry;
use super::{Error, FieldSet, Versions, merge};

/// `merged` and what is returned are in the version of the writer, and so is what it applies now.
pub(super) fn prune(
    versions: &dyn Versions,
    merged: Value,
    previous: &Entry,
    (api_version, applied): (&str, &FieldSet),
    others: &[Entry],
) -> Result<Value, Error> {
    // Where there is no such version, nobody can tell what was applied.
    let Some(schema) = versions.schema(&previous.api_version) else { return Ok(merged) };
    let owners = Owners { own: (api_version, applied), others };
    if previous.api_version == api_version && owners.versions().is_empty() {
        let mut object = merged;
        let keep = owners.in_version(api_version);
        merge::prune(&schema, &mut object, previous.fields.root(), Some(keep.root()));
        return Ok(object);
    }
    let at = previous.api_version.as_str();
    let convert = |object: &Value, from: &str, to: &str| match from == to {
        true => Ok(object.clone()),
        false => versions.convert(object, to),
    };
    let mut pruned = convert(&merged, api_version, at)?;
    let keep = owners.in_version(at);
    merge::prune(&schema, &mut pruned, previous.fields.root(), Some(keep.root()));
    let mut pruned_at = at.to_owned();
    for version in std::iter::once(api_version).chain(owners.versions()).filter(|it| *it != at) {
        let Some(schema) = versions.schema(version) else { continue };
        let mut whole = convert(&merged, api_version, version)?;
        let without = convert(&pruned, &pruned_at, version)?;
        let gone = compare::compare(&schema, Some(&whole), &without).removed;
        let mut keep = owners.in_version(version);
        keep.union_with(&compare::field_set(&schema, &without, Mode::Updated));
        merge::prune(&schema, &mut whole, gone.root(), Some(keep.root()));
        (pruned, pruned_at) = (whole, version.to_owned());
    }
    Ok(convert(&pruned, &pruned_at, api_version)?)
}

/// Who keeps fields: the writer, and everybody else.
struct Owners<'a> {
    own: (&'a str, &'a FieldSet),
    others: &'a [Entry],
}

impl<'a> Owners<'a> {
    /// Other versions than the writer's, each once.
    fn versions(&self) -> Vec<&'a str> {
        let mut versions: Vec<&str> =
            self.others.iter().map(|it| it.api_version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions.retain(|it| *it != self.own.0);
        versions
    }

    fn in_version(&self, version: &str) -> FieldSet {
        let mut keep = if version == self.own.0 { self.own.1.clone() } else { FieldSet::default() };
        for entry in self.others.iter().filter(|it| it.api_version == version) {
            keep.union_with(&entry.fields);
        }
        // Metadata itself is never removed: what the server keeps there is in nobody's set.
        let mut metadata = Map::new();
        metadata.insert("f:metadata".to_owned(), json!({"f:name": {}}));
        keep.union_with(&FieldSet::new(Some(metadata)));
        keep
    }
}
