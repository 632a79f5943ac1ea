//! What an autoscaler does when it is not told.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, MetricSpec, MetricTarget,
    ResourceMetricSource,
};

const CPU_UTILIZATION: i32 = 80;
const PERIOD_SECONDS: i32 = 15;

pub(super) fn apply(autoscaler: &mut HorizontalPodAutoscaler) {
    let spec = &mut autoscaler.spec;
    spec.min_replicas.get_or_insert(1);
    if spec.metrics.as_ref().is_none_or(Vec::is_empty) {
        spec.metrics = Some(vec![cpu(CPU_UTILIZATION)]);
    }
    if let Some(behavior) = &mut spec.behavior {
        complete(behavior.scale_up.get_or_insert_default(), scale_up());
        complete(behavior.scale_down.get_or_insert_default(), scale_down());
    }
}

/// So that autoscalers of every version have something to go by.
pub(super) fn default_metric() -> MetricSpec {
    cpu(CPU_UTILIZATION)
}

pub(super) fn cpu(utilization: i32) -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(utilization),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: kind.to_owned(), value, period_seconds: PERIOD_SECONDS }
}

fn scale_up() -> HPAScalingRules {
    HPAScalingRules {
        stabilization_window_seconds: Some(0),
        select_policy: Some("Max".to_owned()),
        policies: Some(vec![policy("Pods", 4), policy("Percent", 100)]),
        tolerance: None,
    }
}

/// How long to wait before scaling down is the controller's to say.
fn scale_down() -> HPAScalingRules {
    HPAScalingRules {
        stabilization_window_seconds: None,
        select_policy: Some("Max".to_owned()),
        policies: Some(vec![policy("Percent", 100)]),
        tolerance: None,
    }
}

fn complete(rules: &mut HPAScalingRules, defaults: HPAScalingRules) {
    let HPAScalingRules { policies, select_policy, stabilization_window_seconds, .. } = defaults;
    rules.policies = rules.policies.take().or(policies);
    rules.select_policy = rules.select_policy.take().or(select_policy);
    rules.stabilization_window_seconds =
        rules.stabilization_window_seconds.or(stabilization_window_seconds);
}
