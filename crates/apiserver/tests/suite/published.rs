//! What OpenAPI says of custom resources: each rule of publishing as a field of a definition in, and
//! what both versions say of it out.

use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";

async fn define(connection: &mut Connection, plural: &str, kind: &str, schema: &Value) {
    let definition = json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true,
                      "selectableFields": [{"jsonPath": ".id"}],
                      "schema": {"openAPIV3Schema": schema}}],
    }});
    let (code, answer) = connection.call("POST", DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("/apis/example.com/v1/{plural}");
    for _ in 0..10_000 {
        if connection.call("GET", &path, &Value::Null).await.0 == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("{plural} are not served");
}

/// The definitions of version 3 and of version 2.
async fn published(connection: &mut Connection) -> (Value, Value) {
    let (code, mut v3) = connection.get("/openapi/v3/apis/example.com/v1", "").await;
    assert_eq!(code, 200);
    let (code, mut v2) = connection.get("/openapi/v2", "application/json").await;
    assert_eq!(code, 200);
    (v3["components"]["schemas"].take(), v2["definitions"].take())
}

/// What is written, what version 3 says, and what version 2 says.
fn rules() -> Vec<(Value, Value, Value)> {
    let text = || json!({"type": "string"});
    let fields = || json!({"a": {"type": "string"}});
    let kept = |it: Value| (it.clone(), it.clone(), it);
    let lowered = |it: Value, v2: Value| (it.clone(), it, v2);
    let items = json!({"type": "object", "required": ["a"], "properties": fields()});
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    vec![
        kept(json!({"type": "string", "description": "d", "enum": ["x", "y"], "maxLength": 3})),
        kept(json!({
            "type": "array", "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
        })),
        kept(json!({"type": "object", "properties": fields(), "x-kubernetes-map-type": "atomic"})),
        // A default is no value that clients of version 2 may count on.
        lowered(json!({"type": "string", "default": "x"}), text()),
        lowered(
            json!({"type": "object", "properties": {
                "default": {"type": "string", "default": "x"}, "nullable": {"type": "boolean"},
            }}),
            json!({"type": "object", "properties": {
                "default": {"type": "string"}, "nullable": {"type": "boolean"},
            }}),
        ),
        // Nor do they take null, or fields that are not listed.
        lowered(json!({"type": "object", "nullable": true, "properties": fields()}), json!({})),
        lowered(
            json!({"type": "object", "additionalProperties": {"type": "integer", "nullable": true}}),
            json!({"type": "object", "additionalProperties": {}}),
        ),
        lowered(
            json!({"type": "object", PRESERVES: true, "properties": fields()}),
            json!({PRESERVES: true}),
        ),
        // They know no alternatives.
        lowered(
            json!({"type": "string", "anyOf": [{"minLength": 1}], "not": {"enum": ["z"]}}),
            text(),
        ),
        lowered(json!({"type": "string", "oneOf": [{"minLength": 1}]}), text()),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": either}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
    ]
}

#[tokio::test]
async fn fields_are_published_as_clients_of_each_version_take_them() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let rules = rules();
    let named = rules.iter().enumerate().map(|(index, it)| (format!("f{index}"), it.0.clone()));
    let mut fields: serde_json::Map<String, Value> = named.collect();
    fields.insert("id".to_owned(), json!({"type": "string"}));
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, PRESERVES: true,
    });
    fields.insert("embedded".to_owned(), embedded);
    let schema = json!({"type": "object", "required": ["id"], "properties": fields});
    define(&mut connection, "things", "Thing", &schema).await;
    let (v3, v2) = published(&mut connection).await;
    let (name, list) = ("com.example.v1.Thing", "com.example.v1.ThingList");
    for (index, (written, in_v3, in_v2)) in rules.iter().enumerate() {
        let field = format!("f{index}");
        assert_eq!(&v3[name]["properties"][&field], in_v3, "{written} in version 3");
        assert_eq!(&v2[name]["properties"][&field], in_v2, "{written} in version 2");
    }
    let embedded = &v3[name]["properties"]["embedded"];
    assert_eq!(embedded["required"], json!(["kind", "apiVersion"]));
    assert!(embedded["properties"]["metadata"].is_object(), "{embedded}");
    for (document, prefix) in [(&v3, "#/components/schemas/"), (&v2, "#/definitions/")] {
        let gvk = |kind: &str| json!([{"group": "example.com", "kind": kind, "version": "v1"}]);
        let whole = &document[name];
        assert_eq!(whole["x-kubernetes-group-version-kind"], gvk("Thing"));
        assert_eq!(whole["x-kubernetes-selectable-fields"], json!([{"fieldPath": "id"}]));
        assert_eq!((&whole["type"], &whole["required"]), (&json!("object"), &json!(["id"])));
        for field in ["apiVersion", "kind", "metadata"] {
            assert!(whole["properties"][field].is_object(), "{field}");
        }
        let list = &document[list];
        assert_eq!(list["x-kubernetes-group-version-kind"], gvk("ThingList"));
        assert_eq!(list["required"], json!(["items"]));
        let items = json!({"$ref": format!("{prefix}{name}")});
        assert_eq!(list["properties"]["items"]["items"], items);
    }
}

#[tokio::test]
async fn where_anything_goes_version_2_says_nothing() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let schema = json!({
        "type": "object", PRESERVES: true, "properties": {"id": {"type": "string"}},
    });
    define(&mut connection, "loose", "Loose", &schema).await;
    let (v3, v2) = published(&mut connection).await;
    assert_eq!(v3["com.example.v1.Loose"]["properties"]["id"], json!({"type": "string"}));
    let mut fields: Vec<&String> =
        v2["com.example.v1.Loose"].as_object().expect("it is there").keys().collect();
    fields.sort();
    let said = ["type", "x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields"];
    assert_eq!(fields, said);
    // What is gone is not described any more.
    let path = format!("{DEFINITIONS}/loose.example.com");
    connection.call("DELETE", &path, &Value::Null).await;
    for _ in 0..10_000 {
        if connection.call("GET", &path, &Value::Null).await.0 == 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let (code, _) = connection.get("/openapi/v3/apis/example.com/v1", "").await;
    assert_eq!(code, 404);
    let (_, v2) = connection.get("/openapi/v2", "application/json").await;
    assert!(v2["definitions"]["com.example.v1.Loose"].is_null());
}
