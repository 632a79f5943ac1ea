//! Defaults that stored objects may lack: the schema may have got them after an object was stored,
//! or in another version than the one it was written in. Nearly all objects lack none, and finding
//! that out takes a parse: each is told once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use apimachinery::schema::SchemaRef;

use super::schemas::tree;
use super::{read_schema, with_tree};
use crate::object::{Dynamic, Stored};

pub(super) struct StoredDefaults {
    group: String,
    /// Of every version, by name.
    texts: Vec<(String, Arc<str>)>,
    /// Made when an object is first read.
    compiled: OnceLock<Compiled>,
}

struct Compiled {
    /// Of every version that has defaults, by apiVersion: objects may be stored in any.
    schemas: BTreeMap<String, SchemaRef>,
    /// Stands for the schemas; not 0.
    id: u64,
}

impl StoredDefaults {
    pub(super) fn of(group: &str, texts: Vec<(String, Arc<str>)>) -> Self {
        Self { group: group.to_owned(), texts, compiled: OnceLock::new() }
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            let mut schemas = BTreeMap::new();
            for (version, text) in &self.texts {
                let schema = read_schema(&tree(text));
                if schema.has_defaults() {
                    let name = format!("{}/{version}", self.group);
                    (&name, text).hash(&mut hasher);
                    schemas.insert(name, schema);
                }
            }
            Compiled { schemas, id: hasher.finish().max(1) }
        })
    }

    /// The object with what it lacks; `None` if it lacks nothing.
    pub(super) fn complete(&self, stored: &Stored) -> Option<Dynamic> {
        let Compiled { schemas, id } = self.compiled();
        if schemas.is_empty() || stored.is_known_complete(*id) {
            return None;
        }
        let completed = fill_in(schemas, &stored.bytes);
        if completed.is_none() {
            stored.know_complete(*id);
        }
        completed
    }
}

fn fill_in(schemas: &BTreeMap<String, SchemaRef>, json: &[u8]) -> Option<Dynamic> {
    let mut object = Dynamic::decode(json).ok()?;
    let schema = schemas.get(&object.api_version)?;
    let is_changed = with_tree(&mut object.rest, |it| schema.apply_defaults(it));
    is_changed.then_some(object)
}
