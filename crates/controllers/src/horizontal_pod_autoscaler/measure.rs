//! One metric of an autoscaler: what has to be read for it, how many replicas the reading asks for,
//! and what is said when there is none. Pure; the words are upstream's.

use apimachinery::quantity::{Amount, Family};
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, ContainerResourceMetricStatus, CrossVersionObjectReference,
    ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSpec, MetricStatus,
    MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus, ResourceMetricSource, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::replicas::{Measured, Samples};

/// What has to be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    /// Of each pod, or of one container of each.
    Resource {
        resource: &'a str,
        container: &'a str,
    },
    /// Of each pod.
    Pods(&'a MetricIdentifier),
    Object(&'a CrossVersionObjectReference, &'a MetricIdentifier),
    External(&'a MetricIdentifier),
}

/// What was read, in thousandths.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    OfPods(Samples),
    Value(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub replicas: i32,
    /// The metric, as people are told of it.
    pub name: String,
    pub status: MetricStatus,
}

/// Why a metric asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmeasured {
    pub reason: &'static str,
    /// As condition and event have it.
    pub cause: String,
    /// As it is summed up.
    pub error: String,
    /// Whether the autoscaler itself is wrong.
    pub is_spec: bool,
}

/// A source, whichever it is.
enum Source<'a> {
    Resource(&'a ResourceMetricSource),
    ContainerResource(&'a ContainerResourceMetricSource),
    Pods(&'a PodsMetricSource),
    Object(&'a ObjectMetricSource),
    External(&'a ExternalMetricSource),
    Unknown,
}

fn source(spec: &MetricSpec) -> Source<'_> {
    let found = match spec.type_.as_str() {
        "Resource" => spec.resource.as_ref().map(Source::Resource),
        "ContainerResource" => spec.container_resource.as_ref().map(Source::ContainerResource),
        "Pods" => spec.pods.as_ref().map(Source::Pods),
        "Object" => spec.object.as_ref().map(Source::Object),
        "External" => spec.external.as_ref().map(Source::External),
        _ => None,
    };
    found.unwrap_or(Source::Unknown)
}

/// Absent if the metric is of no known type.
pub(super) fn wanted(spec: &MetricSpec) -> Option<Wanted<'_>> {
    Some(match source(spec) {
        Source::Resource(it) => Wanted::Resource { resource: &it.name, container: "" },
        Source::ContainerResource(it) => {
            Wanted::Resource { resource: &it.name, container: &it.container }
        }
        Source::Pods(it) => Wanted::Pods(&it.metric),
        Source::Object(it) => Wanted::Object(&it.described_object, &it.metric),
        Source::External(it) => Wanted::External(&it.metric),
        Source::Unknown => return None,
    })
}

/// `n_running` is how many replicas the target says it has.
pub(super) fn propose(
    spec: &MetricSpec,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
    n_running: i32,
) -> Result<Proposal, Unmeasured> {
    match source(spec) {
        Source::Resource(it) => resource(it, reading, measured),
        Source::ContainerResource(it) => container_resource(it, reading, measured),
        Source::Pods(it) => pods(it, reading, measured),
        Source::Object(it) => object(it, reading, measured, n_running),
        Source::External(it) => external(it, reading, measured, n_running),
        Source::Unknown => {
            let cause = format!("unknown metric source type {:?}", spec.type_);
            let reason = "InvalidMetricSourceType";
            Err(Unmeasured { reason, error: cause.clone(), cause, is_spec: true })
        }
    }
}

fn resource(
    source: &ResourceMetricSource,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
) -> Result<Proposal, Unmeasured> {
    let name = &source.name;
    let computed = usage(&source.target, (name, ""), reading, measured);
    let (replicas, current) = computed.map_err(|cause| Unmeasured {
        reason: "FailedGetResourceMetric",
        error: format!("failed to get {name} resource metric value: {cause}"),
        cause,
        is_spec: false,
    })?;
    let what = "resource utilization (percentage of request)";
    let status = ResourceMetricStatus { name: name.clone(), current };
    Ok(Proposal {
        replicas,
        name: usage_name(&source.target, name, what),
        status: MetricStatus {
            type_: "Resource".to_owned(),
            resource: Some(status),
            ..MetricStatus::default()
        },
    })
}

fn container_resource(
    source: &ContainerResourceMetricSource,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
) -> Result<Proposal, Unmeasured> {
    let (name, container) = (&source.name, &source.container);
    let computed = usage(&source.target, (name, container), reading, measured);
    let (replicas, current) = computed.map_err(|cause| Unmeasured {
        reason: "FailedGetContainerResourceMetric",
        error: format!("failed to get {container} container metric value: {cause}"),
        cause,
        is_spec: false,
    })?;
    let what = "container resource utilization (percentage of request)";
    let status =
        ContainerResourceMetricStatus { name: name.clone(), container: container.clone(), current };
    Ok(Proposal {
        replicas,
        name: usage_name(&source.target, name, what),
        status: MetricStatus {
            type_: "ContainerResource".to_owned(),
            container_resource: Some(status),
            ..MetricStatus::default()
        },
    })
}

fn usage_name(target: &MetricTarget, resource: &str, utilization: &str) -> String {
    let what = if target.average_value.is_some() { "resource" } else { utilization };
    format!("{resource} {what}")
}

/// Of a resource: an average, or a share of what is requested.
fn usage(
    target: &MetricTarget,
    (resource, container): (&str, &str),
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
) -> Result<(i32, MetricValueStatus), String> {
    let unread = |err| format!("unable to get metrics for resource {resource}: {err}");
    let samples = reading.and_then(of_pods).map_err(unread);
    let family = if resource == "memory" { Family::Binary } else { Family::Decimal };
    if let Some(average) = &target.average_value {
        let computed = samples.and_then(|it| measured.by_average(it, resource, millis(average)));
        let (replicas, average) =
            computed.map_err(|err| format!("failed to get {resource} usage: {err}"))?;
        let average_value = Some(quantity(average, family));
        return Ok((replicas, MetricValueStatus { average_value, ..Default::default() }));
    }
    let Some(percent) = target.average_utilization else {
        return Err(
            "invalid resource metric source: neither an average utilization target nor an \
                    average value (usage) target was set"
                .to_owned(),
        );
    };
    let computed =
        samples.and_then(|it| measured.by_utilization(it, (resource, container), percent));
    let found = computed.map_err(|err| format!("failed to get {resource} utilization: {err}"))?;
    let current = MetricValueStatus {
        average_utilization: Some(found.percent),
        average_value: Some(quantity(found.average, family)),
        value: None,
    };
    Ok((found.replicas, current))
}

fn pods(
    source: &PodsMetricSource,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
) -> Result<Proposal, Unmeasured> {
    let name = &source.metric.name;
    let target = source.target.average_value.as_ref().map_or(0, millis);
    let samples =
        reading.and_then(of_pods).map_err(|err| format!("unable to get metric {name}: {err}"));
    let computed = samples.and_then(|it| measured.by_average(it, "", target));
    let (replicas, average) = computed.map_err(|cause| Unmeasured {
        reason: "FailedGetPodsMetric",
        error: format!("failed to get pods metric value: {cause}"),
        cause,
        is_spec: false,
    })?;
    let current = MetricValueStatus {
        average_value: Some(quantity(average, Family::Decimal)),
        ..Default::default()
    };
    Ok(Proposal {
        replicas,
        name: format!("pods metric {name}"),
        status: MetricStatus {
            type_: "Pods".to_owned(),
            pods: Some(PodsMetricStatus { metric: source.metric.clone(), current }),
            ..MetricStatus::default()
        },
    })
}

fn object(
    source: &ObjectMetricSource,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
    n_running: i32,
) -> Result<Proposal, Unmeasured> {
    let (object, metric) = (&source.described_object, &source.metric);
    let value = reading.and_then(value).map_err(|err| {
        let (metric, kind, name) = (&metric.name, &object.kind, &object.name);
        let namespace = measured.namespace;
        format!("unable to get metric {metric} on {kind} {namespace}/{name}: {err}")
    });
    let target = &source.target;
    let by = match target.type_.as_str() {
        "Value" => target.value.as_ref().map(By::Value),
        "AverageValue" => target.average_value.as_ref().map(By::Share),
        _ => None,
    };
    let failed = |cause: String, error: String| Unmeasured {
        reason: "FailedGetObjectMetric",
        error: format!("failed to get object metric value: {error}"),
        cause,
        is_spec: false,
    };
    let Some(by) = by else {
        let cause = "invalid object metric source: neither a value target nor an average value \
                     target was set";
        return Err(failed(cause.to_owned(), cause.to_owned()));
    };
    let (replicas, current) = by.compute(value, measured, n_running).map_err(|cause| {
        let error = match by {
            By::Value(_) => cause.clone(),
            By::Share(_) => format!("failed to get {} object metric: {cause}", metric.name),
        };
        failed(cause, error)
    })?;
    let name = match by {
        By::Value(_) => format!("{} metric {}", object.kind, metric.name),
        By::Share(_) => external_name(metric),
    };
    let status =
        ObjectMetricStatus { current, described_object: object.clone(), metric: metric.clone() };
    Ok(Proposal {
        replicas,
        name,
        status: MetricStatus {
            type_: "Object".to_owned(),
            object: Some(status),
            ..MetricStatus::default()
        },
    })
}

fn external(
    source: &ExternalMetricSource,
    reading: Result<Reading, String>,
    measured: &Measured<'_>,
    n_running: i32,
) -> Result<Proposal, Unmeasured> {
    let (metric, target) = (&source.metric, &source.target);
    let value = reading.and_then(value).map_err(|err| {
        let selector = go_selector(metric.selector.as_ref());
        let (namespace, name) = (measured.namespace, &metric.name);
        format!("unable to get external metric {namespace}/{name}/{selector}: {err}")
    });
    let by = target.average_value.as_ref().map(By::Share);
    let by = by.or_else(|| target.value.as_ref().map(By::Value));
    let failed = |cause: String, error: String| Unmeasured {
        reason: "FailedGetExternalMetric",
        error: format!("failed to get {} external metric value: {error}", metric.name),
        cause,
        is_spec: false,
    };
    let Some(by) = by else {
        let cause = "invalid external metric source: neither a value target nor an average value \
                     target was set";
        return Err(failed(cause.to_owned(), cause.to_owned()));
    };
    let (replicas, current) = by.compute(value, measured, n_running).map_err(|cause| {
        let error = match by {
            By::Value(_) => format!("failed to get external metric {}: {cause}", metric.name),
            By::Share(_) => format!("failed to get {} external metric: {cause}", metric.name),
        };
        failed(cause, error)
    })?;
    Ok(Proposal {
        replicas,
        name: external_name(metric),
        status: MetricStatus {
            type_: "External".to_owned(),
            external: Some(ExternalMetricStatus { current, metric: metric.clone() }),
            ..MetricStatus::default()
        },
    })
}

/// How a value that is not of single pods is held against its target.
#[derive(Clone, Copy)]
enum By<'a> {
    Value(&'a Quantity),
    Share(&'a Quantity),
}

impl By<'_> {
    fn compute(
        self,
        usage: Result<i64, String>,
        measured: &Measured<'_>,
        n_running: i32,
    ) -> Result<(i32, MetricValueStatus), String> {
        let usage = usage?;
        match self {
            Self::Value(target) => {
                let replicas = measured.by_value(usage, millis(target))?;
                let value = Some(quantity(usage, Family::Decimal));
                Ok((replicas, MetricValueStatus { value, ..Default::default() }))
            }
            Self::Share(target) => {
                let (replicas, share) = measured.by_share(usage, millis(target), n_running)?;
                let average_value = Some(quantity(share, Family::Decimal));
                Ok((replicas, MetricValueStatus { average_value, ..Default::default() }))
            }
        }
    }
}

fn of_pods(reading: Reading) -> Result<Samples, String> {
    match reading {
        Reading::OfPods(samples) => Ok(samples),
        Reading::Value(_) => Err("one value was read where each pod has its own".to_owned()),
    }
}

fn value(reading: Reading) -> Result<i64, String> {
    match reading {
        Reading::Value(value) => Ok(value),
        Reading::OfPods(_) => Err("values of pods were read where there is one".to_owned()),
    }
}

fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric.selector.as_ref()))
}

/// As Go prints one.
fn go_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|it| {
            let values = it.values.as_deref().unwrap_or_default().join(" ");
            let (key, operator) = (&it.key, &it.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn millis(quantity: &Quantity) -> i64 {
    Amount::parse(&quantity.0).map_or(0, Amount::millis)
}

fn quantity(millis: i64, family: Family) -> Quantity {
    Quantity(Amount::from_millis(millis).render(family))
}
