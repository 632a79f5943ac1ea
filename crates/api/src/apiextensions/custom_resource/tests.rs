//! The fruit: a small custom resource through every step of a request.

use serde_json::json;

use super::*;
use crate::kind::Resource;
use crate::object::Meta;

pub(crate) fn fruit_definition() -> CustomResourceDefinition {
    let mut crd = CustomResourceDefinition::decode(
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": "fruits.example.org" },
            "spec": {
                "group": "example.org",
                "scope": "Namespaced",
                "names": { "plural": "fruits", "kind": "Fruit", "shortNames": ["fr"] },
                "versions": [
                    fruit_version("v1", true),
                    fruit_version("v1beta1", false),
                ],
            },
        })
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    crd.apply_defaults();
    crd.prepare_create();
    crd
}

fn fruit_version(name: &str, is_stored: bool) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": is_stored,
        "schema": { "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": { "type": "object", "properties": {
                    "comment": { "type": "string" },
                    "sweet": { "type": "boolean", "default": true },
                    "weight": { "type": "integer" },
                    "replicas": { "type": "integer" },
                } },
                "status": { "type": "object", "properties": {
                    "eaten": { "type": "integer" },
                } },
            },
        } },
        "subresources": {
            "status": {},
            "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.eaten" },
        },
        "selectableFields": [{ "jsonPath": ".spec.comment" }],
        "additionalPrinterColumns": [
            { "name": "Sweet", "type": "boolean", "jsonPath": ".spec.sweet" },
            { "name": "Weight", "type": "integer", "jsonPath": ".spec.weight" },
            { "name": "Comment", "type": "string", "jsonPath": ".spec.comment" },
        ],
    })
}

fn fruits() -> CustomKind {
    let crd = fruit_definition();
    CustomKind::new(&crd, &crd.spec.versions[0])
}

fn apple(spec: Value) -> Value {
    json!({
        "apiVersion": "example.org/v1",
        "kind": "Fruit",
        "metadata": { "name": "apple", "namespace": "default" },
        "spec": spec,
    })
}

fn decode(kind: &CustomKind, object: &Value) -> Box<dyn ApiObject> {
    kind.decode(object.to_string().as_bytes()).unwrap()
}

#[test]
fn kinds_exist_once_the_definition_is_established() {
    use crate::apiextensions::custom_resource_definition::naming::{TakenNames, status_with_names};
    let mut crd = fruit_definition();
    assert!(CustomKind::of(&crd).is_empty());
    crd.status = Some(status_with_names(&crd, &TakenNames::default(), Timestamp::UNIX_EPOCH));
    let versions: Vec<String> =
        CustomKind::of(&crd).iter().map(|it| it.names().version.clone()).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
}

#[test]
fn decoding_prunes_and_defaults_fill_in() {
    let kind = fruits();
    let mut object = decode(&kind, &apple(json!({ "weight": 3, "color": "red" })));
    assert_eq!(object.to_value()["spec"], json!({ "weight": 3 }));
    kind.apply_defaults(object.as_mut());
    assert_eq!(object.to_value()["spec"], json!({ "weight": 3, "sweet": true }));
}

#[test]
fn what_was_complete_is_completed_again_when_the_schema_gets_a_default() {
    let mut crd = fruit_definition();
    let kind = |crd: &CustomResourceDefinition| CustomKind::new(crd, &crd.spec.versions[0]);
    let bytes = apple(json!({ "sweet": false })).to_string().into_bytes();
    let stored = Stored::new(Meta::default(), bytes.into());
    assert!(kind(&crd).complete_stored(&stored).is_none());
    let mut version = fruit_version("v1", true);
    let root = &mut version["schema"]["openAPIV3Schema"];
    root["properties"]["spec"]["properties"]["weight"]["default"] = json!(7);
    crd.spec.versions[0] = serde_json::from_slice(version.to_string().as_bytes()).unwrap();
    let completed = kind(&crd).complete_stored(&stored).unwrap();
    assert_eq!(completed.to_value()["spec"], json!({ "sweet": false, "weight": 7 }));
}

