//! What the controllers of replicas show of themselves, under upstream's names.

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use jiff::Timestamp;
use telemetry::{
    Buckets, Counter, Description, Family, Histogram, Registry, Stability, exponential,
};

const STALE: Description<2> = Description {
    name: "replicaset_controller_stale_sync_skips_total",
    stability: Stability::Alpha,
    help: "Total number of ReplicaSet syncs skipped due to a stale watch cache.",
    labels: ["group", "resource"],
};
const AGE_RATIO: Description<0> = Description {
    name: "replicaset_controller_sorting_deletion_age_ratio",
    stability: Stability::Alpha,
    help: "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the \
           time). Should be <2. The intent of this metric is to measure the rough efficacy of the \
           LogarithmicScaleDown feature gate's effect on the sorting (and deletion) of pods when \
           a replicaset scales down. This only considers Ready pods when calculating and reporting.",
    labels: [],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<6>(0.25, 2.0));

pub(super) struct Metrics {
    stale: Family<Counter, 2>,
    age_ratio: Arc<Histogram>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let age_ratio = registry.histogram(&AGE_RATIO, BUCKETS);
        Self { stale: registry.counters(&STALE), age_ratio }
    }

    pub(super) fn stale(&self, group: &str, resource: &str) {
        self.stale.with([group, resource]).increment();
    }

    /// `deleted` are some of `active`.
    pub(super) fn deleted(
        &self,
        active: &[Arc<PodView>],
        deleted: &[Arc<PodView>],
        now: Timestamp,
    ) {
        for ratio in age_ratios(active, deleted, now) {
            // A ratio in place of seconds.
            self.age_ratio.observe(Duration::from_secs(ratio));
        }
    }
}

/// Whole numbers, as upstream's.
fn age_ratios(active: &[Arc<PodView>], deleted: &[Arc<PodView>], now: Timestamp) -> Vec<u64> {
    let age = |it: &Arc<PodView>| {
        let age = it.created.filter(|_| it.is_ready).map(|it| now.duration_since(it).as_millis());
        age.and_then(|it| u64::try_from(it).ok())
    };
    let Some(youngest) = active.iter().filter_map(age).min().filter(|it| *it > 0) else {
        return Vec::new();
    };
    deleted.iter().filter_map(age).map(|it| it / youngest).collect()
}

#[cfg(test)]
mod tests {
    use super::age_ratios;
    use crate::replicas::tests::{at, pod};

    #[test]
    fn ratios_are_of_ready_pods_to_the_youngest_of_them() {
        let pods = ["a ready=5 age=10", "b ready=5 age=25", "c age=1", "d ready=1 age=40"];
        let pods = pods.map(pod);
        assert_eq!(age_ratios(&pods, &pods[1..], at(0)), [2, 4]);
        assert_eq!(age_ratios(&pods[2..3], &pods[2..3], at(0)), [0u64; 0]);
    }
}
