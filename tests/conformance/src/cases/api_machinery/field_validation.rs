//! Strict field validation: unknown and duplicate fields are named, wherever they are.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use super::custom_resources::{Definition, anything};
use crate::cases::{Case, case};
use crate::client::{Patch, query};
use crate::expect::{refusal, refused, says};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] FieldValidation should create/apply a CR with unknown fields for CRD with no validation schema [Conformance]",
        no_schema
    ),
    case!(
        "[sig-api-machinery] FieldValidation should create/apply a valid CR for CRD with validation schema [Conformance]",
        valid
    ),
    case!(
        "[sig-api-machinery] FieldValidation should create/apply an invalid CR with extra properties for CRD with validation schema [Conformance]",
        extra
    ),
    case!(
        "[sig-api-machinery] FieldValidation should detect duplicates in a CR when preserving unknown fields [Conformance]",
        custom_duplicates
    ),
    case!(
        "[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object [Conformance]",
        duplicates
    ),
    case!(
        "[sig-api-machinery] FieldValidation should detect unknown metadata fields in both the root and embedded object of a CR [Conformance]",
        embedded_metadata
    ),
    case!(
        "[sig-api-machinery] FieldValidation should detect unknown metadata fields of a typed object [Conformance]",
        metadata
    ),
];

/// What the server says to a Deployment with these lines in its `metadata` and its `spec`.
async fn deployment(scope: &Scope, metadata: &str, spec: &str) -> Result<String> {
    let options = query(&[("fieldValidation", "Strict"), ("fieldManager", "conformance")]);
    let path = format!("{}{options}", scope.own("apps/v1", "deployments").path);
    let body = format!(
        r#"{{
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{ "name": "web"{metadata} }},
            "spec": {{ {spec}
                "selector": {{ "matchLabels": {{ "app": "web" }} }},
                "template": {{
                    "metadata": {{ "labels": {{ "app": "web" }} }},
                    "spec": {{ "containers": [{{ "name": "main", "image": "example.com/image:1" }}] }}
                }}
            }}
        }}"#
    );
    let json = [("content-type", "application/json")];
    let outcome = scope.call(Method::POST, &path, &json, body.into_bytes()).await;
    Ok(refused("a Deployment with fields that are not its own", outcome, 400)?.message().to_owned())
}

async fn duplicates(scope: &Scope) -> Result<()> {
    let spec = r#""unknownField": "foo", "replicas": 2, "replicas": 3,"#;
    let said = deployment(scope, "", spec).await?;
    let both = r#"strict decoding error: unknown field "spec.unknownField", duplicate field "spec.replicas""#;
    says("the refusal", &said, &[both])
}

async fn metadata(scope: &Scope) -> Result<()> {
    let said = deployment(scope, r#", "unknownMeta": "foo""#, "").await?;
    says("the refusal", &said, &[r#"strict decoding error: unknown field "metadata.unknownMeta""#])
}

/// A schema with a pattern, a list by keys, and room for an object inside.
fn schema(is_open: bool) -> Value {
    let port = json!({ "type": "object", "required": ["containerPort", "protocol"], "properties": {
        "containerPort": { "type": "integer", "format": "int32" },
        "name": { "type": "string" },
        "protocol": { "type": "string" },
    } });
    let mut spec = json!({ "type": "object", "properties": {
        "template": { "type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "metadata": { "type": "object", "properties": { "name": { "type": "string" } } },
            "spec": { "type": "object" },
        } },
        "place": { "type": "string" },
        "cronSpec": { "type": "string", "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$" },
        "ports": {
            "type": "array", "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        },
    } });
    if is_open {
        spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    json!({ "type": "object", "properties": { "spec": spec } })
}

/// Applies YAML: lines for the root, for `metadata` and for `spec`.
async fn apply(
    scope: &Scope,
    schema: Value,
    [root, metadata, spec]: [&str; 3],
) -> Result<Result<Value>> {
    let definition = Definition::new(scope, "strict", "job", &["v1beta1", "v1"], schema);
    definition.create(scope).await?;
    let yaml = format!(
        "apiVersion: {}
kind: {}
metadata:
  name: mine
{metadata}{root}spec:
{spec}  cronSpec: \"* * * * */5\"
  ports:
  - name: x
    containerPort: 80
    protocol: TCP
",
        definition.group_version(),
        definition.kind
    );
    let jobs = definition.resources(scope);
    let strict = [("fieldValidation", "Strict")];
    let path = jobs.object("mine");
    Ok(jobs.patch_with(&path, Patch::Apply, yaml.into_bytes(), &strict).await)
}

async fn valid(scope: &Scope) -> Result<()> {
    apply(scope, schema(false), ["", "", "  place: here\n"]).await?.map(drop)
}

async fn no_schema(scope: &Scope) -> Result<()> {
    apply(scope, anything(), ["", "", "  unknown: here\n"]).await?.map(drop)
}

async fn extra(scope: &Scope) -> Result<()> {
    let outcome = apply(scope, schema(false), ["unknownField: x\n", "", ""]).await?;
    let told = refusal("a field that the schema has not", outcome)?;
    says("the refusal", told.message(), &[".unknownField: field not declared in schema"])
}

async fn embedded_metadata(scope: &Scope) -> Result<()> {
    let inside = "  template:
    apiVersion: foo/v1
    kind: Sub
    metadata:
      unknownSubMeta: unknown
      name: subobject
";
    let outcome = apply(scope, schema(true), ["", "  unknownMeta: unknown\n", inside]).await?;
    let told = refusal("unknown metadata", outcome)?;
    says("the refusal", told.message(), &["field not declared in schema"])?;
    let fields = [".metadata.unknownMeta", ".spec.template.metadata.unknownSubMeta"];
    let said = told.message();
    anyhow::ensure!(
        fields.iter().any(|it| said.contains(it)),
        "expected one of {fields:?}, saw {said}"
    );
    Ok(())
}

async fn custom_duplicates(scope: &Scope) -> Result<()> {
    let spec = "  unknown: x\n  place: here\n  place: there\n";
    let outcome = apply(scope, schema(true), ["", "", spec]).await?;
    let refusal = refused("a field that is there twice", outcome, 400)?;
    says("the refusal", refusal.message(), &[r#"line 8: key "place" already set in map"#])
}
