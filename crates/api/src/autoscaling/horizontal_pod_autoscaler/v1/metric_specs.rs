//! Metrics as v1 writes them into an annotation: the target and the name of a metric stand beside
//! each other.

use apimachinery::quantity::Amount;
use k8s_openapi::api::autoscaling::v2;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

const AVERAGE_VALUE: &str = "AverageValue";

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricSpec {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<PodsSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<ExternalSource>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectSource {
    target: v2::CrossVersionObjectReference,
    metric_name: String,
    /// Always there; zero where there is only an average.
    target_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_value: Option<Quantity>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodsSource {
    metric_name: String,
    target_average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceSource {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_utilization: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Option<Quantity>,
    /// Of one container, or of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExternalSource {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Option<Quantity>,
}

pub(super) fn or_zero(quantity: Option<&Quantity>) -> Option<Quantity> {
    Some(quantity.cloned().unwrap_or_else(|| Quantity("0".to_owned())))
}

fn is_zero(quantity: &Quantity) -> bool {
    Amount::parse(&quantity.0).is_ok_and(Amount::is_zero)
}

fn identifier(name: String, selector: Option<LabelSelector>) -> v2::MetricIdentifier {
    v2::MetricIdentifier { name, selector }
}

impl MetricSpec {
    pub(super) fn of(metric: &v2::MetricSpec) -> Self {
        Self {
            kind: metric.type_.clone(),
            object: metric.object.as_ref().map(|it| ObjectSource {
                target: it.described_object.clone(),
                metric_name: it.metric.name.clone(),
                target_value: or_zero(it.target.value.as_ref()),
                selector: it.metric.selector.clone(),
                average_value: it.target.average_value.clone(),
            }),
            pods: metric.pods.as_ref().map(|it| PodsSource {
                metric_name: it.metric.name.clone(),
                target_average_value: or_zero(it.target.average_value.as_ref()),
                selector: it.metric.selector.clone(),
            }),
            resource: metric
                .resource
                .as_ref()
                .map(|it| ResourceSource::of(&it.name, None, &it.target)),
            container_resource: metric
                .container_resource
                .as_ref()
                .map(|it| ResourceSource::of(&it.name, Some(&it.container), &it.target)),
            external: metric.external.as_ref().map(|it| ExternalSource {
                metric_name: it.metric.name.clone(),
                metric_selector: it.metric.selector.clone(),
                target_value: it.target.value.clone(),
                target_average_value: it.target.average_value.clone(),
            }),
        }
    }

    pub(super) fn into_v2(self) -> v2::MetricSpec {
        v2::MetricSpec {
            type_: self.kind,
            object: self.object.map(ObjectSource::into_v2),
            pods: self.pods.map(|it| v2::PodsMetricSource {
                metric: identifier(it.metric_name, it.selector),
                target: v2::MetricTarget {
                    type_: AVERAGE_VALUE.to_owned(),
                    average_value: or_zero(it.target_average_value.as_ref()),
                    ..v2::MetricTarget::default()
                },
            }),
            resource: self.resource.map(|it| {
                let target = it.target();
                v2::ResourceMetricSource { name: it.name, target }
            }),
            container_resource: self.container_resource.map(|it| {
                let target = it.target();
                let container = it.container.unwrap_or_default();
                v2::ContainerResourceMetricSource { container, name: it.name, target }
            }),
            external: self.external.map(|it| v2::ExternalMetricSource {
                metric: identifier(it.metric_name, it.metric_selector),
                target: v2::MetricTarget {
                    type_: if it.target_value.is_some() { "Value" } else { AVERAGE_VALUE }
                        .to_owned(),
                    value: it.target_value,
                    average_value: it.target_average_value,
                    average_utilization: None,
                },
            }),
        }
    }
}

impl ObjectSource {
    fn into_v2(self) -> v2::ObjectMetricSource {
        let has_average = self.average_value.is_some();
        let value = or_zero(self.target_value.as_ref());
        v2::ObjectMetricSource {
            described_object: self.target,
            metric: identifier(self.metric_name, self.selector),
            target: v2::MetricTarget {
                type_: if has_average { AVERAGE_VALUE } else { "Value" }.to_owned(),
                // Beside an average, zero is how v1 writes that there is none.
                value: value.filter(|it| !has_average || !is_zero(it)),
                average_value: self.average_value,
                average_utilization: None,
            },
        }
    }
}

impl ResourceSource {
    fn of(name: &str, container: Option<&String>, target: &v2::MetricTarget) -> Self {
        Self {
            name: name.to_owned(),
            target_average_utilization: target.average_utilization,
            target_average_value: target.average_value.clone(),
            container: container.cloned(),
        }
    }

    fn target(&self) -> v2::MetricTarget {
        let is_share = self.target_average_utilization.is_some();
        v2::MetricTarget {
            type_: if is_share { "Utilization" } else { AVERAGE_VALUE }.to_owned(),
            value: None,
            average_value: self.target_average_value.clone(),
            average_utilization: self.target_average_utilization,
        }
    }
}
