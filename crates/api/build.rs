//! Writes the schemas of the built-in kinds into OUT_DIR, compressed: once whole, for OpenAPI
//! documents, and once without descriptions, for everything the server does with fields. The shapes
//! and descriptions come from the types of `k8s-openapi`; what the types do not say comes from
//! `facts/`, and so do the protobuf messages, what JSON has of each field and the facts of kinds,
//! which are written beside them.
//! What is served is in `src/served.rs`: no line of this script is about one kind.

/// What the one list of kinds is here: their schemas.
macro_rules! served {
    (
        kinds { $($kind:path,)* }
        versions { $($version:path as $hub:path,)* }
        bodies { $($body:path,)* }
    ) => {
        pub(crate) fn add_to(collector: &mut crate::Collector<'_>) {
            $(collector.kind::<$kind>();)*
            $(collector.kind::<$version>();)*
            $(collector.kind::<$body>();)*
        }
    };
}

#[path = "build/facts.rs"]
mod facts;
#[path = "build/fields.rs"]
mod fields;
#[path = "build/forms.rs"]
mod forms;
#[path = "build/kinds.rs"]
mod kinds;
#[path = "build/messages.rs"]
mod messages;
#[path = "src/served.rs"]
mod served;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use facts::Facts;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Definition name to schema, as it will stand in `components.schemas`.
type Definitions = BTreeMap<String, Value>;

const REF_PREFIX: &str = "#/components/schemas/";
const FACTS: &str = "facts";

fn main() {
    println!("cargo::rerun-if-changed={FACTS}");
    let facts = Facts::read(Path::new(FACTS));
    let mut definitions = generate(&facts);
    for (name, schema) in &mut definitions {
        correct(name, schema);
    }
    fields::add_to(&mut definitions, &facts);

    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let write = |name: &str, text: String| {
        std::fs::write(out.join(name), text).expect("OUT_DIR is writable")
    };
    write("facts.rs", kinds::table(&facts));
    write("forms.rs", forms::table(&definitions, &facts));
    write("messages.txt", messages::table(&definitions, &facts));
    write_compressed(&out.join("definitions.json.z"), &definitions);
    let types = facts.types();
    for (name, schema) in &mut definitions {
        to_structure(schema);
        // A struct without fields is one all the same.
        if !types.contains_key(name) {
            mark_free_form(members(schema));
        }
    }
    fields::add_go_types(&mut definitions, &facts);
    write_compressed(&out.join("structure.json.z"), &definitions);
}

/// Collects the definitions of the served kinds and of all that they refer to.
struct Collector<'a> {
    facts: &'a Facts,
    generator: SchemaGenerator,
    kinds: Vec<(String, Value)>,
    lists: Vec<(String, Value)>,
}

impl Collector<'_> {
    fn add<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    /// A kind of `facts/`, with its list if it is ever listed.
    fn kind<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        self.alone::<T>();
        let facts = self.facts.kind(T::GROUP, T::VERSION, T::KIND);
        if facts.is_listed() {
            let name = T::schema_name().into_owned();
            let gvk = gvk(T::GROUP, T::VERSION, &format!("{}List", T::KIND));
            self.lists.push((format!("{name}List"), list_of(&name, T::KIND, gvk)));
        }
    }

    /// A kind that is no resource.
    fn alone<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        self.add::<T>();
        self.kinds.push((T::schema_name().into_owned(), gvk(T::GROUP, T::VERSION, T::KIND)));
    }
}

fn generate(facts: &Facts) -> Definitions {
    let (generator, kinds, lists) = (SchemaGenerator::default(), Vec::new(), Vec::new());
    let mut it = Collector { facts, generator, kinds, lists };
    served::add_to(&mut it);
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

/// `#/$defs/X` becomes `#/components/schemas/X`, and moves into `allOf` when anything stands beside
/// it, because OpenAPI ignores the neighbors of a `$ref`.
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

/// What field handling reads: no descriptions, plain references with their rules beside them, and
/// one marker for values that are a number or a text.
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
