//! What those keep of a pod who ask where it runs and whether it has ended.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use serde::Deserialize;

use super::Pod;
use crate::object::{Meta, Stored};
use crate::{Interned, View};

/// A pod's place and phase. Whoever needs another field adds it, as long as the others can bear it: it is kept for each pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    pub created: Option<Timestamp>,
    /// Empty: not bound.
    pub node_name: Interned,
    /// Empty: the kubelet has not said yet, as `Pending`.
    pub phase: Interned,
}

#[derive(Deserialize)]
struct Parts {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<Interned>,
}

#[derive(Deserialize)]
struct Status {
    phase: Option<Interned>,
}

impl View for PodView {
    fn resource() -> GroupVersionResource {
        <Pod as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { metadata, spec, status } = serde_json::from_slice(&stored.bytes)?;
        Ok(Self {
            meta: stored.meta.clone(),
            created: metadata.and_then(|it| it.creation_timestamp),
            node_name: spec.and_then(|it| it.node_name).unwrap_or_default(),
            phase: status.and_then(|it| it.phase).unwrap_or_default(),
        })
    }
}

impl PodView {
    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        Some(self.node_name.as_str()).filter(|it| !it.is_empty())
    }

    /// Whether it ran to its end.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::PodView;
    use crate::core::pod::Pod;
    use crate::object::meta_of;
    use crate::{Resource as _, Stored};

    fn check(pod: serde_json::Value, expected: (Option<&str>, &str, bool, Option<&str>)) {
        let bytes = bytes::Bytes::from(pod.to_string());
        let whole = Pod::decode(&bytes).unwrap();
        let stored = Stored::new(meta_of(whole.metadata(), Vec::new()), bytes);
        let view = stored.view::<PodView>().unwrap();
        let created = view.created.map(|it| it.to_string());
        let found = (view.node(), view.phase.as_str(), view.is_terminal(), created.as_deref());
        assert_eq!(found, expected);
        assert_eq!(view.meta.key.name, whole.metadata.name.unwrap_or_default());
        // One of each for all who ask.
        assert!(std::sync::Arc::ptr_eq(&view, &stored.view::<PodView>().unwrap()));
        let pod = stored.view::<Pod>().unwrap();
        assert!(std::sync::Arc::ptr_eq(&pod, &stored.view::<Pod>().unwrap()));
        assert!(std::sync::Arc::ptr_eq(&view, &stored.view::<PodView>().unwrap()));
    }

    #[test]
    fn a_pod_says_where_it_runs_and_whether_it_ended() {
        check(json!({"metadata": {"name": "a"}}), (None, "", false, None));
        check(
            json!({
                "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"containers": [{"name": "c"}], "nodeName": "n1"},
                "status": {"phase": "Failed", "podIP": "10.0.0.1"},
            }),
            (Some("n1"), "Failed", true, Some("2026-01-01T00:00:00Z")),
        );
        check(
            json!({"metadata": {"name": "a"}, "spec": {"containers": [], "nodeName": ""}, "status": {"phase": "Running"}}),
            (None, "Running", false, None),
        );
    }
}
