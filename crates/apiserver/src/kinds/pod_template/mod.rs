//! What is made into pods: fields of features that are off are dropped, as in pods themselves.

use admission::Draft;
use api::ApiObject;
use api::apps::{DaemonSet, Deployment, ReplicaSet, StatefulSet, stateful_set};
use api::batch::{CronJob, Job};
use api::core::pod_spec::disabled::{self, Features};
use api::core::{Pod, PodTemplate, ReplicationController};
use k8s_openapi::api::core::v1::PodSpec;

use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{Core, Request};

pub(crate) struct PodTemplates;

impl Hooks for PodTemplates {
    fn of(&self) -> &'static [Of] {
        &[
            ("", "podtemplates"),
            ("", "replicationcontrollers"),
            ("apps", "daemonsets"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("batch", "cronjobs"),
            ("batch", "jobs"),
        ]
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        drop_disabled(core, draft, old);
        drop_max_unavailable(core, draft, old);
    }
}

/// Of StatefulSets; one that has it already may keep it.
fn drop_max_unavailable(core: &Core, draft: &mut Draft, old: Option<&dyn ApiObject>) {
    let has = |it: &dyn ApiObject| {
        it.downcast_ref::<StatefulSet>().is_some_and(stateful_set::has_max_unavailable)
    };
    let is_enabled = core.config.gates.is_enabled(features::MAX_UNAVAILABLE_STATEFUL_SET);
    if is_enabled || old.is_some_and(has) || !has(draft.object()) {
        return;
    }
    if let Some(set) = draft.change().downcast_mut::<StatefulSet>() {
        stateful_set::drop_max_unavailable(set);
    }
}

/// Of pods and of what has a template of them.
pub(crate) fn drop_disabled(core: &Core, draft: &mut Draft, old: Option<&dyn ApiObject>) {
    let gates = &core.config.gates;
    let features = Features {
        cluster_trust_bundle_projection: gates
            .is_enabled(features::CLUSTER_TRUST_BUNDLE_PROJECTION),
        generic_workload: gates.is_enabled(features::GENERIC_WORKLOAD),
        pod_certificate_request: gates.is_enabled(features::POD_CERTIFICATE_REQUEST),
    };
    let old = old.and_then(spec);
    if spec(draft.object()).is_some_and(|it| disabled::has_fields(it, old, &features))
        && let Some(spec) = spec_mut(draft.change())
    {
        disabled::drop_fields(spec, old, &features);
    }
}

/// Of the pods that it is, or makes.
fn spec(object: &dyn ApiObject) -> Option<&PodSpec> {
    let any = object.as_any();
    if any.is::<Pod>() {
        any.downcast_ref::<Pod>()?.spec.as_ref()
    } else if any.is::<CronJob>() {
        let job = &any.downcast_ref::<CronJob>()?.spec.job_template;
        job.spec.as_ref()?.template.spec.as_ref()
    } else if any.is::<DaemonSet>() {
        any.downcast_ref::<DaemonSet>()?.spec.as_ref()?.template.spec.as_ref()
    } else if any.is::<Deployment>() {
        any.downcast_ref::<Deployment>()?.spec.as_ref()?.template.spec.as_ref()
    } else if any.is::<Job>() {
        any.downcast_ref::<Job>()?.spec.as_ref()?.template.spec.as_ref()
    } else if any.is::<PodTemplate>() {
        any.downcast_ref::<PodTemplate>()?.template.as_ref()?.spec.as_ref()
    } else if any.is::<ReplicaSet>() {
        any.downcast_ref::<ReplicaSet>()?.spec.as_ref()?.template.as_ref()?.spec.as_ref()
    } else if any.is::<ReplicationController>() {
        any.downcast_ref::<ReplicationController>()?.spec.as_ref()?.template.as_ref()?.spec.as_ref()
    } else if any.is::<StatefulSet>() {
        any.downcast_ref::<StatefulSet>()?.spec.as_ref()?.template.spec.as_ref()
    } else {
        None
    }
}

fn spec_mut(object: &mut dyn ApiObject) -> Option<&mut PodSpec> {
    let any = object.as_any_mut();
    if any.is::<Pod>() {
        any.downcast_mut::<Pod>()?.spec.as_mut()
    } else if any.is::<CronJob>() {
        let job = &mut any.downcast_mut::<CronJob>()?.spec.job_template;
        job.spec.as_mut()?.template.spec.as_mut()
    } else if any.is::<DaemonSet>() {
        any.downcast_mut::<DaemonSet>()?.spec.as_mut()?.template.spec.as_mut()
    } else if any.is::<Deployment>() {
        any.downcast_mut::<Deployment>()?.spec.as_mut()?.template.spec.as_mut()
    } else if any.is::<Job>() {
        any.downcast_mut::<Job>()?.spec.as_mut()?.template.spec.as_mut()
    } else if any.is::<PodTemplate>() {
        any.downcast_mut::<PodTemplate>()?.template.as_mut()?.spec.as_mut()
    } else if any.is::<ReplicaSet>() {
        any.downcast_mut::<ReplicaSet>()?.spec.as_mut()?.template.as_mut()?.spec.as_mut()
    } else if any.is::<ReplicationController>() {
        any.downcast_mut::<ReplicationController>()?.spec.as_mut()?.template.as_mut()?.spec.as_mut()
    } else if any.is::<StatefulSet>() {
        any.downcast_mut::<StatefulSet>()?.spec.as_mut()?.template.spec.as_mut()
    } else {
        None
    }
}
