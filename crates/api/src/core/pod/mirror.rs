//! Mirror pods: what stands in the API for a pod that a kubelet read from a file. A pod is one from
//! its beginning or never.

use super::Pod;

/// The mark of a mirror pod; its value is the kubelet's.
pub const ANNOTATION: &str = "kubernetes.io/config.mirror";

pub fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(ANNOTATION))
}
