//! How fast to scale, as upstream writes it into an annotation: with the names of its own Go
//! fields, absent ones as null.

use k8s_openapi::api::autoscaling::v2;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Behavior {
    #[serde(default, alias = "scaleUp")]
    scale_up: Option<Rules>,
    #[serde(default, alias = "scaleDown")]
    scale_down: Option<Rules>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rules {
    #[serde(default, alias = "stabilizationWindowSeconds")]
    stabilization_window_seconds: Option<i32>,
    #[serde(default, alias = "selectPolicy")]
    select_policy: Option<String>,
    #[serde(default, alias = "policies")]
    policies: Option<Vec<Policy>>,
    #[serde(default, alias = "tolerance")]
    tolerance: Option<Quantity>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Policy {
    #[serde(default, rename = "Type", alias = "type")]
    kind: String,
    #[serde(default, alias = "value")]
    value: i32,
    #[serde(default, alias = "periodSeconds")]
    period_seconds: i32,
}

impl Behavior {
    pub(super) fn of(behavior: &v2::HorizontalPodAutoscalerBehavior) -> Self {
        Self {
            scale_up: behavior.scale_up.as_ref().map(Rules::of),
            scale_down: behavior.scale_down.as_ref().map(Rules::of),
        }
    }

    /// `None` if it says nothing.
    pub(super) fn into_v2(self) -> Option<v2::HorizontalPodAutoscalerBehavior> {
        let scale_up = self.scale_up.map(Rules::into_v2);
        let scale_down = self.scale_down.map(Rules::into_v2);
        let is_some = scale_up.is_some() || scale_down.is_some();
        is_some.then_some(v2::HorizontalPodAutoscalerBehavior { scale_down, scale_up })
    }
}

impl Rules {
    fn of(rules: &v2::HPAScalingRules) -> Self {
        let policy = |it: &v2::HPAScalingPolicy| Policy {
            kind: it.type_.clone(),
            value: it.value,
            period_seconds: it.period_seconds,
        };
        Self {
            stabilization_window_seconds: rules.stabilization_window_seconds,
            select_policy: rules.select_policy.clone(),
            policies: rules.policies.as_ref().map(|all| all.iter().map(policy).collect()),
            tolerance: rules.tolerance.clone(),
        }
    }

    fn into_v2(self) -> v2::HPAScalingRules {
        let policy = |it: Policy| v2::HPAScalingPolicy {
            type_: it.kind,
            value: it.value,
            period_seconds: it.period_seconds,
        };
        v2::HPAScalingRules {
            policies: self.policies.map(|all| all.into_iter().map(policy).collect()),
            select_policy: self.select_policy,
            stabilization_window_seconds: self.stabilization_window_seconds,
            tolerance: self.tolerance,
        }
    }
}
