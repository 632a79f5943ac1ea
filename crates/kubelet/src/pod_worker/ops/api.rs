//! What the API is told of a pod.

use std::sync::Arc;

use client::{DeleteOptions, PatchKind, Preconditions};
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::Outcome;
use crate::context::Context;
use crate::status;

/// `shown` is the object in the API whose status it is: for static pods, the mirror.
pub(in crate::pod_worker) async fn write_status(
    context: Arc<Context>,
    shown: Arc<Pod>,
    status: PodStatus,
) -> Outcome {
    let meta = &shown.metadata;
    let body =
        status::patch(meta.uid.as_deref().unwrap_or_default(), shown.status.as_ref(), &status);
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let pods = context.parts.client.api::<Pod>();
    let written = pods.patch_status(namespace, name, PatchKind::Strategic, body).await;
    match written.and_then(|it| it.object()) {
        Ok(pod) => Outcome::Written(Some(pod)),
        // Gone, or another pod of that name: the source will say so.
        Err(err) if err.is_not_found() || err.is_conflict() => Outcome::Written(None),
        Err(err) => {
            tracing::warn!(%namespace, name, error = %err, "status not written");
            Outcome::Failed
        }
    }
}

pub(in crate::pod_worker) async fn delete_pod(context: Arc<Context>, pod: Arc<Pod>) -> Outcome {
    let meta = &pod.metadata;
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Preconditions { uid: meta.uid.clone(), resource_version: None },
        ..DeleteOptions::default()
    };
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    match context.parts.client.api::<Pod>().delete(namespace, name, options).await {
        Ok(()) => Outcome::Done,
        Err(err) if err.is_not_found() || err.is_conflict() => Outcome::Done,
        Err(err) => {
            tracing::warn!(%namespace, name, error = %err, "finished pod not deleted");
            Outcome::Failed
        }
    }
}
