//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use std::time::Duration;

use api::core::pod::Pod;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::behavior::History;
use super::measure::{Reading, propose, wanted};
use super::plan::{Observed, combine, plan_measured, plan_unmeasured};
use super::replicas::{Measured, Sample, Samples, Tolerances};
use super::status::Draft;
use crate::garbage::{Draw, now};

fn samples(draw: &mut Draw<'_>) -> Samples {
    let sample = |draw: &mut Draw<'_>| {
        let value = i64::from(draw.number()).saturating_mul(i64::from(draw.number()));
        let window = Duration::from_secs(u64::from(draw.byte()));
        (draw.name().to_owned(), Sample { value, time: draw.time(), window })
    };
    (0..draw.below(4)).map(|_| sample(draw)).collect()
}

fn reading(draw: &mut Draw<'_>) -> Result<Reading, String> {
    match draw.below(4) {
        0 => Err("unreachable".to_owned()),
        1 => Ok(Reading::Value([i64::MAX, i64::MIN, 0][draw.below(3)])),
        2 => Ok(Reading::Value(i64::from(draw.number()))),
        _ => Ok(Reading::OfPods(samples(draw))),
    }
}

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let autoscaler = draw.object::<HorizontalPodAutoscaler>();
    let pods = draw.views::<Pod, _>();
    let (current, to_zero) = (draw.number(), draw.flag());
    let observed = Observed {
        autoscaler: &autoscaler,
        current,
        down_window: Duration::from_secs(300),
        to_zero,
        now: now(),
    };
    let measured = Measured {
        namespace: "a",
        pods: &pods,
        current,
        tolerances: Tolerances { up: 0.1, down: 0.1 },
        cpu_initialization: Duration::from_secs(300),
        initial_readiness: Duration::from_secs(30),
        now: now(),
    };
    let mut history = History::default();
    for _ in 0..2 {
        let mut proposals = Vec::new();
        for metric in autoscaler.spec.metrics.iter().flatten() {
            let _ = wanted(metric);
            proposals.push(propose(metric, reading(draw), &measured, draw.number()));
        }
        let combined = combine(proposals, current);
        history.begin(current, now());
        plan_measured(&observed, combined, &mut history, Draft::new(&autoscaler, now()));
    }
    plan_unmeasured(&observed, Draft::new(&autoscaler, now()));
    1
}