#[test]
fn what_is_stored_is_completed_by_the_version_that_it_is_stored_in() {
    let mut crd = fruit_definition();
    let kind = |crd: &CustomResourceDefinition| CustomKind::new(crd, &crd.spec.versions[0]);
    let check = |kind: &CustomKind, stored: Value, expected: Option<Value>| {
        let stored = Stored::new(Meta::default(), stored.to_string().into_bytes().into());
        // The second time it is known whether it lacks anything.
        for _ in 0..2 {
            let completed = kind.complete_stored(&stored);
            assert_eq!(completed.map(|it| it.to_value()["spec"].clone()), expected);
        }
    };
    check(&kind(&crd), apple(json!({ "sweet": false, "weight": 1 })), None);
    let completed = json!({ "weight": 1, "sweet": true });
    check(&kind(&crd), apple(json!({ "weight": 1 })), Some(completed));
    let mut older = apple(json!({}));
    older["apiVersion"] = json!("example.org/v1beta1");
    check(&kind(&crd), older.clone(), Some(json!({ "sweet": true })));

    let mut without = fruit_version("v1beta1", false);
    let root = &mut without["schema"]["openAPIV3Schema"];
    root["properties"]["spec"]["properties"]["sweet"] = json!({ "type": "boolean" });
    crd.spec.versions[1] = serde_json::from_slice(without.to_string().as_bytes()).unwrap();
    check(&kind(&crd), older, None);
    check(&kind(&crd), apple(json!({})), Some(json!({ "sweet": true })));
}

/// The fruit with `color` in the first version, which is stored, and `taste` in the second alone.
fn with_own_fields() -> CustomResourceDefinition {
    let mut crd = fruit_definition();
    for (index, (name, field)) in [("v1", "color"), ("v1beta1", "taste")].into_iter().enumerate() {
        let mut version = fruit_version(name, index == 0);
        let root = &mut version["schema"]["openAPIV3Schema"];
        root["properties"]["spec"]["properties"][field] = json!({ "type": "string" });
        crd.spec.versions[index] = serde_json::from_value(version).unwrap();
    }
    crd
}

#[test]
fn what_is_stored_is_read_as_both_versions_want_it() {
    let crd = with_own_fields();
    let kinds: Vec<CustomKind> =
        crd.spec.versions.iter().map(|it| CustomKind::new(&crd, it)).collect();
    let check = |stored: Value, expected: [Option<Value>; 2]| {
        let stored = Stored::new(Meta::default(), stored.to_string().into_bytes().into());
        // The second time it is known whether there is anything to do.
        for _ in 0..2 {
            for (kind, expected) in kinds.iter().zip(&expected) {
                let read = kind.read_stored(&stored).map(|it| it.to_value());
                assert_eq!(read.as_ref().map(|it| &it["spec"]), expected.as_ref());
                let version = kind.names().api_version();
                assert!(read.is_none_or(|it| it["apiVersion"] == version));
            }
        }
    };
    let beta = |spec| {
        let mut object = apple(spec);
        object["apiVersion"] = json!("example.org/v1beta1");
        object
    };
    check(apple(json!({ "sweet": true })), [None, None]);
    check(beta(json!({ "sweet": true })), [None, None]);
    // Of the version that it is stored in: known there, and not in the other.
    let sweet = || json!({ "sweet": true });
    check(apple(json!({ "sweet": true, "color": "red" })), [None, Some(sweet())]);
    check(beta(json!({ "sweet": true, "taste": "tart" })), [Some(sweet()), None]);
    // What its own version does not know is gone, whoever knows it.
    check(apple(json!({ "sweet": true, "taste": "tart" })), [Some(sweet()), Some(sweet())]);
    // Nulls that may not be go; where there is a default, that takes their place.
    let completed = || Some(json!({ "sweet": true }));
    check(apple(json!({ "sweet": null, "comment": null })), [completed(), completed()]);
    // Of a version that is no more, nobody knows anything.
    let mut removed = apple(json!({ "color": "red" }));
    removed["apiVersion"] = json!("example.org/v1alpha1");
    check(removed, [None, Some(json!({}))]);
}

#[test]
fn versions_that_nobody_serves_prune_what_is_stored_in_them() {
    let mut crd = with_own_fields();
    crd.spec.versions[0].served = false;
    let beta = CustomKind::new(&crd, &crd.spec.versions[1]);
    let read = |spec: Value| {
        let json = apple(spec).to_string();
        beta.decode_any(json.as_bytes(), Absent::Left).unwrap().to_value()["spec"].clone()
    };
    assert_eq!(read(json!({ "color": "red", "taste": "tart" })), json!({ "color": "red" }));
    assert!(beta.is_compiled());
    beta.sweep();
    beta.sweep();
    assert!(!beta.is_compiled(), "what no kind serves is swept by one that is served");
}

