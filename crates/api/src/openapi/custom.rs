//! What is published of a custom resource: the object and its list. The schema is the author's, with
//! what every object has, in the form that upstream gives it for clients of each version.

use serde_json::{Map, Value, json};

use super::{META, SELECTABLE, list_definition, v2};
use crate::kind::Kind;
use crate::schemas::REF_PREFIX;

const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const KINDS: &str = "x-kubernetes-group-version-kind";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Who reads a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    OfV2,
    OfV3,
}

/// By name; nothing for built-in kinds.
pub(super) fn definitions(kind: &dyn Kind, clients: Clients) -> Vec<(String, Value)> {
    let Some(written) = kind.written_schema() else { return Vec::new() };
    let (names, definition) = (kind.names(), kind.definition());
    let kinds =
        |kind: &str| json!([{ "group": names.group, "version": names.version, "kind": kind }]);
    let selectable = kind.field_names();
    let selectable: Vec<Value> =
        selectable.iter().map(|(name, _)| json!({ "fieldPath": name })).collect();
    let name = |mut schema: Map<String, Value>, kind: &str| {
        schema.insert(KINDS.to_owned(), kinds(kind));
        if !selectable.is_empty() {
            schema.insert(SELECTABLE.to_owned(), json!(selectable));
        }
        Value::Object(schema)
    };
    let object = name(object(written, clients), &names.kind);
    let list = name(list(kind, &definition, clients), &names.list_kind);
    vec![(list_definition(&definition), list), (definition, object)]
}

fn object(written: Value, clients: Clients) -> Map<String, Value> {
    let undescribed = Map::from_iter([("type".to_owned(), json!("object"))]);
    let Value::Object(mut schema) = written else { return undescribed };
    // Clients of version 2 refuse fields that are not listed: where any may be, none is.
    if clients == Clients::OfV2 && is_so(&schema, PRESERVES) {
        return undescribed;
    }
    tidy(&mut schema);
    unfold(&mut schema);
    if clients == Clients::OfV2 {
        lower(&mut schema);
    }
    let metadata = described(
        meta("ObjectMeta", clients),
        &format!("Standard object's metadata. More info: {CONVENTIONS}#metadata"),
    );
    complete(&mut schema, &metadata, clients);
    let fields = fields_of(&mut schema);
    fields.extend(of_every_object());
    fields.insert("metadata".to_owned(), metadata);
    schema
}

fn list(kind: &dyn Kind, definition: &str, clients: Clients) -> Map<String, Value> {
    let names = kind.names();
    let mut fields: Map<String, Value> = of_every_object().into_iter().collect();
    let metadata = described(
        meta("ListMeta", clients),
        &format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
    );
    fields.insert("metadata".to_owned(), metadata);
    let items = json!({
        "description": format!("List of {}. More info: {CONVENTIONS}", names.plural),
        "type": "array",
        "items": reference(definition, clients),
    });
    fields.insert("items".to_owned(), items);
    Map::from_iter([
        (
            "description".to_owned(),
            json!(format!("{} is a list of {}", names.list_kind, names.kind)),
        ),
        ("type".to_owned(), json!("object")),
        ("required".to_owned(), json!(["items"])),
        ("properties".to_owned(), fields.into()),
    ])
}

fn reference(definition: &str, clients: Clients) -> Value {
    let prefix = match clients {
        Clients::OfV2 => v2::PREFIX,
        Clients::OfV3 => REF_PREFIX,
    };
    json!({ "$ref": format!("{prefix}{definition}") })
}

/// A reference that has a description beside it, which version 3 takes in a wrapping alone.
fn meta(name: &str, clients: Clients) -> Value {
    let reference = reference(&format!("{META}.{name}"), clients);
    match clients {
        Clients::OfV2 => reference,
        Clients::OfV3 => json!({ "allOf": [reference] }),
    }
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = json!(description);
    schema
}

fn of_every_object() -> [(String, Value); 2] {
    let text = |description: String| described(json!({ "type": "string" }), &description);
    let api_version = format!(
        "APIVersion defines the versioned schema of this representation of an object. Servers \
         should convert recognized schemas to the latest internal value, and may reject \
         unrecognized values. More info: {CONVENTIONS}#resources"
    );
    let kind = format!(
        "Kind is a string value representing the REST resource this object represents. Servers \
         may infer this from the endpoint the client submits requests to. Cannot be updated. In \
         CamelCase. More info: {CONVENTIONS}#types-kinds"
    );
    [("apiVersion".to_owned(), text(api_version)), ("kind".to_owned(), text(kind))]
}

