//! Whether and when a pod must leave a node with NoExecute taints. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Taint, Toleration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stay,
    /// Counted from when the taints were first seen on the pod's node.
    LeaveAfter(Duration),
}

/// A taint that nothing tolerates evicts at once; otherwise the shortest `tolerationSeconds` counts.
pub(crate) fn plan(taints: &[Taint], tolerations: &[Toleration]) -> Verdict {
    let mut shortest: Option<Duration> = None;
    for taint in taints.iter().filter(|it| it.effect == "NoExecute") {
        let mut matching = tolerations.iter().filter(|it| tolerates(it, taint)).peekable();
        if matching.peek().is_none() {
            return Verdict::LeaveAfter(Duration::ZERO);
        }
        for seconds in matching.filter_map(|it| it.toleration_seconds) {
            let period = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            shortest = Some(shortest.map_or(period, |it| it.min(period)));
        }
    }
    shortest.map_or(Verdict::Stay, Verdict::LeaveAfter)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_any = |it: &Option<String>| it.as_deref().unwrap_or_default().is_empty();
    if !is_any(&toleration.effect) && toleration.effect.as_deref() != Some(&taint.effect) {
        return false;
    }
    if !is_any(&toleration.key) && toleration.key.as_deref() != Some(&taint.key) {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "" | "Equal" => {
            !is_any(&toleration.key) && value == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}
