//! What an autoscaler does, from what was observed. Pure but for the memory of what it did before.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricStatus};
use std::time::Duration;

use super::behavior::{Bounds, History};
use super::measure::{Proposal, Unmeasured};
use super::status::{Draft, Numbers, SCALED_TO_ZERO, SCALING_ACTIVE, is_scaled_to_zero};

/// Which way leads to a number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Somebody wants none, and that is not ours to change.
    Disabled,
    /// Whatever is measured.
    Straight {
        replicas: i32,
        reason: &'static str,
    },
    Measure,
}

const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";

pub(super) fn way(autoscaler: &HorizontalPodAutoscaler, current: i32, to_zero: bool) -> Way {
    let (spec, min) = (&autoscaler.spec, min_replicas(autoscaler));
    if current == 0 {
        let is_ours = to_zero && is_scaled_to_zero(autoscaler);
        let is_measured = is_ours && (min != 0 || has_outer_metrics(autoscaler));
        return if is_measured { Way::Measure } else { Way::Disabled };
    }
    if current > spec.max_replicas {
        let reason = "Current number of replicas above Spec.MaxReplicas";
        return Way::Straight { replicas: spec.max_replicas, reason };
    }
    if current < min {
        return Way::Straight { replicas: min, reason: BELOW_MIN };
    }
    Way::Measure
}

pub(super) fn min_replicas(autoscaler: &HorizontalPodAutoscaler) -> i32 {
    autoscaler.spec.min_replicas.unwrap_or(1)
}

/// Whether something is measured that is there without pods.
fn has_outer_metrics(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let mut metrics = autoscaler.spec.metrics.iter().flatten();
    metrics.any(|it| matches!(it.type_.as_str(), "Object" | "External"))
}

/// A warning about the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    pub reason: &'static str,
    pub message: String,
}

/// All metrics together.
#[derive(Clone, Debug)]
pub(super) struct Combined {
    /// In the order of the metrics; empty ones of those that say nothing.
    pub statuses: Vec<MetricStatus>,
    /// The largest, unless too much is unknown.
    pub wanted: Option<(i32, String)>,
    /// What is wrong with those that are unknown, if any is.
    pub error: Option<String>,
    pub is_spec_error: bool,
    pub warnings: Vec<Warning>,
    /// `ScalingActive`: whether, why and in which words.
    active: (bool, &'static str, String),
}

/// The largest counts. What is unknown might ask for more: then nothing is removed.
pub(super) fn combine(proposals: Vec<Result<Proposal, Unmeasured>>, current: i32) -> Combined {
    let n_metrics = proposals.len();
    let mut statuses = Vec::with_capacity(n_metrics);
    let (mut largest, mut unknown): (Option<(i32, String)>, Vec<Unmeasured>) = (None, Vec::new());
    for proposal in proposals {
        match proposal {
            Ok(it) => {
                statuses.push(it.status);
                let is_more = largest.as_ref().is_none_or(|(most, _)| it.replicas > *most);
                if is_more {
                    largest = Some((it.replicas, it.name));
                }
            }
            Err(it) => {
                statuses.push(MetricStatus::default());
                unknown.push(it);
            }
        }
    }
    let warning = |it: &Unmeasured| Warning { reason: it.reason, message: it.cause.clone() };
    let warnings = unknown.iter().map(warning).collect();
    let n_unknown = unknown.len();
    let first = unknown.into_iter().next();
    let error = first.as_ref().map(|it| {
        let first = &it.error;
        format!("invalid metrics ({n_unknown} invalid out of {n_metrics}), first error is: {first}")
    });
    let is_spec_error = first.as_ref().is_some_and(|it| it.is_spec);
    let wanted = largest.filter(|(most, _)| first.is_none() || *most >= current);
    let active = match (&wanted, first) {
        (Some((_, name)), _) => {
            let said = "the HPA was able to successfully calculate a replica count from";
            (true, "ValidMetricFound", format!("{said} {name}"))
        }
        (None, first) => {
            let (reason, cause) = first.map_or_else(
                || ("InvalidMetricSourceType", "there is no metric".to_owned()),
                |it| (it.reason, it.cause),
            );
            (false, reason, format!("the HPA was unable to compute the replica count: {cause}"))
        }
    };
    Combined { statuses, wanted, error, is_spec_error, warnings, active }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub draft: Draft,
    pub metrics: Option<Vec<MetricStatus>>,
    pub next: Step,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing that could be done is known.
    Stop,
    Stay,
    Scale {
        replicas: i32,
        reason: String,
    },
}

pub(super) struct Observed<'a> {
    pub autoscaler: &'a HorizontalPodAutoscaler,
    pub current: i32,
    pub down_window: Duration,
    /// The gate HPAScaleToZero.
    pub to_zero: bool,
    pub now: Timestamp,
}

