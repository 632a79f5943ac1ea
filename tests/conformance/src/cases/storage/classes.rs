//! StorageClasses and VolumeAttributesClasses, as objects.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-storage] StorageClasses CSI Conformance should run through the lifecycle of a StorageClass [Conformance]",
        storage
    ),
    case!(
        "[sig-storage] VolumeAttributesClass [FeatureGate:VolumeAttributesClass] should run through the lifecycle of a VolumeAttributesClass [Conformance]",
        attributes
    ),
];

const GROUP: &str = "storage.k8s.io/v1";

async fn storage(scope: &Scope) -> Result<()> {
    let classes = Operations {
        group_version: GROUP,
        resource: "storageclasses",
        kind: "StorageClass",
        is_namespaced: false,
        object: json!({ "provisioner": "example.com/nobody", "allowVolumeExpansion": false }),
        change: json!({ "allowVolumeExpansion": true }),
        status: None,
        names: None,
    };
    classes.check(scope).await
}

async fn attributes(scope: &Scope) -> Result<()> {
    let classes = Operations {
        group_version: GROUP,
        resource: "volumeattributesclasses",
        kind: "VolumeAttributesClass",
        is_namespaced: false,
        object: json!({ "driverName": "conformance.example.com", "parameters": { "foo": "bar" } }),
        change: json!({}),
        status: None,
        names: None,
    };
    classes.check(scope).await
}
