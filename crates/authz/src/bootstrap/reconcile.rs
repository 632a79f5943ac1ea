//! What an existing bootstrap object lacks: rules and subjects come back, additions of others stay.
//! Pure.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::AUTOUPDATE;
use crate::cover;

/// A kind that can be brought back to what it must at least contain.
pub trait Reconcile: Clone {
    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// Adds what `wanted` has and this object lacks; says whether anything was added.
    fn extend(&mut self, wanted: &Self) -> bool;
}

/// The object to write in place of `existing`; nothing when it has all of `wanted`, or when its
/// owner opted out.
pub fn reconcile<T: Reconcile>(existing: &T, wanted: &T) -> Option<T> {
    let annotations = existing.metadata().annotations.as_ref();
    if annotations.and_then(|it| it.get(AUTOUPDATE)).is_some_and(|it| it == "false") {
        return None;
    }
    let mut updated = existing.clone();
    let mut is_changed = updated.extend(wanted);
    is_changed |= extend_metadata(updated.metadata_mut(), wanted.metadata());
    is_changed.then_some(updated)
}

/// Labels and annotations that are absent; those that somebody changed are theirs.
fn extend_metadata(meta: &mut ObjectMeta, wanted: &ObjectMeta) -> bool {
    let mut is_changed = false;
    let maps = [(&mut meta.labels, &wanted.labels), (&mut meta.annotations, &wanted.annotations)];
    for (map, wanted) in maps {
        for (key, value) in wanted.iter().flatten() {
            let map = map.get_or_insert_default();
            if !map.contains_key(key) {
                map.insert(key.clone(), value.clone());
                is_changed = true;
            }
        }
    }
    is_changed
}

fn extend_rules(rules: &mut Option<Vec<PolicyRule>>, wanted: &Option<Vec<PolicyRule>>) -> bool {
    let existing = rules.as_deref().unwrap_or_default();
    let missing: Vec<PolicyRule> = wanted
        .iter()
        .flatten()
        .filter(|it| !existing.contains(it))
        .filter(|it| !matches!(cover::missing(existing, std::slice::from_ref(it)), Ok(None)))
        .cloned()
        .collect();
    let is_changed = !missing.is_empty();
    if is_changed {
        rules.get_or_insert_default().extend(missing);
    }
    is_changed
}

fn extend_subjects(subjects: &mut Option<Vec<Subject>>, wanted: &Option<Vec<Subject>>) -> bool {
    let existing = subjects.as_deref().unwrap_or_default();
    let missing: Vec<Subject> =
        wanted.iter().flatten().filter(|it| !existing.contains(it)).cloned().collect();
    let is_changed = !missing.is_empty();
    if is_changed {
        subjects.get_or_insert_default().extend(missing);
    }
    is_changed
}

macro_rules! reconcile {
    ($kind:ty, $self:ident, $wanted:ident => $extend:expr) => {
        impl Reconcile for $kind {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }

            fn extend(&mut $self, $wanted: &Self) -> bool {
                $extend
            }
        }
    };
}

reconcile!(ClusterRole, self, wanted => {
    let is_aggregated = self.aggregation_rule.is_none() && wanted.aggregation_rule.is_some();
    if is_aggregated {
        self.aggregation_rule.clone_from(&wanted.aggregation_rule);
    }
    extend_rules(&mut self.rules, &wanted.rules) || is_aggregated
});
reconcile!(Role, self, wanted => extend_rules(&mut self.rules, &wanted.rules));
reconcile!(ClusterRoleBinding, self, wanted => extend_subjects(&mut self.subjects, &wanted.subjects));
reconcile!(RoleBinding, self, wanted => extend_subjects(&mut self.subjects, &wanted.subjects));
