//! Whatever has pods in it.

use api::ApiObject;
use api::apps::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use api::batch::{CronJob, Job};
use api::core::{Pod, PodTemplate, ReplicationController};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::checks::Subject;

/// (group, resource), without pods themselves.
pub const RESOURCES: &[(&str, &str)] = &[
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
];

pub(super) fn of_pod(pod: &Pod) -> Option<Subject<'_>> {
    Some(Subject { annotations: pod.metadata.annotations.as_ref(), spec: pod.spec.as_ref()? })
}

/// What the pods will be that an object makes; some need not say.
pub(super) fn of(object: &dyn ApiObject) -> Option<Subject<'_>> {
    let template = template(object)?;
    let annotations = template.metadata.as_ref().and_then(|it| it.annotations.as_ref());
    Some(Subject { annotations, spec: template.spec.as_ref()? })
}

fn template(object: &dyn ApiObject) -> Option<&PodTemplateSpec> {
    if let Some(it) = object.downcast_ref::<Deployment>() {
        return it.spec.as_ref().map(|it| &it.template);
    }
    if let Some(it) = object.downcast_ref::<ReplicaSet>() {
        return it.spec.as_ref()?.template.as_ref();
    }
    if let Some(it) = object.downcast_ref::<StatefulSet>() {
        return it.spec.as_ref().map(|it| &it.template);
    }
    if let Some(it) = object.downcast_ref::<DaemonSet>() {
        return it.spec.as_ref().map(|it| &it.template);
    }
    if let Some(it) = object.downcast_ref::<Job>() {
        return it.spec.as_ref().map(|it| &it.template);
    }
    if let Some(it) = object.downcast_ref::<CronJob>() {
        return it.spec.job_template.spec.as_ref().map(|it| &it.template);
    }
    if let Some(it) = object.downcast_ref::<PodTemplate>() {
        return it.template.as_ref();
    }
    object.downcast_ref::<ReplicationController>()?.spec.as_ref()?.template.as_ref()
}
