//! Services, as objects.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::{Operations, Status, deletes_a_collection};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] Services should complete a service status lifecycle [Conformance]",
        lifecycle
    ),
    case!(
        "[sig-network] Services should delete a collection of services [Conformance]",
        collection
    ),
];

/// Of a class that nobody serves, so that nobody but the case writes its status.
async fn lifecycle(scope: &Scope) -> Result<()> {
    let condition = json!({
        "type": "Replaced", "status": "True", "reason": "Conformance", "message": "of a test",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let ports = json!([{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 80 }]);
    let services = Operations {
        group_version: "v1",
        resource: "services",
        kind: "Service",
        is_namespaced: true,
        object: json!({ "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "example.com/internal-vip",
            "sessionAffinity": "None", "ports": ports,
        } }),
        change: json!({ "spec": { "sessionAffinity": "ClientIP" } }),
        status: Some(Status {
            values: [
                json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } }),
                json!({ "conditions": [condition] }),
            ],
            takes_annotations: true,
        }),
        names: None,
    };
    services.check(scope).await
}

async fn collection(scope: &Scope) -> Result<()> {
    let service = json!({ "spec": {
        "type": "ClusterIP",
        "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 80 }],
    } });
    deletes_a_collection(scope, &scope.own("v1", "services"), &service).await
}