#[test]
fn definitions_from_before_schemas_were_whole_drop_nothing() {
    let mut crd = fruit_definition();
    crd.spec.preserve_unknown_fields = Some(true);
    let kind = CustomKind::new(&crd, &crd.spec.versions[0]);
    let object = apple(json!({ "color": "red", "weight": null }));
    let stored = Stored::new(Meta::default(), object.to_string().into_bytes().into());
    assert!(kind.read_stored(&stored).is_none() && kind.complete_stored(&stored).is_none());
    let (decoded, report) = kind.decode_reporting(&stored.bytes).unwrap();
    assert_eq!(decoded.to_value()["spec"], object["spec"]);
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn a_wrong_type_is_refused_with_its_path() {
    let kind = fruits();
    let check = |object: Value, expected: &str| {
        let mut errors = FieldErrors::new();
        let object = decode(&kind, &object);
        kind.validate(object.as_ref(), &mut errors);
        kind.validate_create(object.as_ref(), &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.join("\n"), expected);
    };
    check(apple(json!({ "weight": 3, "comment": "crisp" })), "");
    check(
        apple(json!({ "weight": "heavy" })),
        r#"spec.weight: Invalid value: "string": spec.weight in body must be of type integer: "string""#,
    );
    let mut pear = apple(json!({}));
    pear["kind"] = json!("Pear");
    check(pear, r#"kind: Invalid value: "Pear": must be Fruit"#);
}

#[test]
fn columns_show_what_the_paths_find() {
    let kind = fruits();
    let names: Vec<String> = kind.columns().iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["Name", "Sweet", "Weight", "Comment"]);
    let object = decode(&kind, &apple(json!({ "weight": 3, "sweet": false })));
    let row = kind.row(object.as_ref(), Timestamp::UNIX_EPOCH);
    assert_eq!(row, [json!("apple"), json!(false), json!(3), json!(null)]);
}

#[test]
fn without_columns_the_age_is_shown() {
    let mut crd = fruit_definition();
    crd.spec.versions[0].additional_printer_columns = None;
    let kind = CustomKind::new(&crd, &crd.spec.versions[0]);
    let mut object = apple(json!({}));
    object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
    let now = Timestamp::from_second(42).unwrap();
    let row = kind.row(decode(&kind, &object).as_ref(), now);
    assert_eq!(row, [json!("apple"), json!("42s")]);
}

#[test]
fn status_and_spec_change_through_their_own_doors() {
    let kind = fruits();
    let mut stored = apple(json!({ "weight": 3 }));
    stored["status"] = json!({ "eaten": 1 });
    let stored = decode(&kind, &stored);
    let mut wanted = apple(json!({ "weight": 4 }));
    wanted["status"] = json!({ "eaten": 2 });

    let mut main = decode(&kind, &wanted);
    kind.prepare_update(main.as_mut(), stored.as_ref(), Part::Main);
    assert_eq!(main.to_value()["status"], json!({ "eaten": 1 }));
    assert!(kind.is_new_generation(main.as_ref(), stored.as_ref()));

    let mut status = decode(&kind, &wanted);
    kind.prepare_update(status.as_mut(), stored.as_ref(), Part::Status);
    assert_eq!(status.to_value()["spec"], json!({ "weight": 3 }));
    assert_eq!(status.to_value()["status"], json!({ "eaten": 2 }));
    assert!(!kind.is_new_generation(status.as_ref(), stored.as_ref()));

    kind.prepare_create(main.as_mut());
    assert!(main.to_value().get("status").is_none());
}

#[test]
fn scale_reads_and_writes_the_paths() {
    let kind = fruits();
    let mut object = apple(json!({ "replicas": 3 }));
    object["status"] = json!({ "eaten": 2 });
    let mut object = decode(&kind, &object);
    let scale = kind.scale(object.as_ref()).unwrap();
    assert_eq!((scale.spec_replicas, scale.status_replicas), (3, 2));
    kind.set_replicas(object.as_mut(), 5);
    assert_eq!(object.to_value()["spec"]["replicas"], 5);
}

#[test]
fn selectable_fields_have_the_path_as_their_name() {
    let kind = fruits();
    let object = decode(&kind, &apple(json!({ "comment": "crisp" })));
    assert_eq!(kind.fields(object.as_ref()), [("spec.comment".into(), "crisp".to_owned())]);
    assert_eq!(kind.field_names(), [("spec.comment".into(), "spec.comment".into())]);
}

/// Objects are found by what any version selects by, whichever of them reads what is stored.
#[test]
fn each_version_selects_by_its_own_fields() {
    let mut crd = fruit_definition();
    crd.spec.versions[1].selectable_fields = None;
    crd.spec.versions[1].schema = crd.spec.versions[0].schema.clone();
    let beta = CustomKind::new(&crd, &crd.spec.versions[1]);
    let object = decode(&beta, &apple(json!({ "comment": "crisp" })));
    assert_eq!(beta.fields(object.as_ref()), [("spec.comment".into(), "crisp".to_owned())]);
    assert!(beta.has_fields() && beta.field_names().is_empty());
}

#[test]
fn another_version_is_read_by_rewriting_it() {
    let crd = fruit_definition();
    let beta = CustomKind::new(&crd, &crd.spec.versions[1]);
    assert_eq!(decode(&beta, &apple(json!({}))).to_value()["apiVersion"], "example.org/v1beta1");
    assert_eq!(beta.storage_version(), "v1");
    assert_eq!(beta.storage_version_hash(), fruits().storage_version_hash());
    assert_eq!(beta.storage_version_hash().len(), 12);
}

#[test]
fn the_schema_knows_metadata() {
    let kind = fruits();
    assert_eq!(kind.registry_prefix(), "example.org/fruits");
    let schema = kind.schema();
    assert!(schema.properties["metadata"].resolve().properties.contains_key("labels"));
    let report = schema.validate_fields(apple(json!({ "color": "red" })).to_string().as_bytes());
    assert_eq!(report.problems, [r#"unknown field "spec.color""#]);
}

#[test]
fn documents_show_the_kind() {
    let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(fruits())];
    let group_version = kinds[0].names().gvk().group_version();
    let parse = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let open_api = parse(crate::openapi::v3_document(&group_version, &kinds));
    let fruit = &open_api["components"]["schemas"]["org.example.v1.Fruit"];
    assert_eq!(fruit["x-kubernetes-group-version-kind"][0]["kind"], "Fruit");
    assert_eq!(fruit["properties"]["spec"]["properties"]["weight"]["type"], "integer");
    let metadata = &fruit["properties"]["metadata"]["allOf"][0]["$ref"];
    assert_eq!(*metadata, format!("#/components/schemas/{OBJECT_META}"));
    assert!(open_api["components"]["schemas"].get(OBJECT_META).is_some());
    let paths = open_api["paths"].as_object().unwrap();
    assert!(paths.contains_key("/apis/example.org/v1/namespaces/{namespace}/fruits/{name}/status"));

    let list = parse(crate::discovery_documents::aggregated_groups(&kinds));
    let resource = &list["items"][0]["versions"][0]["resources"][0];
    assert_eq!(resource["shortNames"], json!(["fr"]));
    assert_eq!(resource["subresources"][1]["responseKind"]["kind"], "Fruit");
}

/// In upstream's order: what is said twice, metadata, what is pruned, metadata of embedded objects.
#[test]
fn unknown_and_repeated_fields_are_found_everywhere() {
    let text = json!({"type": "string"});
    let spec = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "a": text, "nothing": {"type": "object"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": text}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": text}}},
            "free": {
                "type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true,
            },
            "other": {
                "type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}},
            },
        }}},
    });
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": spec}});
    let mut tree = codec::tree(&fruit_definition());
    tree["spec"]["versions"] = json!([version]);
    let crd = CustomResourceDefinition::decode(tree.to_string().as_bytes()).unwrap();
    let kind = CustomKind::new(&crd, &crd.spec.versions[0]);
    let object = r#"{"apiVersion":"example.org/v1","kind":"Fruit",
        "metadata":{"name":"a","nope":1,"labels":{"a":"b","a":"c"}},
        "spec":{"a":"1","a":"2","b":1,"list":[{"y":1},{"x":"1","x":"2"}],"map":{"k":{"z":1}},"nothing":{"q":1},
            "free":{"apiVersion":"v1","kind":"X","metadata":{"name":"x","zz":1},"foo":1,"foo":2},
            "other":{"apiVersion":"v1","kind":"X","metadata":{"unk":1},"bar":1,"spec":{"u":1}}},
        "top":1,"top":2}"#;
    let (decoded, report) = kind.decode_reporting(object.as_bytes()).unwrap();
    let mut expected: Vec<String> =
        ["metadata.labels.a", "spec.a", "spec.list[1].x", "spec.free.foo", "top"]
            .map(|it| format!("duplicate field \"{it}\""))
            .into();
    expected.extend(
        [
            "metadata.nope",
            "spec.b",
            "spec.list[0].y",
            "spec.map.k.z",
            "spec.nothing.q",
            "spec.other.bar",
            "spec.other.spec.u",
            "top",
            "spec.free.metadata.zz",
            "spec.other.metadata.unk",
        ]
        .map(|it| format!("unknown field \"{it}\"")),
    );
    assert_eq!(report.problems, expected);
    // What is told of is dropped.
    let kept = decoded.to_value();
    assert_eq!(kept["spec"]["nothing"], json!({}));
    assert_eq!(kept["spec"]["free"]["metadata"], json!({"name": "x"}));
    assert_eq!(
        kept["spec"]["other"],
        json!({"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {}})
    );
    assert!(kept.get("top").is_none());
}
