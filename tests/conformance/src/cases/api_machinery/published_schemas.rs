//! The schemas of definitions in the published OpenAPI document, and what kubectl makes of them.

use anyhow::{Context as _, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use super::custom_resources::{Definition, anything, definitions};
use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{newer, same, says};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] removes definition from spec when one version gets changed to not be served [Conformance]",
        no_longer_served
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] updates the published spec when one version gets renamed [Conformance]",
        renamed
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD preserving unknown fields at the schema root [Conformance]",
        open_at_the_root
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD preserving unknown fields in an embedded object [Conformance]",
        open_inside
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD with validation schema [Conformance]",
        with_schema
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD without validation schema [Conformance]",
        without_schema
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of different groups [Conformance]",
        groups
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of same group and version but different kinds [Conformance]",
        kinds
    ),
    case!(
        "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of same group but different versions [Conformance]",
        versions
    ),
];

fn boats() -> Value {
    json!({ "type": "object", "description": "A fleet of boats.", "properties": {
        "spec": { "type": "object", "description": "What the fleet should be.", "properties": {
            "boats": { "type": "array", "description": "The boats that belong to it.", "items": {
                "type": "object", "required": ["name"], "properties": {
                    "name": { "type": "string", "description": "Name of the boat." },
                    "length": { "type": "string", "description": "From bow to stern." },
                    "rig": { "type": "string", "description": "How it is rigged.", "enum": ["Sloop", "Ketch"] },
                    "crew": { "type": "array", "description": "Who sails it.", "items": { "type": "string" } },
                },
            } },
        } },
        "status": { "type": "object", "description": "What the fleet is.", "properties": {
            "afloat": { "type": "boolean", "description": "Whether it swims." },
            "harbor": { "type": "string", "description": "Where it lies.", "pattern": "north|south" },
        } },
    } })
}

fn winds() -> Value {
    json!({ "type": "object", "description": "A wind.", "properties": {
        "spec": { "type": "object", "description": "What it should be.", "properties": {
            "force": { "type": "object", "description": "How strong." },
        } },
    } })
}

/// The definition of a version in the document, without what the server adds.
fn published(document: &Value, definition: &Definition, version: &str) -> Option<Value> {
    let group: Vec<&str> = definition.group.rsplit('.').collect();
    let name = format!("{}.{version}.{}", group.join("."), definition.kind);
    let mut schema = document["definitions"].get(&name)?.clone();
    let fields = schema.as_object_mut()?;
    fields.remove("x-kubernetes-group-version-kind");
    fields.remove("x-kubernetes-selectable-fields");
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        for field in ["apiVersion", "kind", "metadata"] {
            properties.remove(field);
        }
        if properties.is_empty() {
            fields.remove("properties");
        }
    }
    Some(schema)
}

/// Looks at the document each time that it is another one, until it is right.
async fn until_published(
    scope: &Scope,
    what: &str,
    is_right: impl Fn(&Value) -> Result<()>,
) -> Result<()> {
    let mut tag = String::new();
    let mut wrong = String::from("never read");
    scope
        .until(what, async || {
            let headers = [("accept", "application/json"), ("if-none-match", &*tag)];
            let answer = scope.send(Method::GET, "/openapi/v2", &headers, Vec::new()).await?;
            if answer.code == 304 {
                bail!("{wrong}");
            }
            same("code of /openapi/v2", answer.code, 200)?;
            let etag = answer.headers.get("etag").and_then(|it| it.to_str().ok());
            etag.unwrap_or_default().clone_into(&mut tag);
            let outcome = is_right(&answer.json()?);
            wrong = outcome.as_ref().err().map(|it| format!("{it:#}")).unwrap_or_default();
            outcome
        })
        .await
}

/// Until each of these versions is there with this schema, or absent.
async fn until_is(
    scope: &Scope,
    definition: &Definition,
    expected: &[(&str, Option<&Value>)],
) -> Result<()> {
    until_published(scope, "the schema is published", |document| {
        for (version, schema) in expected {
            let seen = published(document, definition, version);
            same(&format!("schema of {version}"), seen.as_ref(), *schema)?;
        }
        Ok(())
    })
    .await
}

