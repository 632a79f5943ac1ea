//! The parts of the documents that kubectl reads.

use serde_json::Value;

use super::*;

fn v3(group: &str, version: &str) -> Value {
    let document = v3_document(&GroupVersion::new(group, version), &crate::kinds());
    serde_json::from_slice(&document).unwrap()
}

fn parameters(operation: &Value) -> Vec<&str> {
    operation["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
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
fn v2_has_plain_references_and_the_same_parameters() {
    let document: Value = serde_json::from_slice(&v2_document(&crate::kinds())).unwrap();
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
fn the_index_names_each_document_with_its_hash() {
    let (core, apps) = (GroupVersion::new("", "v1"), GroupVersion::new("apps", "v1"));
    let index: Value = serde_json::from_slice(&v3_index([(&core, "AB"), (&apps, "CD")])).unwrap();
    assert_eq!(index["paths"]["api/v1"]["serverRelativeURL"], "/openapi/v3/api/v1?hash=AB");
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/apps/v1?hash=CD"
    );
}
