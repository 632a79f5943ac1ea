//! The parts of the documents that kubectl reads.

use serde_json::Value;

use super::*;
use crate::protobuf::wire::{Reader, Wire};

fn v3(group: &str, version: &str) -> Value {
    let document = v3_document(&GroupVersion::new(group, version), &crate::kinds());
    serde_json::from_slice(&document).unwrap()
}

/// Those that are said in place.
fn parameters(operation: &Value) -> Vec<&str> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    parameters.filter_map(|it| it["name"].as_str()).collect()
}

#[test]
fn patch_lists_the_parameters_that_kubectl_looks_for() {
    let check = |document: &Value, path: &str, kind: &str| {
        let patch = &document["paths"][path]["patch"];
        assert_eq!(
            parameters(patch),
            ["dryRun", "fieldManager", "fieldValidation", "force"],
            "{path}"
        );
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], kind);
    };
    let apps = v3("apps", "v1");
    check(&apps, "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "Deployment");
    check(&apps, "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", "Scale");
    check(&v3("", "v1"), "/api/v1/namespaces/{name}", "Namespace");
}

#[test]
fn every_reference_of_every_document_resolves() {
    for group_version in crate::discovery_documents::group_versions(&crate::kinds()) {
        let bytes = v3_document(&group_version, &crate::kinds());
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in references_in(std::str::from_utf8(&bytes).unwrap()) {
            assert!(schemas.contains_key(&name), "{group_version}: {name}");
        }
    }
}

