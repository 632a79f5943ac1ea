//! What was measured, as v1 writes it into an annotation.

use k8s_openapi::api::autoscaling::v2;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

use super::metric_specs::or_zero;

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricStatus {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<PodsStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<ExternalStatus>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectStatus {
    target: v2::CrossVersionObjectReference,
    metric_name: String,
    current_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_value: Option<Quantity>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodsStatus {
    metric_name: String,
    current_average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_utilization: Option<i32>,
    current_average_value: Option<Quantity>,
    /// Of one container, or of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExternalStatus {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_selector: Option<LabelSelector>,
    current_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_value: Option<Quantity>,
}

impl MetricStatus {
    pub(super) fn of(metric: &v2::MetricStatus) -> Self {
        Self {
            kind: metric.type_.clone(),
            object: metric.object.as_ref().map(|it| ObjectStatus {
                target: it.described_object.clone(),
                metric_name: it.metric.name.clone(),
                current_value: or_zero(it.current.value.as_ref()),
                selector: it.metric.selector.clone(),
                average_value: it.current.average_value.clone(),
            }),
            pods: metric.pods.as_ref().map(|it| PodsStatus {
                metric_name: it.metric.name.clone(),
                current_average_value: or_zero(it.current.average_value.as_ref()),
                selector: it.metric.selector.clone(),
            }),
            resource: metric
                .resource
                .as_ref()
                .map(|it| ResourceStatus::of(&it.name, None, &it.current)),
            container_resource: metric
                .container_resource
                .as_ref()
                .map(|it| ResourceStatus::of(&it.name, Some(&it.container), &it.current)),
            external: metric.external.as_ref().map(|it| ExternalStatus {
                metric_name: it.metric.name.clone(),
                metric_selector: it.metric.selector.clone(),
                current_value: or_zero(it.current.value.as_ref()),
                current_average_value: it.current.average_value.clone(),
            }),
        }
    }

    pub(super) fn into_v2(self) -> v2::MetricStatus {
        let metric = |name, selector| v2::MetricIdentifier { name, selector };
        let amount = |value: Option<Quantity>, average_value| v2::MetricValueStatus {
            value: or_zero(value.as_ref()),
            average_value,
            average_utilization: None,
        };
        v2::MetricStatus {
            type_: self.kind,
            object: self.object.map(|it| v2::ObjectMetricStatus {
                described_object: it.target,
                metric: metric(it.metric_name, it.selector),
                current: amount(it.current_value, it.average_value),
            }),
            pods: self.pods.map(|it| v2::PodsMetricStatus {
                metric: metric(it.metric_name, it.selector),
                current: v2::MetricValueStatus {
                    average_value: or_zero(it.current_average_value.as_ref()),
                    ..v2::MetricValueStatus::default()
                },
            }),
            resource: self.resource.map(|it| {
                let current = it.current();
                v2::ResourceMetricStatus { current, name: it.name }
            }),
            container_resource: self.container_resource.map(|it| {
                let current = it.current();
                let container = it.container.unwrap_or_default();
                v2::ContainerResourceMetricStatus { container, current, name: it.name }
            }),
            external: self.external.map(|it| v2::ExternalMetricStatus {
                metric: metric(it.metric_name, it.metric_selector),
                current: amount(it.current_value, it.current_average_value),
            }),
        }
    }
}

impl ResourceStatus {
    fn of(name: &str, container: Option<&String>, current: &v2::MetricValueStatus) -> Self {
        Self {
            name: name.to_owned(),
            current_average_utilization: current.average_utilization,
            current_average_value: or_zero(current.average_value.as_ref()),
            container: container.cloned(),
        }
    }

    fn current(&self) -> v2::MetricValueStatus {
        v2::MetricValueStatus {
            value: None,
            average_value: or_zero(self.current_average_value.as_ref()),
            average_utilization: self.current_average_utilization,
        }
    }
}
