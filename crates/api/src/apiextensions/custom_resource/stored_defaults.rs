//! Defaults that stored objects may lack: the schema may have got them after an object was stored,
//! or in another version than the one it was written in. Nearly all objects lack none, and finding
//! that out takes a parse: each is told once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use apimachinery::schema::SchemaRef;

use super::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, read_schema, with_tree, written,
};
use crate::object::{Dynamic, Stored};

pub(super) struct StoredDefaults {
    /// Of every version that has defaults, by apiVersion: objects may be stored in any.
    schemas: BTreeMap<String, SchemaRef>,
    /// Stands for the schemas; not 0.
    id: u64,
}

impl StoredDefaults {
    pub(super) fn of(crd: &CustomResourceDefinition) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut schemas = BTreeMap::new();
        for version in &crd.spec.versions {
            let written = written(version);
            let schema = read_schema(&written);
            if schema.has_defaults() {
                let name = api_version(crd, version);
                (&name, written.to_string()).hash(&mut hasher);
                schemas.insert(name, schema);
            }
        }
        Self { schemas, id: hasher.finish().max(1) }
    }

    /// The object with what it lacks; `None` if it lacks nothing.
    pub(super) fn complete(&self, stored: &Stored) -> Option<Dynamic> {
        if self.schemas.is_empty() || stored.is_known_complete(self.id) {
            return None;
        }
        let completed = self.fill_in(&stored.bytes);
        if completed.is_none() {
            stored.know_complete(self.id);
        }
        completed
    }

    fn fill_in(&self, json: &[u8]) -> Option<Dynamic> {
        let mut object = Dynamic::decode(json).ok()?;
        let schema = self.schemas.get(&object.api_version)?;
        let is_changed = with_tree(&mut object.rest, |it| schema.apply_defaults(it));
        is_changed.then_some(object)
    }
}

fn api_version(
    crd: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
) -> String {
    format!("{}/{}", crd.spec.group, version.name)
}