#[test]
fn schemas_carry_merge_rules_beside_wrapped_references() {
    let apps = v3("apps", "v1");
    let schemas = &apps["components"]["schemas"];
    let strategy = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
    assert_eq!(strategy["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(
        strategy["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"
    );
    assert!(strategy["description"].as_str().is_some_and(|it| !it.is_empty()));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    let gvk = &schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"];
    assert_eq!(gvk[0]["kind"], "Deployment");
}

#[test]
fn schemas_say_defaults_and_possible_values() {
    let core = v3("", "v1");
    let v2: Value = serde_json::from_slice(&v2_document(&crate::kinds(), &[])).unwrap();
    let field = |document: &Value, definition: &str, field: &str| {
        document[definition]["properties"][field].clone()
    };
    let (schemas, definitions) = (&core["components"]["schemas"], &v2["definitions"]);
    let port = "io.k8s.api.core.v1.ContainerPort";
    let protocol = field(schemas, port, "protocol");
    assert_eq!(protocol["default"], "TCP");
    assert_eq!(protocol["enum"], json!(["SCTP", "TCP", "UDP"]));
    let description = protocol["description"].as_str().unwrap();
    let values = "\n\nPossible enum values:\n - `\"SCTP\"`\n - `\"TCP\"`\n - `\"UDP\"`";
    assert!(description.ends_with(values), "{description}");
    let containers = field(schemas, "io.k8s.api.core.v1.PodSpec", "containers");
    let item = json!({
        "allOf": [{ "$ref": "#/components/schemas/io.k8s.api.core.v1.Container" }], "default": {},
    });
    assert_eq!(containers["items"], item);
    assert_eq!(field(schemas, "io.k8s.api.core.v1.PodList", "metadata")["default"], json!({}));
    let families = field(schemas, "io.k8s.api.core.v1.ServiceSpec", "ipFamilies");
    assert_eq!(families["items"]["enum"], json!(["", "IPv4", "IPv6"]));

    let protocol = field(definitions, port, "protocol");
    assert_eq!(protocol["enum"], json!(["SCTP", "TCP", "UDP"]));
    assert_eq!(protocol["default"], Value::Null, "version 2 has no defaults of built-in types");
    let containers = field(definitions, "io.k8s.api.core.v1.PodSpec", "containers");
    let item = json!({ "$ref": "#/definitions/io.k8s.api.core.v1.Container" });
    assert_eq!(containers["items"], item);
    let schemas = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    assert!(field(definitions, schemas, "default").is_object(), "a field with that name stays");
}

#[test]
fn v2_has_plain_references_and_the_same_parameters() {
    let document: Value = serde_json::from_slice(&v2_document(&crate::kinds(), &[])).unwrap();
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(parameters(patch).contains(&"fieldValidation"));
    let definitions = &document["definitions"];
    let spec = &definitions["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    assert_eq!(
        spec["selector"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
    );
    let port = &definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!(
        (port["type"].as_str(), port["format"].as_str()),
        (Some("string"), Some("int-or-string"))
    );
    assert!(!document.to_string().contains(REF_PREFIX));
}

#[test]
fn v2_keeps_fields_that_are_named_like_keywords() {
    let document: Value = serde_json::from_slice(&v2_document(&crate::kinds(), &[])).unwrap();
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let properties = &document["definitions"][name]["properties"];
    for field in ["$ref", "allOf", "anyOf", "not", "nullable", "oneOf"] {
        assert!(properties[field].is_object(), "{field}");
    }
}

#[test]
fn every_reference_of_v2_resolves() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                let target = fields.get("$ref").and_then(Value::as_str);
                if let Some(target) = target.and_then(|it| it.strip_prefix('#')) {
                    assert!(document.pointer(target).is_some(), "{target}");
                }
                fields.values().for_each(|it| check(document, it));
            }
            Value::Array(items) => items.iter().for_each(|it| check(document, it)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_slice(&v2_document(&crate::kinds(), &[])).unwrap();
    check(&document, &document);
    let manager = &document["parameters"]["fieldManager-7c6nTn1T"];
    assert!(manager["description"].as_str().is_some_and(|it| it.contains("apply requests")));
}

#[test]
fn v2_does_not_describe_what_its_clients_would_refuse() {
    let check = |mut schema: Value, expected: Value| {
        let text = schema.to_string();
        v2::lower(&mut schema);
        assert_eq!(schema, expected, "{text}");
    };
    let fields = json!({ "a": { "type": "string" } });
    check(
        json!({ "type": "object", "allOf": [{ "required": ["a"] }], "properties": fields }),
        json!({ "type": "object", "properties": fields }),
    );
    check(
        json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
        json!({ "format": "int-or-string", "type": "string" }),
    );
    let default = json!({ "default": { "allOf": [], "type": "x" }, "type": "object" });
    check(default.clone(), default);
}

/// What is in the message at a path of numbers, once for each way there.
fn at<'a>(message: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
    let [number, rest @ ..] = path else { return vec![message] };
    let mut found = Vec::new();
    let mut reader = Reader::new(message);
    while let Some((at_number, wire)) = reader.next().unwrap() {
        if let (true, Wire::Bytes(inner)) = (at_number == *number, wire) {
            found.extend(at(inner, rest));
        }
    }
    found
}

fn text(message: &[u8], path: &[u32]) -> String {
    at(message, path)
        .iter()
        .map(|it| std::str::from_utf8(it).unwrap())
        .collect::<Vec<_>>()
        .join("|")
}

/// The value of the entry with this name, of entries of the form name = 1, value = 2.
fn named<'a>(message: &'a [u8], path: &[u32], name: &str) -> &'a [u8] {
    let entry = at(message, path).into_iter().find(|it| text(it, &[1]) == name);
    at(entry.unwrap_or_else(|| panic!("no {name}")), &[2])[0]
}

