//! What the scheduler writes: bindings, the PodScheduled condition of pods that fit nowhere, and
//! events.

use std::sync::Arc;

use api::Identified as _;
use api::core::pod::{PodView, Unscheduled};
use apimachinery::{ApiError, ObjectKey};
use bytes::Bytes;
use client::{Client, PatchKind};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use reconcile::{EventRecorder, EventType};
use stdx::World;

use crate::diagnosis::Diagnosis;

#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) events: EventRecorder,
    pub(crate) world: World,
}

impl Writer {
    /// The uid makes sure that a pod of the same name, made meanwhile, is not bound by mistake.
    pub(crate) async fn bind(
        &self,
        key: &ObjectKey,
        uid: &str,
        node: &str,
    ) -> Result<(), ApiError> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(uid.to_owned()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        self.client
            .api::<Pod>()
            .create_subresource(&key.namespace, &key.name, "binding", binding)
            .await
    }

    pub(crate) fn record_scheduled(&self, pod: &Arc<PodView>, key: &ObjectKey, node: &str) {
        let message = format!("Successfully assigned {key} to {node}");
        self.events.event(pod.as_ref(), EventType::Normal, "Scheduled", message);
    }

    /// Says why in the condition (only when that changes it) and in an event.
    pub(crate) async fn report_unschedulable(
        &self,
        pod: &Arc<PodView>,
        diagnosis: &Diagnosis,
    ) -> Result<(), ApiError> {
        let message = diagnosis.to_string();
        self.events.event(pod.as_ref(), EventType::Warning, "FailedScheduling", message.clone());
        if says_already(pod, &message) {
            return Ok(());
        }
        let body = serde_json::json!({ "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": transition_time(pod, &self.world),
        }] } });
        let ObjectKey { namespace, name } = pod.key();
        let body = Bytes::from(body.to_string());
        self.client
            .api::<Pod>()
            .patch_status(&namespace, &name, PatchKind::Strategic, body)
            .await
            .map(|_| ())
    }
}

fn says_already(pod: &PodView, message: &str) -> bool {
    let is_said =
        |it: &Unscheduled| it.reason.as_str() == "Unschedulable" && *it.message == *message;
    pod.unscheduled.as_deref().is_some_and(is_said)
}

/// The time of the condition moves only when its status does.
fn transition_time(pod: &PodView, world: &World) -> String {
    let since = pod.unscheduled.as_ref().and_then(|it| it.since);
    let seconds = since.unwrap_or_else(|| world.clock.now()).as_second();
    jiff::Timestamp::from_second(seconds).map(|it| it.to_string()).unwrap_or_default()
}