async fn groups(scope: &Scope) -> Result<()> {
    let boat = Definition::new(scope, "boats", "boat", &["v1"], boats());
    let wind = Definition::new(scope, "winds", "wind", &["v1beta1"], winds());
    boat.create(scope).await?;
    wind.create(scope).await?;
    until_is(scope, &wind, &[("v1beta1", Some(&winds()))]).await?;
    until_is(scope, &boat, &[("v1", Some(&boats()))]).await
}

async fn kinds(scope: &Scope) -> Result<()> {
    let boat = Definition::new(scope, "shared", "boat", &["v6"], boats());
    let wind = Definition::new(scope, "shared", "wind", &["v6"], winds());
    boat.create(scope).await?;
    wind.create(scope).await?;
    until_is(scope, &wind, &[("v6", Some(&winds()))]).await?;
    until_is(scope, &boat, &[("v6", Some(&boats()))]).await
}

async fn versions(scope: &Scope) -> Result<()> {
    let several = Definition::new(scope, "several", "boat", &["v2", "v3"], boats());
    several.create(scope).await?;
    let schema = boats();
    until_is(scope, &several, &[("v3", Some(&schema)), ("v2", Some(&schema))]).await?;

    let boat = Definition::new(scope, "shared", "boat", &["v4"], boats());
    let wind = Definition::new(scope, "shared", "wind", &["v5"], winds());
    boat.create(scope).await?;
    wind.create(scope).await?;
    until_is(scope, &wind, &[("v5", Some(&winds()))]).await?;
    until_is(scope, &boat, &[("v4", Some(&schema))]).await
}

async fn renamed(scope: &Scope) -> Result<()> {
    let boat = Definition::new(scope, "renamed", "boat", &["v2", "v3"], boats());
    boat.create(scope).await?;
    let schema = boats();
    until_is(scope, &boat, &[("v3", Some(&schema)), ("v2", Some(&schema))]).await?;
    let patch = json!([
        { "op": "test", "path": "/spec/versions/1/name", "value": "v3" },
        { "op": "replace", "path": "/spec/versions/1/name", "value": "v4" },
    ]);
    definitions(scope).patch(&boat.name(), Patch::Json, &patch).await?;
    let expected = [("v4", Some(&schema)), ("v3", None), ("v2", Some(&schema))];
    until_is(scope, &boat, &expected).await
}

async fn no_longer_served(scope: &Scope) -> Result<()> {
    let boat = Definition::new(scope, "unserved", "boat", &["v5", "v6alpha1"], boats());
    let made = boat.create(scope).await?;
    let schema = boats();
    until_is(scope, &boat, &[("v6alpha1", Some(&schema)), ("v5", Some(&schema))]).await?;
    let changed = definitions(scope)
        .change(&boat.name(), None, |it| it["spec"]["versions"][1]["served"] = json!(false))
        .await?;
    newer(&made, &changed)?;
    until_is(scope, &boat, &[("v6alpha1", None), ("v5", Some(&schema))]).await
}

/// kubectl creates and applies it, and deletes it each time.
async fn accepts(scope: &Scope, definition: &Definition, object: &Value) -> Result<()> {
    let kubectl = scope.kubectl()?;
    let (space, object) = (&*scope.namespace, object.to_string());
    for verb in ["create", "apply"] {
        kubectl
            .ok_with(space, &[verb, "-f", "-"], Some(&object))
            .await
            .context("a valid object")?;
        kubectl.ok(space, &["delete", &definition.name(), "thing"]).await?;
    }
    Ok(())
}

/// kubectl refuses, saying so.
async fn refuses(scope: &Scope, object: &Value, said: &str) -> Result<()> {
    let kubectl = scope.kubectl()?;
    for verb in ["create", "apply"] {
        let arguments = [verb, "-f", "-"];
        let text = kubectl.refused(&scope.namespace, &arguments, Some(&object.to_string())).await?;
        says(&format!("kubectl {verb}"), &text, &[said])?;
    }
    Ok(())
}

/// The parts are in the explanation, one after the other.
async fn explains(scope: &Scope, path: &str, parts: &[&str]) -> Result<()> {
    let kubectl = scope.kubectl()?;
    scope
        .until("kubectl explains it", async || {
            let text = kubectl.ok(&scope.namespace, &["explain", path]).await?;
            let mut rest = &*text;
            for part in parts {
                let Some(at) = rest.find(part) else {
                    bail!("kubectl explain {path}: expected {part:?} after that, saw\n{text}");
                };
                rest = &rest[at + part.len()..];
            }
            Ok(())
        })
        .await
}

