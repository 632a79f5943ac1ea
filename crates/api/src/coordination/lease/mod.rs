//! Lease: who holds what, and until when.

#[cfg(test)]
mod tests;
mod view;

use apimachinery::FieldErrors;

use crate::kind::{Part, Relaxed, Resource};

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::check::{self, text};
use crate::coordination::strategy;
use apimachinery::field::Path;

pub use view::LeaseView;

pub use k8s_openapi::api::coordination::v1::Lease;

impl Resource for Lease {
    /// The heartbeats of nodes. A component's own lease says who leads: that must not be forgotten.
    const RELAXED: Relaxed = Relaxed::InNamespace("kube-node-lease");

    codec!();

    fn prepare_create(&mut self) {
        drop_coordination(self, None);
    }

    fn prepare_update(&mut self, stored: &Self, _part: Part) {
        drop_coordination(self, Some(stored));
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let Some(spec) = &self.spec else { return };
        if let Some(seconds) = spec.lease_duration_seconds.filter(|it| *it <= 0) {
            let path = path.child("leaseDurationSeconds");
            errors.invalid(&path, seconds, "must be greater than 0");
        }
        if let Some(transitions) = spec.lease_transitions {
            check::non_negative(transitions, &path.child("leaseTransitions"), errors);
        }
        if let Some(it) = &spec.strategy {
            strategy::validate(it, &path.child("strategy"), errors);
        }
        let is_preferring = !text(spec.preferred_holder.as_ref()).is_empty();
        if is_preferring && text(spec.strategy.as_ref()).is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.forbidden(&path.child("preferredHolder"), detail);
        }
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Holder", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let holder = self.spec.as_ref().and_then(|it| it.holder_identity.as_ref());
        vec![cell::name(&self.metadata), Value::from(text(holder)), cell::age(&self.metadata, now)]
    }
}

/// Leaders are elected by the server only where the gate CoordinatedLeaderElection is on, which it
/// is not: what the election would need is dropped, unless it is there already.
fn drop_coordination(lease: &mut Lease, stored: Option<&Lease>) {
    let stored = stored.and_then(|it| it.spec.as_ref());
    let Some(spec) = &mut lease.spec else { return };
    if stored.is_none_or(|it| it.strategy.is_none()) {
        spec.strategy = None;
    }
    if stored.is_none_or(|it| it.preferred_holder.is_none()) {
        spec.preferred_holder = None;
    }
}
