//! Devices: classes, claims, templates of claims and slices, as objects.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!("[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 DeviceClass [Conformance]", classes),
    case!("[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaim [Conformance]", claims),
    case!(
        "[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaimTemplate [Conformance]",
        templates
    ),
    case!("[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceSlice [Conformance]", slices),
];

const GROUP: &str = "resource.k8s.io/v1";

/// An expression that no device meets.
fn selector(expression: &str) -> Value {
    json!({ "spec": { "selectors": [{ "cel": { "expression": expression } }] } })
}

async fn classes(scope: &Scope) -> Result<()> {
    let classes = Operations {
        group_version: GROUP,
        resource: "deviceclasses",
        kind: "DeviceClass",
        is_namespaced: false,
        object: selector("false"),
        change: selector("1 == 0"),
        status: None,
        names: None,
    };
    classes.check(scope).await
}

fn claim() -> Value {
    let exactly = json!({ "deviceClassName": "conformance.example.com" });
    json!({ "spec": { "devices": { "requests": [{ "name": "req-0", "exactly": exactly }] } } })
}

async fn claims(scope: &Scope) -> Result<()> {
    // Nothing at all is an allocation, too.
    let nothing = json!({ "allocation": {} });
    let claims = Operations {
        group_version: GROUP,
        resource: "resourceclaims",
        kind: "ResourceClaim",
        is_namespaced: true,
        object: claim(),
        change: json!({}),
        status: Some(Status { values: [nothing.clone(), nothing], takes_annotations: false }),
        names: None,
    };
    claims.check(scope).await
}

async fn templates(scope: &Scope) -> Result<()> {
    let templates = Operations {
        group_version: GROUP,
        resource: "resourceclaimtemplates",
        kind: "ResourceClaimTemplate",
        is_namespaced: true,
        object: json!({ "spec": claim() }),
        change: json!({}),
        status: None,
        names: None,
    };
    templates.check(scope).await
}

async fn slices(scope: &Scope) -> Result<()> {
    let pool = json!({ "name": "cluster", "generation": 1, "resourceSliceCount": 1 });
    let slices = Operations {
        group_version: GROUP,
        resource: "resourceslices",
        kind: "ResourceSlice",
        is_namespaced: false,
        object: json!({ "spec": {
            "driver": "conformance.example.com", "pool": pool, "nodeName": scope.unique("no-node"),
        } }),
        change: json!({ "spec": { "devices": [{ "name": "device-0" }] } }),
        status: None,
        names: None,
    };
    slices.check(scope).await
}
