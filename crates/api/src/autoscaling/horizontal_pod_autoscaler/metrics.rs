//! What is wrong with what an autoscaler goes by.

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, MetricIdentifier, MetricSpec, MetricTarget, ObjectMetricSource,
    PodsMetricSource,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::{is_dns_label, is_path_segment};

use super::validation::{ApiVersion, api_version_problem, validate_reference};
use crate::check::{self, text};
use crate::core::resource_names;

const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn validate_all(
    metrics: &[MetricSpec],
    stored: &[MetricSpec],
    min_replicas: Option<i32>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let objects = stored.iter().filter(|it| it.type_ == "Object");
    let mut versions = objects.filter_map(|it| it.object.as_ref()).map(|it| {
        let api_version = text(it.described_object.api_version.as_ref());
        api_version_problem(api_version, ApiVersion::Valid)
    });
    // What was wrong already stays possible.
    let was_wrong = versions.any(|it| it.is_some());
    let strictness = if was_wrong { ApiVersion::Any } else { ApiVersion::Valid };
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, strictness, &path.index(index), errors);
    }
    let is_outside = |it: &MetricSpec| ["Object", "External"].contains(&it.type_.as_str());
    if min_replicas == Some(0) && !metrics.iter().any(is_outside) {
        errors.forbidden(
            path,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn validate_metric(
    metric: &MetricSpec,
    strictness: ApiVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let kind = metric.type_.as_str();
    let type_path = path.child("type");
    if kind.is_empty() {
        errors.required(&type_path, "must specify a metric source type");
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    if expected.is_empty() {
        errors.not_supported(&type_path, kind, TYPES);
    }
    let there: Vec<&str> = [
        ("object", metric.object.is_some()),
        ("external", metric.external.is_some()),
        ("pods", metric.pods.is_some()),
        ("resource", metric.resource.is_some()),
        ("containerResource", metric.container_resource.is_some()),
    ]
    .into_iter()
    .filter_map(|(field, is_there)| is_there.then_some(field))
    .collect();
    validate_source(metric, strictness, path, errors);
    if !expected.is_empty() && !there.contains(&expected) {
        let why = "must populate information for the given metric source";
        errors.required(&path.child(expected), why);
    } else if expected.is_empty() {
        errors.not_supported(&type_path, kind, TYPES);
    }
    if there.len() != 1 {
        for field in there.iter().filter(|it| **it != expected) {
            errors.forbidden(&path.child(field), "must populate the given metric source only");
        }
    }
}

/// The first that is there.
fn validate_source(
    metric: &MetricSpec,
    strictness: ApiVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(source) = &metric.object {
        validate_object(source, strictness, &path.child("object"), errors);
    } else if let Some(source) = &metric.external {
        validate_external(source, &path.child("external"), errors);
    } else if let Some(source) = &metric.pods {
        validate_pods(source, &path.child("pods"), errors);
    } else if let Some(source) = &metric.resource {
        validate_resource(&source.name, &source.target, &path.child("resource"), errors);
    } else if let Some(source) = &metric.container_resource {
        let (path, container) = (path.child("containerResource"), &source.container);
        if container.is_empty() {
            errors.required(&path.child("container"), "must specify a container");
        } else {
            check::format(container, &is_dns_label(container), &path.child("container"), errors);
        }
        if !source.name.is_empty() {
            resource_names::validate_of_container(&source.name, &path.child("name"), errors);
        }
        validate_resource(&source.name, &source.target, &path, errors);
    }
}

fn validate_object(
    source: &ObjectMetricSource,
    strictness: ApiVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let object = &source.described_object;
    validate_reference(object, strictness, &path.child("describedObject"), errors);
    validate_identifier(&source.metric, &path.child("metric"), errors);
    let (target, path) = (&source.target, path.child("target"));
    validate_target(target, &path, errors);
    if target.value.is_none() && target.average_value.is_none() {
        let why = "must set either a target value or averageValue";
        errors.required(&path.child("averageValue"), why);
    }
}

fn validate_external(source: &ExternalMetricSource, path: &Path, errors: &mut FieldErrors) {
    validate_identifier(&source.metric, &path.child("metric"), errors);
    let (target, path) = (&source.target, path.child("target"));
    validate_target(target, &path, errors);
    match (&target.value, &target.average_value) {
        (None, None) => errors.required(
            &path.child("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        (Some(_), Some(_)) => errors.forbidden(
            &path.child("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        _ => {}
    }
}

fn validate_pods(source: &PodsMetricSource, path: &Path, errors: &mut FieldErrors) {
    validate_identifier(&source.metric, &path.child("metric"), errors);
    let path = path.child("target");
    validate_target(&source.target, &path, errors);
    if source.target.average_value.is_none() {
        errors.required(&path.child("averageValue"), "must specify a positive target averageValue");
    }
}

fn validate_resource(name: &str, target: &MetricTarget, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    }
    let path = path.child("target");
    validate_target(target, &path, errors);
    match (target.average_utilization, &target.average_value) {
        (None, None) => errors.required(
            &path.child("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        (Some(_), Some(_)) => errors.forbidden(
            &path.child("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn validate_target(target: &MetricTarget, path: &Path, errors: &mut FieldErrors) {
    let kind = target.type_.as_str();
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&path.child("type"), kind, why);
    }
    for (field, value) in [("value", &target.value), ("averageValue", &target.average_value)] {
        let Some(value) = value else { continue };
        let amount = Amount::parse(&value.0).unwrap_or_default();
        if amount.is_zero() || amount.is_negative() {
            errors.invalid(&path.child(field), value.0.as_str(), "must be positive");
        }
    }
    if let Some(utilization) = target.average_utilization.filter(|it| *it < 1) {
        errors.invalid(&path.child("averageUtilization"), utilization, "must be greater than 0");
    }
}

fn validate_identifier(metric: &MetricIdentifier, path: &Path, errors: &mut FieldErrors) {
    let name_path = path.child("name");
    if metric.name.is_empty() {
        errors.required(&name_path, "must specify a metric name");
    } else {
        check::format(&metric.name, &is_path_segment(&metric.name), &name_path, errors);
    }
}
