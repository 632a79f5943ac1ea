//! What the server says about itself: discovery in both forms, and OpenAPI. Pure.

use serde_json::{Value, json};

use super::{GROUP, VERSION};

const VERBS: [&str; 6] = ["create", "delete", "get", "list", "update", "watch"];

fn kind() -> Value {
    json!({"group": GROUP, "version": VERSION, "kind": "Flunder"})
}

/// GET /apis, aggregated.
pub(super) fn aggregated() -> Value {
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{
                "version": VERSION, "freshness": "Current",
                "resources": [{
                    "resource": "flunders", "singularResource": "flunder", "scope": "Namespaced",
                    "responseKind": kind(), "verbs": VERBS, "shortNames": ["fl"],
                }],
            }],
        }],
    })
}

/// GET /apis.
pub(super) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [body()]})
}

/// GET /apis/GROUP.
pub(super) fn group() -> Value {
    let mut group = body();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn body() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// GET /apis/GROUP/VERSION.
pub(super) fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [{
            "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "verbs": VERBS, "shortNames": ["fl"],
        }],
    })
}

fn schema() -> Value {
    let text = |what: &str| json!({"type": "string", "description": what});
    json!({
        "type": "object", "description": "A flunder: something to keep.",
        "properties": {
            "apiVersion": text("The version of the API that this object is written in."),
            "kind": text("The kind of this object."),
            "metadata": {"type": "object", "description": "Its name, and what others say of it."},
            "spec": {
                "type": "object", "description": "What it should be.",
                "properties": {"reference": text("The name of another flunder.")},
            },
        },
        "x-kubernetes-group-version-kind": [kind()],
    })
}

fn list_path() -> String {
    format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/flunders")
}

/// GET /openapi/v3.
pub(super) fn index() -> Value {
    let path = format!("apis/{GROUP}/{VERSION}");
    let url = format!("/openapi/v3/{path}?hash=1");
    json!({"paths": {path: {"serverRelativeURL": url}}})
}

/// GET /openapi/v3/apis/GROUP/VERSION.
pub(super) fn openapi_v3() -> Value {
    let reference = json!({"$ref": "#/components/schemas/com.example.wardle.v1.Flunder"});
    let answer =
        json!({"description": "OK", "content": {"application/json": {"schema": reference}}});
    json!({
        "openapi": "3.0.0", "info": {"title": "wardle", "version": VERSION},
        "paths": {list_path(): {"get": {
            "responses": {"200": answer}, "x-kubernetes-action": "list",
            "x-kubernetes-group-version-kind": kind(),
        }}},
        "components": {"schemas": {"com.example.wardle.v1.Flunder": schema()}},
    })
}

/// GET /openapi/v2.
pub(super) fn openapi_v2() -> Value {
    let reference = json!({"$ref": "#/definitions/com.example.wardle.v1.Flunder"});
    json!({
        "swagger": "2.0", "info": {"title": "wardle", "version": VERSION},
        "paths": {list_path(): {"get": {
            "operationId": "listFlunders",
            "responses": {"200": {"description": "OK", "schema": reference}},
            "x-kubernetes-action": "list", "x-kubernetes-group-version-kind": kind(),
        }}},
        "definitions": {"com.example.wardle.v1.Flunder": schema()},
    })
}
