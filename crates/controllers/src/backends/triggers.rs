//! When the change happened that endpoints are written for: the annotation that tells how long it
//! took until they had it. Of what has changed since the last look the earliest counts: pods by when
//! they became ready or stopped being so, a Service by when it was made (upstream's
//! `TriggerTimeTracker`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Identified as _;
use api::core::pod::PodView;
use api::core::service::Service;
use apimachinery::ObjectKey;
use jiff::Timestamp;

const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What was seen of each Service when its endpoints were last right.
#[derive(Default)]
pub(crate) struct Triggers {
    seen: Mutex<BTreeMap<ObjectKey, Seen>>,
}

/// Times of one Service and of its pods, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl Triggers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the first of the changes since the last look happened, if any has a time; and what is
    /// to be kept once endpoints are written.
    pub(crate) fn look(
        &self,
        key: &ObjectKey,
        service: &Service,
        pods: &[Arc<PodView>],
    ) -> (Option<Timestamp>, Seen) {
        let created = service.metadata.creation_timestamp.as_ref().map(|it| it.0);
        let times = pods.iter().filter_map(|it| Some((it.key().name, it.ready_changed?)));
        let now = Seen { service: created, pods: times.collect() };
        let all = self.lock();
        let Some(before) = all.get(key) else { return (created, now) };
        let pods = now
            .pods
            .iter()
            .filter(|(name, at)| before.pods.get(*name).is_none_or(|before| before < *at));
        let service = created.filter(|it| before.service.is_none_or(|before| before < *it));
        let first = pods.map(|(_, at)| *at).chain(service).min();
        drop(all);
        (first, now)
    }

    /// Endpoints show what was seen.
    pub(crate) fn keep(&self, key: &ObjectKey, seen: Seen) {
        self.lock().insert(key.clone(), seen);
    }

    /// The Service is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

/// Says of what is written why it is; without a time, nothing, and no longer what was said before.
pub(crate) fn annotate(
    annotations: &mut Option<BTreeMap<String, String>>,
    trigger: Option<Timestamp>,
) {
    let mut all = annotations.take().unwrap_or_default();
    match trigger {
        Some(time) => _ = all.insert(ANNOTATION.to_owned(), time.to_string()),
        None => _ = all.remove(ANNOTATION),
    }
    *annotations = (!all.is_empty()).then_some(all);
}

/// Whether annotations say the same, whatever was written when.
pub(crate) fn are_same(
    one: Option<&BTreeMap<String, String>>,
    two: Option<&BTreeMap<String, String>>,
) -> bool {
    let others = |it: Option<&BTreeMap<String, String>>| -> Vec<(String, String)> {
        let all = it.into_iter().flatten().filter(|it| it.0 != ANNOTATION);
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    others(one) == others(two)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::core::pod::{Pod, PodView};
    use api::core::service::Service;
    use apimachinery::ObjectKey;
    use serde_json::json;

    use super::{Triggers, annotate};

    fn at(second: u32) -> String {
        format!("2026-01-01T00:00:{second:02}Z")
    }

    fn service(created: u32) -> Service {
        let meta = json!({"name": "web", "creationTimestamp": at(created)});
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    /// Pods by name and when they last changed.
    fn pods(all: &[(&str, u32)]) -> Vec<Arc<PodView>> {
        let pod = |(name, changed): &(&str, u32)| {
            let ready =
                json!({"type": "Ready", "status": "False", "lastTransitionTime": at(*changed)});
            let pod = json!({
                "metadata": {"name": name, "namespace": "ns"},
                "status": {"conditions": [ready]},
            });
            Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
        };
        all.iter().map(pod).collect()
    }

    fn look(triggers: &Triggers, created: u32, all: &[(&str, u32)]) -> Option<String> {
        let key = ObjectKey::new("ns", "web");
        let (trigger, seen) = triggers.look(&key, &service(created), &pods(all));
        triggers.keep(&key, seen);
        let mut annotations = None;
        annotate(&mut annotations, trigger);
        annotations.map(|it| it.into_values().collect())
    }

    #[test]
    fn the_earliest_of_what_has_changed_is_the_time() {
        let triggers = Triggers::default();
        // A new Service says when it was made, whatever its pods are.
        assert_eq!(look(&triggers, 5, &[("a", 1)]), Some(at(5)));
        assert_eq!(look(&triggers, 5, &[("a", 1)]), None);
        assert_eq!(look(&triggers, 5, &[("a", 9), ("b", 8)]), Some(at(8)));
        assert_eq!(look(&triggers, 5, &[("a", 9)]), None);
        // One that comes back counts again, and one that another has the name of now.
        assert_eq!(look(&triggers, 5, &[("a", 9), ("b", 8)]), Some(at(8)));
        assert_eq!(look(&triggers, 12, &[("a", 9), ("b", 20)]), Some(at(12)));
    }

    #[test]
    fn what_was_not_written_is_not_kept() {
        let (triggers, key) = (Triggers::default(), ObjectKey::new("ns", "web"));
        look(&triggers, 5, &[]);
        let first = triggers.look(&key, &service(5), &pods(&[("a", 7)])).0;
        assert_eq!(triggers.look(&key, &service(5), &pods(&[("a", 7)])).0, first);
        assert!(first.is_some());
        triggers.forget(&key);
        assert!(triggers.lock().is_empty());
    }
}
