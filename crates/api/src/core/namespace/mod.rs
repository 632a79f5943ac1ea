//! Namespace: where names live, and how it goes away.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;

use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;
use k8s_openapi::api::core::v1::{NamespaceSpec, NamespaceStatus};

use crate::check::{self, text};
use crate::kind::Part;

pub use k8s_openapi::api::core::v1::Namespace;

/// Holds a namespace until its content is gone; only `finalize` removes it.
pub const FINALIZER: &str = "kubernetes";

impl Resource for Namespace {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        // Present on every write, so that namespaces can be selected by name.
        if let Some(name) = self.metadata.name.clone().filter(|it| !it.is_empty()) {
            let labels = self.metadata.labels.get_or_insert_default();
            labels.insert("kubernetes.io/metadata.name".to_owned(), name);
        }
        let status = self.status.get_or_insert_default();
        if text(status.phase.as_ref()).is_empty() {
            status.phase = Some("Active".to_owned());
        }
    }

    fn prepare_create(&mut self) {
        let phase = Some("Active".to_owned());
        self.status = Some(NamespaceStatus { phase, ..NamespaceStatus::default() });
        let finalizers = self.spec.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|it| it == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => self.keep_spec(stored),
            Part::Other("finalize") => self.keep_status(stored),
            Part::Main | Part::Other(_) => {
                self.keep_status(stored);
                let finalizers = stored.spec.as_ref().and_then(|it| it.finalizers.clone());
                self.spec = Some(NamespaceSpec { finalizers });
            }
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::new("spec").child("finalizers");
        let finalizers = self.spec.iter().flat_map(|it| it.finalizers.iter().flatten());
        for finalizer in finalizers {
            check::format(finalizer, &is_qualified_name(finalizer), &path, errors);
            let is_standard =
                ["kubernetes", "foregroundDeletion", "orphan"].contains(&&**finalizer);
            if !finalizer.contains('/') && !is_standard {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                errors.invalid(&path, finalizer.as_str(), detail);
            }
        }
    }

    fn validate_update(&self, _stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part != Part::Status {
            return;
        }
        let path = Path::new("status").child("Phase");
        let phase = text(self.status.as_ref().and_then(|it| it.phase.as_ref()));
        if self.metadata.deletion_timestamp.is_none() && phase != "Active" {
            errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
        } else if self.metadata.deletion_timestamp.is_some() && phase != "Terminating" {
            let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            errors.invalid(&path, phase, detail);
        }
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Status", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let phase = text(self.status.as_ref().and_then(|it| it.phase.as_ref()));
        vec![cell::name(&self.metadata), Value::from(phase), cell::age(&self.metadata, now)]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let phase = text(self.status.as_ref().and_then(|it| it.phase.as_ref()));
        vec![("status.phase", phase.to_owned())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("status.phase", "status.phase"), ("name", "metadata.name")]
    }
}
