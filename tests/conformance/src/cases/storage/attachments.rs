//! VolumeAttachments: objects, and their status.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-storage] VolumeAttachment Conformance should apply changes to a volumeattachment status [Conformance]",
        status
    ),
    case!(
        "[sig-storage] VolumeAttachment Conformance should run through the lifecycle of a VolumeAttachment [Conformance]",
        lifecycle
    ),
];

fn attachments(scope: &Scope) -> Operations {
    Operations {
        group_version: "storage.k8s.io/v1",
        resource: "volumeattachments",
        kind: "VolumeAttachment",
        is_namespaced: false,
        object: json!({ "spec": {
            "attacher": "conformance.example.com", "nodeName": scope.unique("no-node"),
            "source": { "persistentVolumeName": scope.unique("no-volume") },
        } }),
        change: json!({}),
        status: None,
        names: None,
    }
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    attachments(scope).check(scope).await
}

async fn status(scope: &Scope) -> Result<()> {
    let attached = |it: bool| json!({ "attached": it });
    let status =
        Some(Status { values: [attached(true), attached(false)], takes_annotations: false });
    Operations { status, ..attachments(scope) }.check(scope).await
}
