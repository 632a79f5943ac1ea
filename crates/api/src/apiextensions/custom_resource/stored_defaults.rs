//! Defaults that stored objects may lack: the schema may have got them after an object was stored,
//! or in another version than the one it was written in. Nearly all objects lack none, and finding
//! that out takes a parse: each is told once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use apimachinery::schema::SchemaRef;

use super::kept::Kept;
use super::schemas::tree;
use super::stopwatch::Stopwatch;
use super::{read_schema, with_tree};
use crate::object::{Dynamic, Stored};

pub(super) struct StoredDefaults {
    group: String,
    /// Of every version, by name.
    texts: Vec<(String, Arc<str>)>,
    /// Told when something is compiled.
    stopwatch: Arc<dyn Stopwatch>,
    /// Stands for the schemas; `None` if none has defaults. Known from the first read on.
    id: OnceLock<Option<u64>>,
    /// Needed for objects that nobody has looked at yet.
    schemas: Kept<Schemas>,
}

/// Of every version that has defaults, by apiVersion: objects may be stored in any.
type Schemas = BTreeMap<String, SchemaRef>;

impl StoredDefaults {
    pub(super) fn of(
        group: &str,
        texts: Vec<(String, Arc<str>)>,
        stopwatch: Arc<dyn Stopwatch>,
    ) -> Self {
        let (group, id) = (group.to_owned(), OnceLock::new());
        Self { group, texts, stopwatch, id, schemas: Kept::nothing() }
    }

    fn schemas(&self) -> Arc<Schemas> {
        let (schemas, is_new) = self.schemas.get(|| {
            let versions = self.texts.iter().map(|(version, text)| {
                (format!("{}/{version}", self.group), read_schema(&tree(text)))
            });
            versions.filter(|it| it.1.has_defaults()).collect()
        });
        if is_new {
            self.stopwatch.compiled();
        }
        schemas
    }

    fn id(&self) -> Option<u64> {
        *self.id.get_or_init(|| {
            let schemas = self.schemas();
            let mut hasher = DefaultHasher::new();
            for (version, text) in &self.texts {
                let name = format!("{}/{version}", self.group);
                if schemas.contains_key(&name) {
                    (name, text).hash(&mut hasher);
                }
            }
            (!schemas.is_empty()).then(|| hasher.finish().max(1))
        })
    }

    /// The object with what it lacks; `None` if it lacks nothing.
    pub(super) fn complete(&self, stored: &Stored) -> Option<Dynamic> {
        let id = self.id()?;
        if stored.is_known_complete(id) {
            return None;
        }
        let completed = fill_in(&self.schemas(), &stored.bytes);
        if completed.is_none() {
            stored.know_complete(id);
        }
        completed
    }

    pub(super) fn is_compiled(&self) -> bool {
        self.schemas.is_made()
    }

    pub(super) fn sweep(&self) {
        self.schemas.sweep();
    }
}

fn fill_in(schemas: &Schemas, json: &[u8]) -> Option<Dynamic> {
    let mut object = Dynamic::decode(json).ok()?;
    let schema = schemas.get(&object.api_version)?;
    let is_changed = with_tree(&mut object.rest, |it| schema.apply_defaults(it));
    is_changed.then_some(object)
}
