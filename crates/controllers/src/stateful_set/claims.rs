//! The claims of a StatefulSet's pods: which there should be, and who they go with. Pure.

use std::sync::Arc;

use api::apps::StatefulSet;
use api::core::persistent_volume_claim::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::identity;
use crate::owners;

/// One write of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(Box<PersistentVolumeClaim>),
    /// With other owners; whether somebody else is the controller, so that retention is not ours.
    Update {
        claim: Box<PersistentVolumeClaim>,
        is_foreign: bool,
    },
}

/// Whose claims are asked about.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    pub set: &'a StatefulSet,
    pub ordinal: i64,
    /// Empty: the pod is not there yet.
    pub pod_uid: &'a str,
    /// Whether the set still wants the ordinal.
    pub is_wanted: bool,
}

/// Looks a claim of the set's namespace up by name.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>;

pub(super) fn claim_name(
    set: &StatefulSet,
    template: &PersistentVolumeClaim,
    ordinal: i64,
) -> String {
    format!("{}-{}", owners::name(&template.metadata), identity::pod_name(set, ordinal))
}

pub(super) fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|it| it.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// Whether the set has a claim of this name, for whichever ordinal.
pub(super) fn is_claim_of(set: &StatefulSet, claim: &str) -> bool {
    let of_template = |it: &PersistentVolumeClaim| {
        let rest = claim.strip_prefix(owners::name(&it.metadata));
        let pod = rest.and_then(|it| it.strip_prefix('-'));
        pod.is_some_and(|it| identity::ordinal(owners::name(&set.metadata), it).is_some())
    };
    templates(set).iter().any(of_template)
}

impl Holder<'_> {
    fn pod_name(&self) -> String {
        identity::pod_name(self.set, self.ordinal)
    }

    /// Those that are missing, with the owners that they should have.
    pub(super) fn missing(&self, claim: Lookup<'_>) -> Vec<Write> {
        let absent = templates(self.set)
            .iter()
            .filter(|it| claim(&claim_name(self.set, it, self.ordinal)).is_none());
        absent.map(|it| Write::Create(Box::new(self.made(it)))).collect()
    }

    /// One that is being deleted: a pod must not be made for it.
    pub(super) fn ending(&self, claim: Lookup<'_>) -> Option<String> {
        let mut names = templates(self.set).iter().map(|it| claim_name(self.set, it, self.ordinal));
        names.find(|it| claim(it).is_some_and(|it| owners::is_deleting(&it.metadata)))
    }

    /// One that goes with an earlier pod of this name, where claims go with pods: the next pod
    /// waits until it is gone.
    pub(super) fn stale(&self, claim: Lookup<'_>) -> Option<String> {
        if !goes(self.set, When::Scaled) {
            return None;
        }
        let pod = self.pod_name();
        let is_stale = |it: &PersistentVolumeClaim| {
            let owner = references(it).iter().find(|it| names_pod(it, &pod));
            owner.is_some_and(|it| it.uid != self.pod_uid)
        };
        let mut names = templates(self.set).iter().map(|it| claim_name(self.set, it, self.ordinal));
        names.find(|it| claim(it).is_some_and(|it| is_stale(&it)))
    }

    /// Those whose owners are not as the retention policy has them.
    pub(super) fn misowned(&self, claim: Lookup<'_>) -> Vec<Write> {
        let there = templates(self.set)
            .iter()
            .filter_map(|it| claim(&claim_name(self.set, it, self.ordinal)));
        there.filter_map(|it| self.corrected(&it)).collect()
    }

    fn made(&self, template: &PersistentVolumeClaim) -> PersistentVolumeClaim {
        let name = claim_name(self.set, template, self.ordinal);
        let meta = template.metadata.clone();
        let mut labels = meta.labels.unwrap_or_default();
        let selector = self.set.spec.as_ref().map(|it| &it.selector);
        let matched = selector.and_then(|it| it.match_labels.clone());
        labels.extend(matched.unwrap_or_default());
        let owners: Vec<OwnerReference> = self.wanted_owner().into_iter().collect();
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.set.metadata.namespace.clone(),
                labels: (!labels.is_empty()).then_some(labels),
                annotations: meta.annotations,
                finalizers: meta.finalizers,
                owner_references: (!owners.is_empty()).then_some(owners),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    }

    /// Whom a claim goes with.
    fn wanted_owner(&self) -> Option<OwnerReference> {
        let goes_with_pod = goes(self.set, When::Scaled) && !self.is_wanted;
        if goes_with_pod && !self.pod_uid.is_empty() {
            return Some(OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: self.pod_name(),
                uid: self.pod_uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            });
        }
        let goes_with_set = goes(self.set, When::Deleted) && !goes_with_pod;
        goes_with_set.then(|| owners::controller_reference(self.set))
    }

    fn corrected(&self, claim: &PersistentVolumeClaim) -> Option<Write> {
        let (pod, set) = (self.pod_name(), owners::uid(&self.set.metadata));
        let set_name = owners::name(&self.set.metadata);
        let names_set = |it: &OwnerReference| {
            it.kind == "StatefulSet" && it.api_version == "apps/v1" && it.name == set_name
        };
        let is_other = |it: &OwnerReference| {
            (names_set(it) && it.uid != set) || (names_pod(it, &pod) && it.uid != self.pod_uid)
        };
        // It goes with an earlier set or pod of this name, and is as good as gone.
        if references(claim).iter().any(is_other) {
            return None;
        }
        let is_ours = |it: &&OwnerReference| names_set(it) || names_pod(it, &pod);
        let (ours, others): (Vec<_>, Vec<_>) = references(claim).iter().partition(is_ours);
        let has_policy = goes(self.set, When::Scaled) || goes(self.set, When::Deleted);
        let is_foreign = has_policy && others.iter().any(|it| it.controller == Some(true));
        let wanted = self.wanted_owner().filter(|_| !is_foreign);
        let is_right = ours.len() == usize::from(wanted.is_some())
            && ours.iter().all(|it| {
                it.controller == Some(true)
                    && wanted.as_ref().is_some_and(|wanted| wanted.uid == it.uid)
            });
        if is_right {
            return None;
        }
        let mut owners: Vec<OwnerReference> = others.into_iter().cloned().collect();
        owners.extend(wanted);
        let mut claim = claim.clone();
        claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
        Some(Write::Update { claim: Box::new(claim), is_foreign })
    }
}

fn references(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

fn names_pod(reference: &OwnerReference, pod: &str) -> bool {
    reference.kind == "Pod" && reference.api_version == "v1" && reference.name == pod
}

enum When {
    Deleted,
    Scaled,
}

/// Whether claims are deleted then.
fn goes(set: &StatefulSet, when: When) -> bool {
    let spec = set.spec.as_ref();
    let policy = spec.and_then(|it| it.persistent_volume_claim_retention_policy.as_ref());
    let said = policy.and_then(|it| match when {
        When::Deleted => it.when_deleted.as_deref(),
        When::Scaled => it.when_scaled.as_deref(),
    });
    said == Some("Delete")
}
