//! Whether and when a pod must leave a node with NoExecute taints. Pure.

use std::time::Duration;

use api::core::node::fit::tolerates;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::pods;

pub(crate) struct Observed<'a> {
    /// Of the pod's node; those that do not evict are ignored.
    pub taints: &'a [Taint],
    pub tolerations: &'a [Toleration],
    /// Since when the pod has to leave, as an earlier look found: later changes of the taints do
    /// not give more time.
    pub since: Option<Timestamp>,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stay,
    /// It had to leave, and does not any more.
    StayAfterAll,
    /// It has to leave, after this long.
    Wait(Duration),
    /// It has to leave, and should have this long ago.
    Evict {
        late: Duration,
    },
}

pub(crate) fn plan(observed: &Observed<'_>) -> Verdict {
    let Some(period) = tolerated_for(observed.taints, observed.tolerations) else {
        return observed.since.map_or(Verdict::Stay, |_| Verdict::StayAfterAll);
    };
    let since = observed.since.unwrap_or(observed.now);
    match pods::remaining(since, period, observed.now) {
        Duration::ZERO => {
            let passed = Duration::try_from(observed.now.duration_since(since));
            Verdict::Evict { late: passed.unwrap_or_default().saturating_sub(period) }
        }
        left => Verdict::Wait(left),
    }
}

/// How long the pod may stay; absent: as long as it likes. A taint that nothing tolerates evicts at
/// once; otherwise the shortest `tolerationSeconds` counts.
fn tolerated_for(taints: &[Taint], tolerations: &[Toleration]) -> Option<Duration> {
    let mut shortest: Option<Duration> = None;
    for taint in taints.iter().filter(|it| it.effect == "NoExecute") {
        let mut matching = tolerations.iter().filter(|it| tolerates(it, taint)).peekable();
        if matching.peek().is_none() {
            return Some(Duration::ZERO);
        }
        for seconds in matching.filter_map(|it| it.toleration_seconds) {
            let period = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            shortest = Some(shortest.map_or(period, |it| it.min(period)));
        }
    }
    shortest
}