#[test]
fn the_protobuf_of_v2_has_schemas_where_kubectl_reads_them() {
    let document = v2_protobuf(&v2_document(&crate::kinds(), &[]));
    assert_eq!(text(&document, &[1]), "2.0");
    assert_eq!(text(&document, &[2, 1]), "Kubernetes");
    let schema = |name: &str| named(&document, &[9, 1], name);
    let deployment = schema("io.k8s.api.apps.v1.Deployment");
    assert_eq!(text(deployment, &[22, 1]), "object");
    let gvk = named(deployment, &[31], "x-kubernetes-group-version-kind");
    let gvk: Value = serde_json::from_slice(at(gvk, &[2])[0]).unwrap();
    assert_eq!(gvk, json!([{ "group": "apps", "version": "v1", "kind": "Deployment" }]));
    let spec = named(deployment, &[25, 1], "spec");
    assert_eq!(text(spec, &[1]), "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");

    let pod = schema("io.k8s.api.core.v1.PodSpec");
    assert_eq!(text(pod, &[19]), "containers");
    let containers = named(pod, &[25, 1], "containers");
    assert_eq!(text(containers, &[22, 1]), "array");
    assert_eq!(text(containers, &[23, 1, 1]), "#/definitions/io.k8s.api.core.v1.Container");
    let merge_key = named(containers, &[31], "x-kubernetes-patch-merge-key");
    assert_eq!(text(merge_key, &[2]), r#""name""#);
    let labels = schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let labels = named(labels, &[25, 1], "labels");
    assert_eq!(text(labels, &[21, 1, 22, 1]), "string");
}

#[test]
fn the_protobuf_of_v2_has_operations_where_kubectl_reads_them() {
    let document = v2_protobuf(&v2_document(&crate::kinds(), &[]));
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let item = named(&document, &[8, 2], path);
    assert_eq!(text(item, &[9, 1, 2, 4, 4]), "name");
    assert_eq!(
        text(item, &[9, 2, 1]),
        "#/parameters/namespace-vgWSWtn3|#/parameters/pretty-tJGM1-ng"
    );
    let patch = at(item, &[8])[0];
    // What old clients look for is said where they look; the rest is shared.
    assert_eq!(text(patch, &[8, 1, 2, 3, 4]), "dryRun|fieldValidation");
    let shared = ["body-78PwaGsr", "fieldManager-7c6nTn1T", "force-tOGGb0Yi"];
    assert_eq!(text(patch, &[8, 2, 1]), shared.map(|it| format!("#/parameters/{it}")).join("|"));
    let body = named(&document, &[10, 1], "body-78PwaGsr");
    assert_eq!(text(body, &[1, 5, 1]), "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
    let force = named(&document, &[10, 1], "force-tOGGb0Yi");
    assert_eq!(text(force, &[2, 3, 4]), "force");
    let response = named(patch, &[9, 1], "200");
    assert_eq!(text(response, &[1, 2, 1, 1]), "#/definitions/io.k8s.api.apps.v1.Deployment");
    let gvk = named(patch, &[13], "x-kubernetes-group-version-kind");
    let gvk: Value = serde_json::from_slice(at(gvk, &[2])[0]).unwrap();
    assert_eq!(gvk["kind"], "Deployment");
}

#[test]
fn each_shape_of_a_schema_has_its_form_in_protobuf() {
    let check = |schema: Value, expected: &[u8]| {
        let document = gnostic::v2::encode(&json!({ "definitions": { "A": schema } }));
        assert_eq!(named(&document, &[9, 1], "A"), expected, "{schema}");
    };
    check(json!({}), b"");
    check(json!({ "title": "t", "unknown": { "type": "string" } }), b"\x1a\x01t");
    check(json!({ "default": [1] }), b"\x2a\x05\x12\x03[1]");
    check(json!({ "maximum": 1 }), b"\x39\0\0\0\0\0\0\xf0\x3f");
    check(json!({ "maxLength": 300 }), b"\x58\xac\x02");
    check(json!({ "uniqueItems": true }), b"\x80\x01\x01");
    check(json!({ "required": ["a", "b"] }), b"\x9a\x01\x01a\x9a\x01\x01b");
    check(json!({ "enum": ["a", 1] }), b"\xa2\x01\x05\x12\x03\"a\"\xa2\x01\x03\x12\x011");
    check(json!({ "additionalProperties": true }), b"\xaa\x01\x02\x10\x01");
    check(json!({ "additionalProperties": {} }), b"\xaa\x01\x02\x0a\0");
    check(json!({ "type": ["a", "b"] }), b"\xb2\x01\x06\x0a\x01a\x0a\x01b");
    check(json!({ "properties": { "x-y": {} } }), b"\xca\x01\x09\x0a\x07\x0a\x03x-y\x12\0");
    check(json!({ "x-y": 1 }), b"\xfa\x01\x0a\x0a\x03x-y\x12\x03\x12\x011");
}

#[test]
fn the_index_names_each_document_with_its_hash() {
    let (core, apps) = (GroupVersion::new("", "v1"), GroupVersion::new("apps", "v1"));
    let places = [(&core, "AB"), (&apps, "CD")];
    let places = places.map(|(it, hash)| (it.clone(), v3_place(it, hash)));
    let index: Value = serde_json::from_slice(&v3_index(places)).unwrap();
    assert_eq!(index["paths"]["api/v1"]["serverRelativeURL"], "/openapi/v3/api/v1?hash=AB");
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/apps/v1?hash=CD"
    );
}
