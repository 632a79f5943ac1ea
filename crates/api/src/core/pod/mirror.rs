//! Mirror pods: what stands in the API for a pod that a kubelet read from a file. A pod is one from
//! its beginning or never.

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::Pod;

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

pub(super) fn validate_update(pod: &Pod, stored: &Pod, errors: &mut FieldErrors) {
    match (value(stored), value(pod)) {
        (Some(old), new) if new != Some(old) => {
            errors.forbidden(&path(), "may not remove or update mirror pod annotation");
        }
        (None, Some(_)) => errors.forbidden(&path(), "may not add mirror pod annotation"),
        _ => {}
    }
}