fn thing(definition: &Definition, spec: &Value) -> Value {
    let mut object = definition.instance("thing");
    object["spec"] = spec.clone();
    object
}

async fn with_schema(scope: &Scope) -> Result<()> {
    let fleet = Definition::new(scope, "fleets", "fleet", &["v1"], boats());
    fleet.create(scope).await?;
    until_is(scope, &fleet, &[("v1", Some(&boats()))]).await?;

    let boat = |boat: Value| thing(&fleet, &json!({ "boats": [boat] }));
    accepts(scope, &fleet, &boat(json!({ "name": "Albatross", "rig": "Ketch" }))).await?;
    let barge = boat(json!({ "name": "Albatross", "rig": "Barge" }));
    refuses(scope, &barge, r#"Unsupported value: "Barge""#).await?;
    refuses(scope, &thing(&fleet, &json!({ "oars": 2 })), r#"unknown field "spec.oars""#).await?;
    let nameless = boat(json!({ "length": "10" }));
    refuses(scope, &nameless, "spec.boats[0].name: Required value").await?;

    let name = fleet.name();
    let whole = [
        "DESCRIPTION:",
        "A fleet of boats.",
        "FIELDS:",
        "apiVersion",
        "<string>",
        "APIVersion defines",
        "spec",
        "<Object>",
        "What the fleet should be.",
    ];
    explains(scope, &name, &whole).await?;
    let metadata = [
        "DESCRIPTION:",
        "Standard object's metadata",
        "FIELDS:",
        "creationTimestamp",
        "<string>",
        "CreationTimestamp is a timestamp",
    ];
    explains(scope, &format!("{}.metadata", fleet.plural), &metadata).await?;
    let spec = [
        "DESCRIPTION:",
        "What the fleet should be.",
        "FIELDS:",
        "boats",
        "<[]Object>",
        "The boats that belong to it.",
    ];
    explains(scope, &format!("{}.spec", fleet.plural), &spec).await?;
    let boats = [
        "boats",
        "<[]Object>",
        "DESCRIPTION:",
        "The boats that belong to it.",
        "FIELDS:",
        "crew",
        "<[]string>",
        "Who sails it.",
        "name",
        "<string>",
        "Name of the boat.",
    ];
    explains(scope, &format!("{}.spec.boats", fleet.plural), &boats).await?;
    let absent = format!("{}.spec.oars", fleet.plural);
    let text = scope.kubectl()?.refused(&scope.namespace, &["explain", &absent], None).await?;
    says("kubectl explain of what is not there", &text, &[r#"field "oars" does not exist"#])
}

async fn without_schema(scope: &Scope) -> Result<()> {
    let box_ = Definition::new(scope, "boxes", "crate", &["v1"], anything());
    box_.create(scope).await?;
    until_is(scope, &box_, &[("v1", Some(&json!({ "type": "object" })))]).await?;
    let mut object = box_.instance("thing");
    object["content"] = json!({ "of": [{ "any": "kind" }] });
    accepts(scope, &box_, &object).await?;
    explains(scope, &box_.name(), &["DESCRIPTION:", "<empty>"]).await
}

async fn open_at_the_root(scope: &Scope) -> Result<()> {
    let mut schema = winds();
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let wind = Definition::new(scope, "open", "wind", &["v1"], schema);
    wind.create(scope).await?;
    until_published(scope, "the schema is published", |document| {
        ensure!(published(document, &wind, "v1").is_some(), "no schema of {}", wind.name());
        Ok(())
    })
    .await?;
    let mut object = wind.instance("thing");
    object["gusts"] = json!({ "of": [{ "any": "kind" }] });
    accepts(scope, &wind, &object).await?;
    explains(scope, &wind.name(), &["KIND:", "Wind"]).await
}

async fn open_inside(scope: &Scope) -> Result<()> {
    let mut schema = winds();
    schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let wind = Definition::new(scope, "inside", "wind", &["v1"], schema);
    wind.create(scope).await?;
    until_published(scope, "the schema is published", |document| {
        ensure!(published(document, &wind, "v1").is_some(), "no schema of {}", wind.name());
        Ok(())
    })
    .await?;
    accepts(scope, &wind, &thing(&wind, &json!({ "a": null, "gusts": [{ "any": "kind" }] })))
        .await?;
    explains(scope, &wind.name(), &["DESCRIPTION:", "A wind."]).await
}