/// The way that needs no metrics.
pub(super) fn plan_unmeasured(observed: &Observed<'_>, mut draft: Draft) -> Plan {
    let next = match way(observed.autoscaler, observed.current, observed.to_zero) {
        Way::Straight { replicas, reason } => Step::Scale { replicas, reason: reason.to_owned() },
        Way::Disabled | Way::Measure => {
            let message = "scaling is disabled since the replica count of the target is zero";
            draft.set(SCALING_ACTIVE, false, "ScalingDisabled", message);
            if !observed.to_zero {
                draft.remove(SCALED_TO_ZERO);
            }
            Step::Stay
        }
    };
    Plan { draft, metrics: None, next }
}

pub(super) fn plan_measured(
    observed: &Observed<'_>,
    combined: Combined,
    history: &mut History,
    mut draft: Draft,
) -> Plan {
    let (autoscaler, current) = (observed.autoscaler, observed.current);
    let (is_active, reason, message) = &combined.active;
    draft.set(SCALING_ACTIVE, *is_active, reason, message);
    let metrics = Some(combined.statuses);
    let Some((wanted, name)) = combined.wanted else {
        return Plan { draft, metrics, next: Step::Stop };
    };
    let min = min_replicas(autoscaler);
    let bounds = Bounds {
        current,
        min,
        max: autoscaler.spec.max_replicas,
        behavior: autoscaler.spec.behavior.as_ref(),
        down_window: observed.down_window,
    };
    let decision = history.decide(wanted, &bounds, observed.now);
    draft.decided(&decision);
    let mut reason = if wanted > current {
        format!("{name} above target")
    } else if wanted < current {
        "All metrics below target".to_owned()
    } else {
        String::new()
    };
    let mut replicas = decision.replicas;
    if current == 0 && replicas < min {
        replicas = min;
        if reason.is_empty() {
            BELOW_MIN.clone_into(&mut reason);
        }
    }
    let next = if replicas == current { Step::Stay } else { Step::Scale { replicas, reason } };
    Plan { draft, metrics, next }
}

/// After the target was scaled.
pub(super) fn scaled(observed: &Observed<'_>, replicas: i32, draft: &mut Draft) {
    let message = format!("the HPA controller was able to update the target scale to {replicas}");
    draft.set(super::status::ABLE_TO_SCALE, true, "SucceededRescale", &message);
    if !observed.to_zero {
        draft.remove(SCALED_TO_ZERO);
        return;
    }
    let is_zero = observed.current > 0
        && replicas == 0
        && min_replicas(observed.autoscaler) == 0
        && has_outer_metrics(observed.autoscaler);
    if is_zero {
        let message = "the HPA controller scaled the workload to zero";
        draft.set(SCALED_TO_ZERO, true, "ScaledToZero", message);
    } else {
        let message = "the HPA controller did not scale the workload to zero";
        draft.set(SCALED_TO_ZERO, false, "NotScaledToZero", message);
    }
}

/// The numbers at the end of a look.
pub(super) fn numbers(
    current: i32,
    next: &Step,
    is_scaled: bool,
    metrics: Option<Vec<MetricStatus>>,
) -> Numbers {
    let desired = match next {
        Step::Scale { replicas, .. } if is_scaled => Some(*replicas),
        Step::Stay => Some(current),
        Step::Stop | Step::Scale { .. } => None,
    };
    Numbers { current, desired, metrics, is_scaled }
}
