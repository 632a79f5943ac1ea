//! PodTemplates.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::shows;
use crate::operations::{Operations, deletes_a_collection};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] PodTemplates should delete a collection of pod templates [Conformance]",
        collection
    ),
    case!("[sig-node] PodTemplates should replace a pod template [Conformance]", replace),
    case!(
        "[sig-node] PodTemplates should run the lifecycle of PodTemplates [Conformance]",
        lifecycle
    ),
];

fn template() -> Value {
    let containers = json!([{ "name": "main", "image": "example.com/image:1" }]);
    json!({ "template": { "spec": { "containers": containers } } })
}

async fn collection(scope: &Scope) -> Result<()> {
    deletes_a_collection(scope, &scope.own("v1", "podtemplates"), &template()).await
}

async fn replace(scope: &Scope) -> Result<()> {
    let templates = scope.own("v1", "podtemplates");
    let mut object = template();
    object["metadata"] = json!({ "name": "template" });
    templates.create(&object).await?;
    let annotations = json!({ "annotations": { "replaced": "yes" } });
    let replaced = templates
        .change("template", None, |it| {
            it["metadata"]["annotations"] = annotations["annotations"].clone();
        })
        .await?;
    shows(&replaced, &json!({ "metadata": annotations }))?;
    shows(&templates.get("template").await?, &json!({ "metadata": annotations }))
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let templates = Operations {
        group_version: "v1",
        resource: "podtemplates",
        kind: "PodTemplate",
        is_namespaced: true,
        object: template(),
        change: json!({ "template": { "metadata": { "labels": { "a": "b" } } } }),
        status: None,
        names: None,
    };
    templates.check(scope).await
}
