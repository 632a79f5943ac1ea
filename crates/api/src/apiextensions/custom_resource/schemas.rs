//! The schema of one version: its text, and what is made of it while somebody needs that. Most
//! definitions of a cluster have no objects that anybody writes.

use std::sync::Arc;

use apimachinery::cel::rules::Rules;
use apimachinery::cel::schema::Role;
use apimachinery::schema::SchemaRef;
use serde_json::Value;

use super::kept::Kept;
use super::stopwatch::{Of, Stopwatch, Work};
use super::{read_schema, with_metadata};

pub(super) struct Schemas {
    /// As the author wrote it, in JSON.
    text: Arc<str>,
    /// Told when something is compiled.
    stopwatch: Arc<dyn Stopwatch>,
    compiled: Kept<Compiled>,
    /// The author's rules; `None` if there are none.
    rules: Kept<Option<Rules>>,
}

struct Compiled {
    own: SchemaRef,
    whole: SchemaRef,
}

impl Schemas {
    pub(super) fn new(text: Arc<str>, stopwatch: Arc<dyn Stopwatch>) -> Self {
        Self { text, stopwatch, compiled: Kept::nothing(), rules: Kept::nothing() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As the author wrote it, for OpenAPI.
    pub(super) fn written(&self) -> Value {
        tree(&self.text)
    }

    /// What the author wrote: prunes, defaults and validates everything but metadata.
    pub(super) fn own(&self) -> SchemaRef {
        self.compiled().own.clone()
    }

    /// The same with apiVersion, kind and metadata.
    pub(super) fn whole(&self) -> SchemaRef {
        self.compiled().whole.clone()
    }

    pub(super) fn rules(&self) -> Arc<Option<Rules>> {
        let laps = Of(Work::Compilation, self.stopwatch.as_ref());
        let compile = || Rules::timed(&self.own(), Role::Resource, &laps);
        let (rules, is_new) = self.rules.get(compile);
        self.tell(is_new);
        rules
    }

    fn compiled(&self) -> Arc<Compiled> {
        let (compiled, is_new) = self.compiled.get(|| {
            let own = read_schema(&tree(&self.text));
            Compiled { whole: with_metadata(&own), own }
        });
        self.tell(is_new);
        compiled
    }

    fn tell(&self, is_new: bool) {
        if is_new {
            self.stopwatch.compiled();
        }
    }

    pub(super) fn is_compiled(&self) -> bool {
        self.compiled.is_made() || self.rules.is_made()
    }

    pub(super) fn sweep(&self) {
        self.compiled.sweep();
        self.rules.sweep();
    }
}

pub(super) fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
