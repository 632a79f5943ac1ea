//! Mirror pods: what stands in the API for a pod that a kubelet read from a file. A pod is one from
//! its beginning or never.

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::Pod;
use crate::check::text;

/// The mark of a mirror pod; its value is the kubelet's.
pub const ANNOTATION: &str = "kubernetes.io/config.mirror";

pub fn is_mirror(pod: &Pod) -> bool {
    value(pod).is_some()
}

fn value(pod: &Pod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(ANNOTATION)
}

fn path() -> Path {
    Path::new("metadata").child("annotations").key(ANNOTATION)
}

pub(super) fn validate(pod: &Pod, errors: &mut FieldErrors) {
    let node = text(pod.spec.as_ref().and_then(|it| it.node_name.as_ref()));
    if let Some(value) = value(pod).filter(|_| node.is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path(), value.as_str(), detail);
    }
}

pub(super) fn validate_update(pod: &Pod, stored: &Pod, errors: &mut FieldErrors) {
    match (value(stored), value(pod)) {
        (Some(old), new) if new != Some(old) => {
            errors.forbidden(&path(), "may not remove or update mirror pod annotation");
        }
        (None, Some(_)) => errors.forbidden(&path(), "may not add mirror pod annotation"),
        _ => {}
    }
}
