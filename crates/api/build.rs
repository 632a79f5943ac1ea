//! Writes the schemas of the built-in kinds into OUT_DIR, compressed: once whole, for OpenAPI documents, and once
//! without descriptions, for everything the server does with fields. The shapes and descriptions come from the types
//! of `k8s-openapi`; what the types do not say comes from the lists in `src/schemas` (see `facts`).

#[path = "build/facts.rs"]
mod facts;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use k8s_openapi::api::{
    apps, authentication, authorization, autoscaling, coordination, core, discovery, events,
    policy, rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Definition name to schema, as it will stand in `components.schemas`.
type Definitions = BTreeMap<String, Value>;

const REF_PREFIX: &str = "#/components/schemas/";
const SOURCES: &str = "src";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let mut definitions = generate();
    for (name, schema) in &mut definitions {
        correct(name, schema);
    }
    facts::add_to(&mut definitions);
    check_served_kinds(&definitions, Path::new(SOURCES));

    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    write_compressed(&Path::new(&out).join("definitions.json.z"), &definitions);
    for schema in definitions.values_mut() {
        to_structure(schema);
        mark_free_form(members(schema));
    }
    write_compressed(&Path::new(&out).join("structure.json.z"), &definitions);
}

/// Collects the definitions of the listed types and of all that they refer to.
struct Collector {
    generator: SchemaGenerator,
    kinds: Vec<(String, Value)>,
    lists: Vec<(String, Value)>,
}

impl Collector {
    fn add<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    /// A kind with its list.
    fn kind<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        let name = T::schema_name().into_owned();
        self.alone::<T>();
        let gvk = gvk(T::GROUP, T::VERSION, &format!("{}List", T::KIND));
        self.lists.push((format!("{name}List"), list_of(&name, T::KIND, gvk)));
    }

    /// A kind that is never listed.
    fn alone<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        self.add::<T>();
        self.kinds.push((T::schema_name().into_owned(), gvk(T::GROUP, T::VERSION, T::KIND)));
    }
}

fn generate() -> Definitions {
    let mut it =
        Collector { generator: SchemaGenerator::default(), kinds: Vec::new(), lists: Vec::new() };
    it.kind::<apiextensions::v1::CustomResourceDefinition>();
    it.kind::<apps::v1::Deployment>();
    it.kind::<apps::v1::ReplicaSet>();
    it.alone::<authentication::v1::SelfSubjectReview>();
    it.alone::<authentication::v1::TokenRequest>();
    it.alone::<authentication::v1::TokenReview>();
    it.alone::<authorization::v1::LocalSubjectAccessReview>();
    it.alone::<authorization::v1::SelfSubjectAccessReview>();
    it.alone::<authorization::v1::SelfSubjectRulesReview>();
    it.alone::<authorization::v1::SubjectAccessReview>();
    it.kind::<autoscaling::v1::HorizontalPodAutoscaler>();
    it.alone::<autoscaling::v1::Scale>();
    it.kind::<autoscaling::v2::HorizontalPodAutoscaler>();
    it.kind::<coordination::v1::Lease>();
    it.alone::<core::v1::Binding>();
    it.kind::<core::v1::ConfigMap>();
    it.kind::<core::v1::Endpoints>();
    it.kind::<core::v1::Event>();
    it.kind::<core::v1::Namespace>();
    it.kind::<core::v1::Node>();
    it.kind::<core::v1::Pod>();
    it.kind::<core::v1::ReplicationController>();
    it.kind::<core::v1::Secret>();
    it.kind::<core::v1::Service>();
    it.kind::<core::v1::ServiceAccount>();
    it.kind::<discovery::v1::EndpointSlice>();
    it.kind::<events::v1::Event>();
    it.alone::<policy::v1::Eviction>();
    it.kind::<rbac::v1::ClusterRole>();
    it.kind::<rbac::v1::ClusterRoleBinding>();
    it.kind::<rbac::v1::Role>();
    it.kind::<rbac::v1::RoleBinding>();

    it.alone::<meta::v1::APIGroup>();
    it.alone::<meta::v1::APIGroupList>();
    it.alone::<meta::v1::APIResourceList>();
    it.alone::<meta::v1::APIVersions>();
    it.add::<meta::v1::DeleteOptions>();
    it.add::<meta::v1::Patch>();
    it.alone::<meta::v1::Status>();
    it.add::<meta::v1::WatchEvent<RawExtension>>();

    let mut definitions: Definitions = it.generator.take_definitions(true).into_iter().collect();
    definitions.extend(it.lists);
    for (name, gvk) in it.kinds {
        let schema = definitions.get_mut(&name).expect("the generator was asked for this kind");
        members(schema).insert("x-kubernetes-group-version-kind".to_owned(), json!([gvk]));
    }
    definitions
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

fn list_of(item: &str, kind: &str, gvk: Value) -> Value {
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    json!({
        "description": format!("A list of {kind} objects."),
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string", "description": "The version of the API that this list is written in." },
            "items": {
                "type": "array",
                "items": { "$ref": format!("{REF_PREFIX}{item}") },
                "description": format!("The {kind} objects, sorted by namespace and name."),
            },
            "kind": { "type": "string", "description": "The kind of this list." },
            "metadata": {
                "allOf": [{ "$ref": format!("{REF_PREFIX}{meta}") }],
                "default": {},
                "description": "The revision of the list, and how to go on reading it.",
            },
        },
        "required": ["items"],
        "x-kubernetes-group-version-kind": [gvk],
    })
}

