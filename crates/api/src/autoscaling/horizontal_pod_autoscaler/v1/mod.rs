//! autoscaling/v1, which knows CPU alone: all else is kept in annotations, where upstream keeps it.

mod behavior;
mod metric_specs;
mod metric_statuses;

use apimachinery::FieldErrors;
use k8s_openapi::api::autoscaling::v1::{
    CrossVersionObjectReference, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
};
use k8s_openapi::api::autoscaling::v2;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::defaults::{cpu, default_metric};
use crate::codec;
use crate::kind::Resource;
use crate::version::Version;
use behavior::Behavior;
use metric_specs::MetricSpec;
use metric_statuses::MetricStatus;

pub use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

impl Resource for HorizontalPodAutoscaler {
    codec!();

    /// The default metric depends on the annotations, and comes with the conversion.
    fn apply_defaults(&mut self) {
        self.spec.min_replicas.get_or_insert(1);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: v2::HorizontalPodAutoscaler = self.clone().into_hub();
        hub.validate(errors);
    }
}

impl Version<v2::HorizontalPodAutoscaler> for HorizontalPodAutoscaler {
    fn into_hub(self) -> v2::HorizontalPodAutoscaler {
        let Self { mut metadata, spec, status } = self;
        let saved = Saved::take(&mut metadata);
        v2::HorizontalPodAutoscaler {
            metadata,
            spec: v2::HorizontalPodAutoscalerSpec {
                max_replicas: spec.max_replicas,
                min_replicas: spec.min_replicas,
                scale_target_ref: v2::CrossVersionObjectReference {
                    api_version: spec.scale_target_ref.api_version,
                    kind: spec.scale_target_ref.kind,
                    name: spec.scale_target_ref.name,
                },
                metrics: Some(metrics_of(saved.metrics, spec.target_cpu_utilization_percentage)),
                behavior: saved.behavior,
            },
            status: status.map(|it| status_to_hub(it, saved.current_metrics, saved.conditions)),
        }
    }

    fn from_hub(hub: &v2::HorizontalPodAutoscaler) -> Self {
        let mut metadata = hub.metadata.clone();
        Saved::of(hub).put(&mut metadata);
        let (spec, target) = (&hub.spec, hub.spec.scale_target_ref.clone());
        let cpu = spec.metrics.iter().flatten().find_map(cpu_target);
        Self {
            metadata,
            spec: HorizontalPodAutoscalerSpec {
                max_replicas: spec.max_replicas,
                min_replicas: spec.min_replicas,
                scale_target_ref: CrossVersionObjectReference {
                    api_version: target.api_version,
                    kind: target.kind,
                    name: target.name,
                },
                target_cpu_utilization_percentage: cpu,
            },
            status: hub.status.as_ref().map(status_from_hub),
        }
    }
}

/// The metric that v1 has a field for.
fn cpu_target(metric: &v2::MetricSpec) -> Option<i32> {
    let resource = metric.resource.as_ref().filter(|it| it.name == "cpu")?;
    resource.target.average_utilization.filter(|_| metric.type_ == "Resource")
}

/// CPU comes last, and by itself if there is nothing else.
fn metrics_of(saved: Vec<v2::MetricSpec>, cpu_percentage: Option<i32>) -> Vec<v2::MetricSpec> {
    let mut metrics = saved;
    metrics.extend(cpu_percentage.map(cpu));
    if metrics.is_empty() {
        metrics.push(default_metric());
    }
    metrics
}

fn status_to_hub(
    status: HorizontalPodAutoscalerStatus,
    saved: Vec<v2::MetricStatus>,
    conditions: Vec<v2::HorizontalPodAutoscalerCondition>,
) -> v2::HorizontalPodAutoscalerStatus {
    let cpu = status.current_cpu_utilization_percentage.map(|it| v2::MetricStatus {
        type_: "Resource".to_owned(),
        resource: Some(v2::ResourceMetricStatus {
            name: "cpu".to_owned(),
            current: v2::MetricValueStatus { average_utilization: Some(it), ..<_>::default() },
        }),
        ..v2::MetricStatus::default()
    });
    // What was saved says more than the field does.
    let metrics = if saved.is_empty() { cpu.into_iter().collect() } else { saved };
    v2::HorizontalPodAutoscalerStatus {
        conditions: Some(conditions).filter(|it| !it.is_empty()),
        current_metrics: Some(metrics).filter(|it| !it.is_empty()),
        current_replicas: Some(status.current_replicas).filter(|it| *it != 0),
        desired_replicas: status.desired_replicas,
        last_scale_time: status.last_scale_time,
        observed_generation: status.observed_generation,
    }
}

