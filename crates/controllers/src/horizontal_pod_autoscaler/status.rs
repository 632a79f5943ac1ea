//! What an autoscaler says of itself: conditions and numbers. Pure.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
    MetricStatus,
};

use super::behavior::Decision;
use crate::conditions;

pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";
pub(super) const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The status as it will be.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

/// What the numbers are in the end.
pub(super) struct Numbers {
    pub current: i32,
    /// Absent: as it was.
    pub desired: Option<i32>,
    pub metrics: Option<Vec<MetricStatus>>,
    pub is_scaled: bool,
}

impl Draft {
    pub(super) fn new(autoscaler: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self { status: autoscaler.status.clone().unwrap_or_default(), now }
    }

    /// Unlike others, a condition here is written anew when its message alone is another.
    pub(super) fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        let status = if is_true { "True" } else { "False" };
        let known = conditions.iter_mut().find(|it| it.type_ == kind);
        let since = known.as_ref().filter(|it| it.status == status);
        let since = since.and_then(|it| it.last_transition_time.clone());
        let condition = HorizontalPodAutoscalerCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: since.or_else(|| Some(conditions::time(self.now))),
        };
        match known {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }

    pub(super) fn remove(&mut self, kind: &str) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|it| it.type_ != kind);
        }
    }

    pub(super) fn decided(&mut self, decision: &Decision) {
        self.set(ABLE_TO_SCALE, true, decision.able.reason, decision.able.message);
        let limited = decision.limited;
        self.set(SCALING_LIMITED, decision.is_limited, limited.reason, limited.message);
    }

    pub(super) fn count(&mut self, numbers: Numbers) {
        self.status.current_replicas = Some(numbers.current);
        if let Some(desired) = numbers.desired {
            self.status.desired_replicas = desired;
        }
        self.status.current_metrics = numbers.metrics.filter(|it| !it.is_empty());
        if numbers.is_scaled {
            self.status.last_scale_time = Some(conditions::time(self.now));
        }
    }

    pub(super) fn is_new(&self, autoscaler: &HorizontalPodAutoscaler) -> bool {
        autoscaler.status.as_ref() != Some(&self.status)
    }
}

/// Whether it was us who left nothing of the target.
pub(super) fn is_scaled_to_zero(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let status = autoscaler.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == SCALED_TO_ZERO && it.status == "True")
}
