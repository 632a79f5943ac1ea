//! What the kinds that own pods by a selector share: how their pods are found, and who may take a
//! pod that nobody owns. Never by looking at all pods.

use std::sync::Arc;

use api::core::pod::PodView;
use api::{Identified as _, Resource};
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use informer::{IndexFn, Indexer};
use reconcile::{Change, Key, WorkQueue, owner_key};

use crate::owners::{BY_CONTROLLER, ORPHANS};
use crate::pods::ORPHANS_BY_LABEL;
use crate::{labels, owners, pods};

/// Index: a label that the owner's selector demands.
pub(crate) const BY_SELECTOR: &str = "selector";

/// The indexes that pods are found by.
pub(crate) const POD_INDEXES: &[(&str, IndexFn<PodView>)] = &[
    (BY_CONTROLLER, owners::index_by_controller),
    (ORPHANS, owners::index_orphans),
    (ORPHANS_BY_LABEL, pods::index_orphans_by_label),
];

/// A kind that owns the pods that its selector matches.
pub(crate) trait Workload: Resource {
    fn pod_selector(&self) -> Result<Labels, selector::Error>;
}

pub(crate) fn index_by_selector<T: Workload>(owner: &T) -> Vec<String> {
    let namespace = owners::namespace(owner.metadata());
    let selector = owner.pod_selector().ok();
    selector.and_then(|it| labels::selector_value(namespace, &it)).into_iter().collect()
}

/// The owners that a pod without one matches.
pub(crate) fn may_adopt<T: Workload>(owners: &Indexer<T>, pod: &PodView) -> Vec<ObjectKey> {
    if pod.meta.labels.is_empty() {
        return Vec::new();
    }
    let mut values = pods::index_by_label(pod);
    values.push(labels::index_value(pod.namespace(), "", ""));
    values
        .iter()
        .flat_map(|it| owners.by_index(BY_SELECTOR, it))
        .filter(|it| it.pod_selector().is_ok_and(|it| it.matches_with(|name| pod.label(name))))
        .map(|it| it.key())
        .collect()
}

/// Wakes the owners that a change of a pod concerns: those that have or had it, or may take it.
pub(crate) fn wake_owners<T: Workload, K: Key + From<ObjectKey>>(
    change: Change<'_, PodView>,
    owners: &Indexer<T>,
    queue: &WorkQueue<K>,
) {
    for pod in change.states() {
        let keys = match pod.controller() {
            Some(_) => owner_key(owners, &**pod).into_iter().collect(),
            None => may_adopt(owners, pod),
        };
        keys.into_iter().for_each(|it| queue.add(it.into()));
    }
}

/// The pods that the owner controls, and those of nobody that the selector may match: those with
/// one label that it asks for, if it asks for one.
pub(crate) fn candidates(
    pods: &Indexer<PodView>,
    owner_uid: &str,
    namespace: &str,
    selector: &Labels,
) -> Vec<Arc<PodView>> {
    let mut candidates = pods.by_index(BY_CONTROLLER, owner_uid);
    candidates.extend(match labels::exact(selector) {
        Some((key, value)) => {
            let value = labels::index_value(namespace, key, value);
            pods.by_index(ORPHANS_BY_LABEL, &value)
        }
        None => pods.by_index(ORPHANS, namespace),
    });
    candidates
}

/// Whether an owner's plan or counts could differ between two states of a pod.
pub(crate) fn is_relevant(before: &PodView, after: &PodView) -> bool {
    before.meta.uid != after.meta.uid
        || before.meta.labels != after.meta.labels
        || before.meta.owner_references != after.meta.owner_references
        || before.is_deleting() != after.is_deleting()
        || before.is_terminal() != after.is_terminal()
        || before.is_ready != after.is_ready
        || before.ready_since != after.ready_since
}
