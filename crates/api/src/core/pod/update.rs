//! What an update of a pod may change, by the part that is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, Toleration};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::{gated, mirror, resize};
use crate::check::text;
use crate::core::pod_spec::validation::validate_image;
use crate::kind::{Part, Resource as _};
use crate::semantic;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Puts back what this part does not write.
pub(super) fn restore(pod: &mut Pod, stored: &Pod, part: Part) {
    match part {
        Part::Main => pod.keep_status(stored),
        Part::Status => {
            pod.keep_spec(stored);
            pod.metadata.owner_references.clone_from(&stored.metadata.owner_references);
            let status = pod.status.get_or_insert_default();
            if text(status.qos_class.as_ref()).is_empty() {
                status.qos_class = stored.status.as_ref().and_then(|it| it.qos_class.clone());
            }
            super::status::keep_generations(status, stored.status.as_ref());
            super::status::drop_disabled(status, stored.status.as_ref());
        }
        Part::Other("ephemeralcontainers") => {
            let wanted = pod.spec.take().and_then(|it| it.ephemeral_containers);
            pod.spec.clone_from(&stored.spec);
            pod.spec.get_or_insert_default().ephemeral_containers = wanted;
            restore_metadata(pod, stored);
        }
        Part::Other("resize") => {
            resize::restore(pod, stored);
            restore_metadata(pod, stored);
        }
        Part::Other(_) => {}
    }
}

fn restore_metadata(pod: &mut Pod, stored: &Pod) {
    let written = std::mem::replace(&mut pod.metadata, stored.metadata.clone());
    pod.metadata.managed_fields = written.managed_fields;
    pod.metadata.resource_version = written.resource_version;
    pod.status.clone_from(&stored.status);
}

/// Why nothing of this part is ever written, if so. Nothing else is told then.
pub(super) fn refusal(stored: &Pod, part: Part) -> Option<&'static str> {
    let os = stored.spec.as_ref().and_then(|it| it.os.as_ref());
    match part {
        Part::Other("ephemeralcontainers") if mirror::is_mirror(stored) => {
            Some("static pods do not support ephemeral containers")
        }
        Part::Other("resize") if mirror::is_mirror(stored) => Some("static pods cannot be resized"),
        Part::Other("resize") if os.is_some_and(|it| it.name == "windows") => {
            Some("windows pods cannot be resized")
        }
        _ => None,
    }
}

pub(super) fn validate(pod: &Pod, stored: &Pod, part: Part, errors: &mut FieldErrors) {
    let absent = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&absent);
    let old = stored.spec.as_ref().unwrap_or(&absent);
    match part {
        Part::Main => validate_main(spec, old, errors),
        Part::Status => super::status::validate(pod, stored, errors),
        Part::Other("ephemeralcontainers") => validate_ephemeral(spec, old, errors),
        Part::Other("resize") => resize::validate(pod, stored, errors),
        Part::Other(_) => {}
    }
}

fn validate_main(spec: &PodSpec, old: &PodSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let n_init = |it: &PodSpec| it.init_containers.as_ref().map_or(0, Vec::len);
    let detail = "pod updates may not add or remove containers";
    if spec.containers.len() != old.containers.len() {
        return errors.forbidden(&path.child("containers"), detail);
    }
    validate_images(&spec.containers, &path.child("containers"), errors);
    if n_init(spec) != n_init(old) {
        return errors.forbidden(&path.child("initContainers"), detail);
    }
    let init = spec.init_containers.as_deref().unwrap_or_default();
    validate_images(init, &path.child("initContainers"), errors);
    validate_deadline(spec, old, &path.child("activeDeadlineSeconds"), errors);
    validate_tolerations(spec, old, &path.child("tolerations"), errors);
    validate_gates(spec, old, &path.child("schedulingGates"), errors);

    let mut rest = spec.clone();
    copy_images(&mut rest.containers, &old.containers);
    copy_images(
        rest.init_containers.as_deref_mut().unwrap_or_default(),
        old.init_containers.as_deref().unwrap_or_default(),
    );
    rest.active_deadline_seconds = old.active_deadline_seconds;
    rest.tolerations.clone_from(&old.tolerations);
    rest.scheduling_gates.clone_from(&old.scheduling_gates);
    if old.termination_grace_period_seconds.is_some_and(|it| it < 0)
        && rest.termination_grace_period_seconds == Some(1)
    {
        rest.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    if old.scheduling_gates.as_ref().is_some_and(|it| !it.is_empty()) {
        gated::validate(&mut rest, old, &path, errors);
    }
    if !semantic::equal(&rest, old) {
        let fields = semantic::changed_fields(&rest, old).join(", ");
        let detail =
            format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {fields}");
        errors.forbidden(&path, &detail);
    }
}

/// Once more than a new pod's.
fn validate_images(containers: &[Container], path: &Path, errors: &mut FieldErrors) {
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        if text(container.image.as_ref()).is_empty() {
            errors.required(&path.child("image"), "");
        }
        validate_image(container.image.as_ref(), &path, errors);
    }
}

fn copy_images(containers: &mut [Container], old: &[Container]) {
    for (container, old) in containers.iter_mut().zip(old) {
        container.image.clone_from(&old.image);
    }
}

/// May appear and may shrink.
fn validate_deadline(spec: &PodSpec, old: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    match (spec.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(path, new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(path, Value::Null, detail);
        }
        _ => {}
    }
}

/// Existing ones stay, apart from their seconds; new ones may come.
fn validate_tolerations(spec: &PodSpec, old: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    fn timeless(it: &Toleration) -> [Option<&str>; 4] {
        [it.key.as_deref(), it.operator.as_deref(), it.value.as_deref(), it.effect.as_deref()]
    }
    let kept: BTreeSet<_> = spec.tolerations.iter().flatten().map(timeless).collect();
    let is_kept = old.tolerations.iter().flatten().all(|it| kept.contains(&timeless(it)));
    if !is_kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(path, detail);
    }
}

fn validate_gates(spec: &PodSpec, old: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let is_old = old.scheduling_gates.iter().flatten().any(|it| it.name == gate.name);
        if !is_old {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            errors.forbidden(&path.index(index).child("name"), &detail);
        }
    }
}

fn validate_ephemeral(spec: &PodSpec, old: &PodSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec").child("ephemeralContainers");
    let new: &[EphemeralContainer] = spec.ephemeral_containers.as_deref().unwrap_or_default();
    let places: BTreeMap<&str, usize> =
        new.iter().enumerate().rev().map(|(index, it)| (it.name.as_str(), index)).collect();
    for existing in old.ephemeral_containers.iter().flatten() {
        match places.get(existing.name.as_str()).copied() {
            None => errors.forbidden(
                &path,
                &format!(
                    "existing ephemeral containers \"{}\" may not be removed\n",
                    existing.name
                ),
            ),
            Some(index) if !semantic::equal(&new[index], existing) => errors.forbidden(
                &path,
                &format!(
                    "existing ephemeral containers \"{}\" may not be changed\n",
                    existing.name
                ),
            ),
            Some(_) => {}
        }
    }
}
