//! The schema of one version: its text, and what is made of it when somebody first needs that. Most
//! definitions of a cluster have no objects that anybody writes.

use std::sync::{Arc, OnceLock};

use apimachinery::cel::rules::Rules;
use apimachinery::cel::schema::Role;
use apimachinery::schema::SchemaRef;
use serde_json::Value;

use super::stopwatch::{Stopwatch, Work};
use super::{read_schema, with_metadata};

pub(super) struct Schemas {
    /// As the author wrote it, in JSON.
    text: Arc<str>,
    compiled: OnceLock<Compiled>,
    /// The author's rules; `None` if there are none.
    rules: OnceLock<Option<Rules>>,
}

struct Compiled {
    own: SchemaRef,
    whole: SchemaRef,
}

impl Schemas {
    pub(super) fn new(text: Arc<str>) -> Self {
        Self { text, compiled: OnceLock::new(), rules: OnceLock::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As the author wrote it, for OpenAPI.
    pub(super) fn written(&self) -> Value {
        tree(&self.text)
    }

    /// What the author wrote: prunes, defaults and validates everything but metadata.
    pub(super) fn own(&self) -> &SchemaRef {
        &self.compiled().own
    }

    /// The same with apiVersion, kind and metadata.
    pub(super) fn whole(&self) -> &SchemaRef {
        &self.compiled().whole
    }

    pub(super) fn rules(&self, stopwatch: &dyn Stopwatch) -> Option<&Rules> {
        let compile = || {
            let mut rules = None;
            stopwatch.time(Work::Compilation, &mut || {
                rules = Rules::new(self.own(), Role::Resource);
            });
            rules
        };
        self.rules.get_or_init(compile).as_ref()
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let own = read_schema(&tree(&self.text));
            Compiled { whole: with_metadata(&own), own }
        })
    }
}

pub(super) fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
