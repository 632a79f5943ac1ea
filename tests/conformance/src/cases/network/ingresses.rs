//! Ingresses and their classes, as objects.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] Ingress API should support creating Ingress API operations [Conformance]",
        ingresses
    ),
    case!(
        "[sig-network] IngressClass API should support creating IngressClass API operations [Conformance]",
        classes
    ),
];

const GROUP: &str = "networking.k8s.io/v1";

async fn ingresses(scope: &Scope) -> Result<()> {
    let backend = |name: &str| json!({ "service": { "name": name, "port": { "number": 80 } } });
    let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend("web") });
    let rule = json!({ "host": "conformance.example.com", "http": { "paths": [path] } });
    let balanced = |ip: &str| json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } });
    let ingresses = Operations {
        group_version: GROUP,
        resource: "ingresses",
        kind: "Ingress",
        is_namespaced: true,
        object: json!({ "spec": { "defaultBackend": backend("any"), "rules": [rule] } }),
        change: json!({ "spec": { "defaultBackend": backend("other") } }),
        status: Some(Status {
            values: [balanced("192.0.2.1"), balanced("192.0.2.2")],
            takes_annotations: true,
        }),
        names: None,
    };
    ingresses.check(scope).await
}

async fn classes(scope: &Scope) -> Result<()> {
    let parameters = json!({ "apiGroup": "example.com", "kind": "Parameters", "name": "some", "scope": "Cluster" });
    let classes = Operations {
        group_version: GROUP,
        resource: "ingressclasses",
        kind: "IngressClass",
        is_namespaced: false,
        object: json!({ "spec": { "controller": "example.com/controller" } }),
        change: json!({ "spec": { "parameters": parameters } }),
        status: None,
        names: None,
    };
    classes.check(scope).await
}
