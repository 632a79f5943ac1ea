//! How a Deployment knows its ReplicaSets: template hashes, revisions and the annotations that
//! carry them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};

pub(crate) const HASH_LABEL: &str = "pod-template-hash";
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations that a ReplicaSet does not take over from its Deployment.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// Letters that spell no words, as in generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH: usize = 10;

/// A name for the template that is the same as long as the template is. `collisions` picks another
/// one when the first is taken by a different template.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(serde_json::to_vec(template).expect("a pod template is JSON"));
    if let Some(collisions) = collisions {
        hasher.update(collisions.to_le_bytes());
    }
    let digest = hasher.finalize();
    let mut number = digest.iter().take(8).fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let base = ALPHABET.len() as u64;
    let mut text = String::with_capacity(HASH_LENGTH);
    for _ in 0..HASH_LENGTH {
        let digit = usize::try_from(number % base).expect("smaller than the alphabet");
        text.push(char::from(ALPHABET[digit]));
        number /= base;
    }
    text
}

/// Whether a ReplicaSet that has the name we wanted is our own earlier write, which the cache does
/// not show yet. Otherwise it is of another template with the same hash, or somebody else's.
pub(crate) fn is_own(live: &ReplicaSet, deployment: &Deployment) -> bool {
    let owner = live.controller().map(|it| it.uid.as_str());
    let template = deployment.spec.as_ref().map(|it| &it.template);
    owner == deployment.metadata.uid.as_deref()
        && template.is_some_and(|it| is_of_template(live, it))
}

/// The ReplicaSet that was made for the Deployment's present template: the oldest, if there are
/// more.
pub(crate) fn current(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
) -> Option<Arc<ReplicaSet>> {
    let wanted = &deployment.spec.as_ref()?.template;
    let mut matching: Vec<&Arc<ReplicaSet>> =
        replica_sets.iter().filter(|it| is_of_template(it, wanted)).collect();
    matching.sort_by_key(|it| age_key(it));
    matching.first().map(|it| Arc::clone(it))
}

pub(crate) fn is_of_template(replica_set: &ReplicaSet, wanted: &PodTemplateSpec) -> bool {
    let Some(template) = replica_set.spec.as_ref().and_then(|it| it.template.as_ref()) else {
        return false;
    };
    template.spec == wanted.spec
        && is_same_meta(template.metadata.as_ref(), wanted.metadata.as_ref())
}

/// The hash is ours and not the user's; absent and empty are the same. Nothing is cloned: this runs
/// for every ReplicaSet in every reconcile.
fn is_same_meta(one: Option<&ObjectMeta>, two: Option<&ObjectMeta>) -> bool {
    let no_meta = ObjectMeta::default();
    let (one, two) = (one.unwrap_or(&no_meta), two.unwrap_or(&no_meta));
    pairs(one.labels.as_ref()).eq(pairs(two.labels.as_ref()))
        && pairs(one.annotations.as_ref()).eq(pairs(two.annotations.as_ref()))
        && one.finalizers.as_deref().unwrap_or_default()
            == two.finalizers.as_deref().unwrap_or_default()
}

fn pairs(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&String, &String)> {
    map.unwrap_or(&NONE).iter().filter(|(key, _)| *key != HASH_LABEL)
}

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// Sorts the oldest first.
pub(crate) fn age_key(replica_set: &ReplicaSet) -> (jiff::Timestamp, String) {
    let meta = &replica_set.metadata;
    let created = meta.creation_timestamp.as_ref().map_or(jiff::Timestamp::MAX, |it| it.0);
    (created, meta.name.clone().unwrap_or_default())
}

pub(crate) fn revision(annotations: Option<&BTreeMap<String, String>>) -> i64 {
    annotations.and_then(|it| it.get(REVISION)).and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// The number of a template that is new, or that comes back.
pub(crate) fn next_revision(old: &[Arc<ReplicaSet>]) -> i64 {
    old.iter().map(|it| revision(it.metadata.annotations.as_ref())).max().unwrap_or(0) + 1
}

/// The annotations that the current ReplicaSet should have. A ReplicaSet that is used again gets a
/// new revision and keeps its former ones in its history.
pub(crate) fn annotations(
    deployment: &Deployment,
    stored: Option<&BTreeMap<String, String>>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut annotations = stored.cloned().unwrap_or_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let former = self::revision(stored);
    if former < revision {
        annotations.insert(REVISION.to_owned(), revision.to_string());
        if former > 0 {
            let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
            if !history.is_empty() {
                history.push(',');
            }
            history.push_str(&former.to_string());
        }
    }
    annotations
}

pub(crate) fn number(replica_set: &ReplicaSet, annotation: &str) -> Option<i32> {
    replica_set.metadata.annotations.as_ref()?.get(annotation)?.parse().ok()
}