fn of_embedded_objects() -> [(String, Value); 2] {
    let text = |description: String| described(json!({ "type": "string" }), &description);
    let api_version = format!(
        "apiVersion defines the versioned schema of this representation of an object. More info: \
         {CONVENTIONS}#resources"
    );
    let kind = format!(
        "kind is a string value representing the type of this object. In CamelCase. More info: \
         {CONVENTIONS}#types-kinds"
    );
    [("apiVersion".to_owned(), text(api_version)), ("kind".to_owned(), text(kind))]
}

fn is_so(schema: &Map<String, Value>, keyword: &str) -> bool {
    schema.get(keyword).is_some_and(|it| it == true)
}

fn fields_of(schema: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let fields = schema.entry("properties").or_insert_with(|| json!({}));
    fields.as_object_mut().expect("fields are an object: the definition was read as one")
}

/// Fields, items and values of a map: where a schema of the author's is a whole one.
fn for_each_within(schema: &mut Map<String, Value>, change: &dyn Fn(&mut Map<String, Value>)) {
    let mut within = |schema: &mut Value| {
        if let Value::Object(schema) = schema {
            change(schema);
        }
    };
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(&mut within),
            ("items" | "additionalProperties", schema) => within(schema),
            _ => {}
        }
    }
}

/// Without what says nothing: what Go leaves out.
fn tidy(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, value| match value {
        Value::Null => false,
        Value::Bool(said) => *said || keyword == "additionalProperties" || keyword == "default",
        Value::String(text) => !text.is_empty() || keyword == "default" || keyword == "example",
        Value::Array(items) => !items.is_empty() || keyword == "default" || keyword == "example",
        Value::Object(fields) => keyword != "properties" || !fields.is_empty(),
        Value::Number(_) => true,
    });
    for_each_within(schema, &tidy);
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten();
        branches.filter_map(Value::as_object_mut).for_each(tidy);
    }
    if let Some(Value::Object(branch)) = schema.get_mut("not") {
        tidy(branch);
    }
    let rules = schema.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.retain(|_, it| it != "");
    }
}

/// A number or a text is one of two, unless the author says so already.
fn unfold(schema: &mut Map<String, Value>) {
    for_each_within(schema, &unfold);
    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    let first = schema.get("allOf").and_then(|it| it.get(0)).and_then(|it| it.get("anyOf"));
    if !is_so(schema, INT_OR_STRING)
        || schema.get("anyOf") == Some(&either)
        || first == Some(&either)
    {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), either);
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.insert(0, json!({ "anyOf": either }));
    }
}

/// For clients of version 2, which know no alternatives, take a default for a value that is always
/// there, and refuse null and fields that are not listed: what may have these is not described.
fn lower(schema: &mut Map<String, Value>) {
    for keyword in ["allOf", "anyOf", "default", "not", "oneOf"] {
        schema.remove(keyword);
    }
    let is_nullable = schema.remove("nullable").is_some();
    let is_open = is_so(schema, PRESERVES);
    if is_nullable || is_open {
        schema.remove("items");
        schema.remove("properties");
    }
    let is_array_of_nothing =
        schema.get("type").is_some_and(|it| it == "array") && !schema.contains_key("items");
    let is_open_object = is_open && schema.get("type").is_some_and(|it| it == "object");
    if is_nullable || is_array_of_nothing || is_open_object {
        schema.remove("type");
    }
    let may_be_null = |it: Option<&Value>| it.is_some_and(|it| it["nullable"] == true);
    let fields = schema.get("properties").cloned().unwrap_or_default();
    let is_map_with_nulls = may_be_null(schema.get("additionalProperties"));
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        let is_null = |it: &Value| may_be_null(it.as_str().and_then(|it| fields.get(it)));
        required.retain(|it| !is_map_with_nulls && !is_null(it));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    for_each_within(schema, &lower);
}

/// Objects within objects have a type and metadata. For clients of version 2 only where nothing else
/// can be.
fn complete(schema: &mut Map<String, Value>, metadata: &Value, clients: Clients) {
    for_each_within(schema, &|it| complete(it, metadata, clients));
    if !is_so(schema, EMBEDDED) || (clients == Clients::OfV2 && is_so(schema, PRESERVES)) {
        return;
    }
    let fields = fields_of(schema);
    fields.extend(of_embedded_objects());
    fields.insert("metadata".to_owned(), metadata.clone());
    if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|it| it == name) {
                required.push(json!(name));
            }
        }
    }
}