fn status_from_hub(status: &v2::HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus {
    let metrics = status.current_metrics.iter().flatten().rev();
    let cpu = metrics.filter(|it| it.type_ == "Resource").filter_map(|it| it.resource.as_ref());
    let mut cpu = cpu.filter(|it| it.name == "cpu").filter_map(|it| it.current.average_utilization);
    HorizontalPodAutoscalerStatus {
        current_cpu_utilization_percentage: cpu.next(),
        current_replicas: status.current_replicas.unwrap_or_default(),
        desired_replicas: status.desired_replicas,
        last_scale_time: status.last_scale_time.clone(),
        observed_generation: status.observed_generation,
    }
}

/// What is kept in annotations. One that cannot be read counts for nothing, as for upstream.
#[derive(Default)]
struct Saved {
    metrics: Vec<v2::MetricSpec>,
    current_metrics: Vec<v2::MetricStatus>,
    conditions: Vec<v2::HorizontalPodAutoscalerCondition>,
    behavior: Option<v2::HorizontalPodAutoscalerBehavior>,
}

impl Saved {
    fn of(hub: &v2::HorizontalPodAutoscaler) -> Self {
        let metrics = hub.spec.metrics.iter().flatten();
        let status = hub.status.as_ref();
        Self {
            metrics: metrics.filter(|it| cpu_target(it).is_none()).cloned().collect(),
            current_metrics: status.and_then(|it| it.current_metrics.clone()).unwrap_or_default(),
            conditions: status.and_then(|it| it.conditions.clone()).unwrap_or_default(),
            behavior: hub.spec.behavior.clone(),
        }
    }

    fn take(metadata: &mut ObjectMeta) -> Self {
        let metrics: Vec<MetricSpec> = read(metadata, METRICS).unwrap_or_default();
        let statuses: Vec<MetricStatus> = read(metadata, CURRENT_METRICS).unwrap_or_default();
        let behavior: Option<Behavior> = read(metadata, BEHAVIOR);
        let saved = Self {
            metrics: metrics.into_iter().map(MetricSpec::into_v2).collect(),
            current_metrics: statuses.into_iter().map(MetricStatus::into_v2).collect(),
            conditions: read(metadata, CONDITIONS).unwrap_or_default(),
            behavior: behavior.and_then(Behavior::into_v2),
        };
        drop_saved(metadata);
        saved
    }

    /// In place of what there is.
    fn put(self, metadata: &mut ObjectMeta) {
        drop_saved(metadata);
        let metrics: Vec<MetricSpec> = self.metrics.iter().map(MetricSpec::of).collect();
        let statuses: Vec<MetricStatus> =
            self.current_metrics.iter().map(MetricStatus::of).collect();
        let behavior = self.behavior.as_ref().map(Behavior::of);
        write(metadata, METRICS, (!metrics.is_empty()).then_some(&metrics));
        write(metadata, CURRENT_METRICS, (!statuses.is_empty()).then_some(&statuses));
        write(metadata, BEHAVIOR, behavior.as_ref());
        let conditions = self.conditions;
        write(metadata, CONDITIONS, (!conditions.is_empty()).then_some(&conditions));
    }
}

/// Removes what versions keep here; in the hub it means nothing.
pub(super) fn drop_saved(metadata: &mut ObjectMeta) {
    let Some(annotations) = &mut metadata.annotations else { return };
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        annotations.remove(name);
    }
    metadata.annotations.take_if(|it| it.is_empty());
}

fn read<T: DeserializeOwned>(metadata: &ObjectMeta, name: &str) -> Option<T> {
    serde_json::from_str(metadata.annotations.as_ref()?.get(name)?).ok()
}

fn write<T: Serialize>(metadata: &mut ObjectMeta, name: &str, value: Option<&T>) {
    if let Some(value) = value {
        let text = String::from_utf8_lossy(&codec::encode(value)).into_owned();
        metadata.annotations.get_or_insert_default().insert(name.to_owned(), text);
    }
}
