//! What events about a resize say: the resources of each container, as JSON that upstream's clients
//! read (pkg/kubelet/events/resize.go).

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde_json::{Map, Value, json};

use super::{Pending, Quantities};

pub(crate) fn started(pod: &Pod, generation: i64) -> String {
    message("Pod resize started", pod, generation, "")
}

pub(crate) fn completed(pod: &Pod, generation: i64) -> String {
    message("Pod resize completed", pod, generation, "")
}

pub(crate) fn failed(pod: &Pod, generation: i64, error: &str) -> String {
    message("Pod resize error", pod, generation, error)
}

pub(crate) fn pending(pod: &Pod, pending: &Pending) -> String {
    let Pending { reason, message: why, generation } = pending;
    message(&format!("Pod resize {reason}"), pod, *generation, why)
}

fn message(what: &str, pod: &Pod, generation: i64, error: &str) -> String {
    let absent = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&absent);
    let all = |it: &[Container]| -> Value {
        let one = |it: &Container| json!({ "name": it.name, "resources": resources(it) });
        it.iter().map(one).collect()
    };
    let mut summary = Map::new();
    if let Some(init) = spec.init_containers.as_deref().filter(|it| !it.is_empty()) {
        summary.insert("initContainers".to_owned(), all(init));
    }
    summary.insert("containers".to_owned(), all(&spec.containers));
    summary.insert("generation".to_owned(), generation.into());
    if !error.is_empty() {
        summary.insert("error".to_owned(), error.into());
    }
    format!("{what}: {}", Value::Object(summary))
}

fn resources(container: &Container) -> Value {
    let Quantities { requests, limits } = Quantities::of(container.resources.as_ref());
    let lists = [("limits", limits), ("requests", requests)];
    let lists = lists.into_iter().filter_map(|(name, it)| Some((name.to_owned(), json!(it?))));
    Value::Object(lists.collect())
}
