//! ResourceClaim: devices that somebody asks for, which of them they got, and who uses them.

mod allocated;
mod status;
#[cfg(test)]
mod tests;
pub mod v1beta1;
pub mod v1beta2;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::claims;
use crate::halves::keep_metadata;
use crate::kind::{Part, Resource};
use crate::{cell, check, codec, semantic, version};

pub use k8s_openapi::api::resource::v1::ResourceClaim;

/// Whoever asks for devices believes that they come.
pub(super) const NOT_ALLOCATED: &str =
    "spec: accepted, but devices are not allocated on this server";

impl Resource for ResourceClaim {
    codec!();
    spec_and_status!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "resource.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::ResourceClaim, Self>(json))
            }
            "resource.k8s.io/v1beta2" => {
                Some(version::convert_stored::<v1beta2::ResourceClaim, Self>(json))
            }
            _ => None,
        }
    }

    fn apply_defaults(&mut self) {
        claims::apply_defaults(&mut self.spec);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => {
                self.keep_spec(stored);
                keep_metadata(&mut self.metadata, &stored.metadata);
                allocated::drop_deallocated(self, stored);
            }
            Part::Main | Part::Other(_) => self.keep_status(stored),
        }
    }

    /// What is asked for is looked at when it is new: it never changes.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        claims::validate(&self.spec, &Path::new("spec"), errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part == Part::Status {
            return status::validate(self, stored, errors);
        }
        let is_same = semantic::equal_at("spec", self, stored);
        check::immutable(is_same, codec::tree(&self.spec), &Path::new("spec"), errors);
    }

    fn warnings(&self) -> Vec<String> {
        vec![NOT_ALLOCATED.to_owned()]
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("State", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), Value::from(state(self)), cell::age(&self.metadata, now)]
    }
}

/// `pending`, `allocated,reserved`, `deleted,allocated`, ...
fn state(claim: &ResourceClaim) -> String {
    let status = claim.status.as_ref();
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    let is_allocated = status.is_some_and(|it| it.allocation.is_some());
    let reserved = status.and_then(|it| it.reserved_for.as_ref());
    let is_reserved = is_allocated && reserved.is_some_and(|it| !it.is_empty());
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_allocated && !is_deleted),
        ("allocated", is_allocated),
        ("reserved", is_reserved),
    ];
    let holding: Vec<&str> = states.into_iter().filter(|it| it.1).map(|it| it.0).collect();
    holding.join(",")
}