/// Where the generated schema differs from what Kubernetes serves.
fn correct(name: &str, schema: &mut Value) {
    rewrite_references(schema);
    let short = name.rsplit('.').next().unwrap_or(name);
    let object = members(schema);
    match short {
        "IntOrString" => {
            object.remove("x-kubernetes-int-or-string");
            object.insert("format".to_owned(), json!("int-or-string"));
            object.insert("oneOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
        }
        "Quantity" => {
            object.remove("x-kubernetes-int-or-string");
            object.insert("oneOf".to_owned(), json!([{ "type": "string" }, { "type": "number" }]));
        }
        // Any JSON value.
        "JSON" => {
            object.remove("type");
        }
        // Either of two shapes: OpenAPI of Kubernetes leaves it open.
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            object.remove("oneOf");
        }
        _ => {}
    }
    // The Rust types have metadata always; on the wire it may be absent.
    let is_kind = object
        .get("properties")
        .is_some_and(|it| it.get("apiVersion").is_some() && it.get("metadata").is_some());
    if is_kind && let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|it| it != "metadata");
        if required.is_empty() {
            object.remove("required");
        }
    }
}

/// `#/$defs/X` becomes `#/components/schemas/X`, and moves into `allOf` when anything stands beside it, because
/// OpenAPI ignores the neighbors of a `$ref`.
fn rewrite_references(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(rewrite_references),
        Value::Object(object) => {
            object.values_mut().for_each(rewrite_references);
            // A field may be called `$ref`: only a text is one.
            let Some(Value::String(target)) = object.get("$ref").cloned() else { return };
            object.remove("$ref");
            let name = target.rsplit('/').next().unwrap_or(&target);
            let reference = json!({ "$ref": format!("{REF_PREFIX}{name}") });
            if object.is_empty() {
                *schema = reference;
            } else {
                object.insert("allOf".to_owned(), json!([reference]));
            }
        }
        _ => {}
    }
}

/// Every `definition: "..."` of a kind must be among the definitions, or its requests would find no schema.
fn check_served_kinds(definitions: &Definitions, folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("the source folder is readable") {
        let path = entry.expect("the source folder is readable").path();
        if path.is_dir() {
            check_served_kinds(definitions, &path);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for line in text.lines() {
            let Some(rest) = line.trim().strip_prefix("definition: \"") else { continue };
            let name = rest.split('"').next().unwrap_or(rest);
            assert!(
                name.is_empty() || definitions.contains_key(name),
                "{} serves {name}, but build.rs does not list its type: add a line to `generate`",
                path.display(),
            );
        }
    }
}

/// What field handling reads: no descriptions, plain references with their rules beside them, and one marker for
/// values that are a number or a text.
fn to_structure(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(to_structure),
        Value::Object(object) => {
            // A field may be called `description`: only a text is one.
            if object.get("description").is_some_and(Value::is_string) {
                object.remove("description");
            }
            // Values are checked by the kinds themselves.
            if object.get("enum").is_some_and(Value::is_array) {
                object.remove("enum");
            }
            if object.get("oneOf").is_some_and(Value::is_array) {
                object.remove("oneOf");
                object.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
            }
            object.values_mut().for_each(to_structure);
            // A field may be called `allOf`: only a list is one.
            if let Some(Value::Array(parts)) = object.get("allOf").cloned() {
                object.remove("allOf");
                object.extend(
                    parts
                        .into_iter()
                        .filter_map(|it| match it {
                            Value::Object(reference) => Some(reference),
                            _ => None,
                        })
                        .flatten(),
                );
            }
        }
        _ => {}
    }
}

/// An object without fields holds anything. OpenAPI says so by silence, field checks need it said.
fn mark_free_form(schema: &mut Map<String, Value>) {
    let has = |name: &str| schema.contains_key(name);
    if !has("properties")
        && !has("additionalProperties")
        && schema.get("type") == Some(&json!("object"))
    {
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
}

fn members(schema: &mut Value) -> &mut Map<String, Value> {
    schema.as_object_mut().expect("the schemas of API types are objects")
}

fn write_compressed(path: &Path, definitions: &Definitions) {
    let json = serde_json::to_vec(definitions).expect("a JSON tree can be written");
    let file = std::fs::File::create(path).expect("OUT_DIR is writable");
    let mut encoder = flate2::write::ZlibEncoder::new(file, flate2::Compression::best());
    encoder
        .write_all(&json)
        .and_then(|()| encoder.finish().map(drop))
        .expect("OUT_DIR is writable");
}
