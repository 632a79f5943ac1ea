//! What is remembered of each autoscaler between two looks: what it recommended and did, whose pods
//! it measures, and when it is due. Lost with the process, as upstream's is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::autoscaling::HorizontalPodAutoscaler;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::selector::Labels;
use jiff::Timestamp;

use super::behavior::History;

#[derive(Default)]
pub(super) struct Memory(Mutex<BTreeMap<ObjectKey, Remembered>>);

#[derive(Default)]
struct Remembered {
    history: History,
    selector: Option<Labels>,
    /// The autoscaler as it was looked at, and when it is looked at again.
    last: Option<(Arc<HorizontalPodAutoscaler>, Timestamp)>,
}

impl Memory {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    /// How long it still rests. A change of what is asked for ends the rest; that its status was
    /// written does not.
    pub(super) fn rest(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        now: Timestamp,
    ) -> Option<Duration> {
        let all = self.all();
        let (last, due) = all.get(key)?.last.as_ref()?;
        let is_same = last.spec == autoscaler.spec && last.metadata.uid == autoscaler.metadata.uid;
        let left = Duration::try_from(due.duration_since(now)).ok()?;
        Some(left).filter(|it| is_same && !it.is_zero())
    }

    pub(super) fn looked(
        &self,
        key: &ObjectKey,
        autoscaler: Arc<HorizontalPodAutoscaler>,
        due: Timestamp,
    ) {
        self.all().entry(key.clone()).or_default().last = Some((autoscaler, due));
    }

    /// Works on what was recommended and done. Of another object of the same name nothing was.
    pub(super) fn with_history<T>(
        &self,
        key: &ObjectKey,
        uid: Option<&String>,
        work: impl FnOnce(&mut History) -> T,
    ) -> T {
        let mut all = self.all();
        let remembered = all.entry(key.clone()).or_default();
        let is_other =
            remembered.last.as_ref().is_some_and(|(it, _)| it.metadata.uid.as_ref() != uid);
        if is_other {
            remembered.history = History::default();
        }
        work(&mut remembered.history)
    }

    pub(super) fn selects(&self, key: &ObjectKey, selector: &Labels) {
        self.all().entry(key.clone()).or_default().selector = Some(selector.clone());
    }

    /// Every autoscaler that measures one of these pods.
    pub(super) fn measuring(&self, namespace: &str, pods: &[Arc<PodView>]) -> Vec<ObjectKey> {
        let all = self.all();
        let start = ObjectKey::new(namespace, "");
        let here = all.range(start..).take_while(|(key, _)| key.namespace == namespace);
        let measures = |it: &Remembered| {
            let selector = it.selector.as_ref();
            selector
                .is_some_and(|it| pods.iter().any(|pod| it.matches_with(|name| pod.label(name))))
        };
        here.filter(|(_, it)| measures(it)).map(|(key, _)| key.clone()).collect()
    }
}
