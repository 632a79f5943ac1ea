//! The pure parts of the example `differ`.

#[path = "../examples/differ/allowed.rs"]
mod allowed;
#[path = "../examples/differ/compare.rs"]
#[expect(dead_code, reason = "the program needs all of it")]
mod compare;
#[path = "../examples/differ/grow.rs"]
mod grow;
#[path = "../examples/differ/mutate.rs"]
mod mutate;
#[path = "../examples/differ/place.rs"]
mod place;
#[path = "../examples/differ/requests.rs"]
#[expect(dead_code, reason = "the program needs all of it")]
mod requests;
#[path = "../examples/differ/schema.rs"]
mod schema;

use serde_json::{Value, json};
use stdx::Random;

use allowed::Allowed;
use compare::{Answer, Difference, Of, compare};
use grow::Garden;
use place::{Change, Step, pointer};
use requests::{Live, Verb, Writer};
use schema::Schemas;

/// A kind with a field, a list with keys and a status.
fn schemas() -> Schemas {
    let mut schemas = Schemas::default();
    schemas.add(&json!({"components": {"schemas": {
        "A": {
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "A"}],
            "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]},
                "status": {"$ref": "#/components/schemas/Status"},
            },
        },
        "Spec": {"type": "object", "properties": {
            "mode": {"type": "string", "enum": ["One", "Two"]},
            "items": {
                "type": "array", "x-kubernetes-patch-merge-key": "name",
                "items": {"$ref": "#/components/schemas/Item"},
            },
        }},
        "Item": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "n": {"type": "integer"},
        }},
        "Status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }}}));
    schemas
}

fn field(names: &[&str]) -> Vec<Step> {
    let step = |it: &&str| match it.parse() {
        Ok(index) => Step::Item(index),
        Err(_) => Step::Field((*it).to_owned()),
    };
    names.iter().map(step).collect()
}

#[test]
fn schemas_are_found_by_kind_and_by_place() {
    let schemas = schemas();
    let kind = schemas.of_kind("g/v1", "A").unwrap();
    assert!(schemas.of_kind("g/v2", "A").is_none());
    let n = schemas.at(kind, &field(&["spec", "items", "0", "n"])).unwrap();
    assert_eq!(n["type"], "integer");
    assert!(schemas.at(kind, &field(&["spec", "other"])).is_none());
}

#[test]
fn the_same_seed_makes_the_same_objects() {
    let schemas = schemas();
    let kind = schemas.of_kind("g/v1", "A").unwrap();
    let object = json!({"apiVersion": "g/v1", "kind": "A", "spec": {"mode": "One"}});
    let all = |seed| {
        let random = Random::from_seed(seed);
        let garden = Garden { schemas: &schemas, random: &random };
        let one = |_| mutate::one(&garden, &object, kind, &[]).map(|it| it.to_string());
        (0..50).map(one).collect::<Vec<_>>()
    };
    assert_eq!(all(1), all(1));
    assert_ne!(all(1), all(2));
}

#[test]
fn what_is_added_is_of_the_type_that_the_schema_says() {
    let schemas = schemas();
    let kind = schemas.of_kind("g/v1", "A").unwrap();
    let random = Random::from_seed(1);
    let garden = Garden { schemas: &schemas, random: &random };
    let object = json!({"apiVersion": "g/v1", "kind": "A", "spec": {}});
    for _ in 0..100 {
        let change = garden.addition(&object, kind, &field(&["spec"])).unwrap();
        match (pointer(&change.place).as_str(), change.value.unwrap()) {
            ("/spec/mode", Value::String(mode)) => assert!(["One", "Two"].contains(&&*mode)),
            ("/spec/items", Value::Array(items)) => {
                assert!(items.iter().all(|it| it["name"].is_string()), "what is required is there");
            }
            (place, value) => panic!("{place}: {value}"),
        }
    }
}

#[test]
fn a_change_says_where_and_what_and_is_made_there() {
    let check = |names: &[&str], value: Option<Value>, expected: Value, text: &str| {
        let mut object = json!({"a/b": {"list": [1, 2]}});
        let change = Change { place: field(names), value };
        place::apply(&mut object, &change);
        assert_eq!(object, expected);
        assert_eq!(change.to_string(), text);
    };
    check(&["a/b"], None, json!({}), "/a~1b removed");
    check(&["a/b", "list", "0"], None, json!({"a/b": {"list": [2]}}), "/a~1b/list/0 removed");
    check(&["c", "d"], Some(json!(3)), json!({"a/b": {"list": [1, 2]}, "c": {"d": 3}}), "/c/d = 3");
    let through_a_number = json!({"a/b": {"list": [1, 2]}});
    check(&["a/b", "list", "0", "x"], None, through_a_number, "/a~1b/list/0/x removed");
}

#[test]
fn names_and_kinds_stay_as_they_are() {
    let object =
        json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "labels": {"x": "y"}}});
    let mut places: Vec<String> = place::all(&object).iter().map(|it| pointer(it)).collect();
    places.sort();
    assert_eq!(places, ["/metadata/labels", "/metadata/labels/x"]);
}

fn body(verb: Verb, is_status: bool, change: &Change) -> Value {
    let schemas = schemas();
    let random = Random::from_seed(3);
    let writer = Writer {
        schemas: &schemas,
        schema: schemas.of_kind("g/v1", "A").expect("the kind above"),
        random: &random,
        collection: "/apis/g/v1/as",
    };
    let manifest = json!({
        "apiVersion": "g/v1", "kind": "A", "metadata": {"name": "a"},
        "spec": {"mode": "One", "items": [{"name": "x", "n": 1}, {"name": "y"}]},
    });
    let shown = |version: &str| {
        let mut shown = manifest.clone();
        shown["metadata"]["resourceVersion"] = json!(version);
        shown
    };
    let live = Live { manifest: manifest.clone(), shown: [shown("1"), shown("2")] };
    let mut document = manifest.clone();
    document["status"] = json!({"phase": "Active"});
    let ask = writer.write(verb, &live, &document, is_status, change);
    assert_eq!(ask.path.contains("/as/a/status?"), is_status);
    assert!(ask.path.contains("dryRun=All"), "nothing is written");
    serde_json::from_str(&ask.bodies[1]).expect("a body is JSON")
}

#[test]
fn a_change_is_written_in_every_way() {
    let change = |names: &[&str], value| Change { place: field(names), value };
    let n = change(&["spec", "items", "0", "n"], Some(json!(5)));
    assert_eq!(body(Verb::Update, false, &n)["metadata"]["resourceVersion"], "2");
    assert_eq!(body(Verb::Update, false, &n)["spec"]["items"][0]["n"], 5);
    let merge = json!({"spec": {"items": [{"name": "x", "n": 5}, {"name": "y"}]}});
    assert_eq!(body(Verb::MergePatch, false, &n), merge);
    let strategic = json!({"spec": {"items": [{"name": "x", "n": 5}]}});
    assert_eq!(body(Verb::StrategicPatch, false, &n), strategic);
    let json_patch = body(Verb::JsonPatch, false, &n);
    assert_eq!(json_patch[0]["path"], "/spec/items/0/n");
    assert_eq!(body(Verb::Apply, false, &n)["spec"]["items"][0]["n"], 5);
    let gone = change(&["spec", "items", "1"], None);
    let strategic = json!({"spec": {"items": [{"name": "y", "$patch": "delete"}]}});
    assert_eq!(body(Verb::StrategicPatch, false, &gone), strategic);
    let mode = change(&["spec", "mode"], None);
    assert_eq!(body(Verb::MergePatch, false, &mode), json!({"spec": {"mode": null}}));
    let phase = change(&["status", "phase"], Some(json!("x")));
    assert_eq!(body(Verb::MergePatch, true, &phase), json!({"status": {"phase": "x"}}));
    assert_eq!(body(Verb::Update, true, &phase)["status"]["phase"], "x");
    assert_eq!(body(Verb::Apply, true, &phase).get("spec"), None);
}

fn check(upstream: (u16, Value), ours: (u16, Value), expected: Option<Of>) {
    let answer = |(code, body)| Answer { code, body, warnings: Vec::new() };
    let found = compare(&answer(upstream), &answer(ours));
    assert_eq!(found.map(|it| it.of), expected);
}

#[test]
fn what_clients_can_tell_apart_is_a_difference() {
    let status = |reason: &str, field: &str, message: &str| {
        let causes = json!([{"field": field, "reason": "Required", "message": message}]);
        json!({"reason": reason, "message": message, "details": {"causes": causes}})
    };
    let refused = (422, status("Invalid", "spec.a", "x"));
    check(refused.clone(), refused.clone(), None);
    check(refused.clone(), (400, status("Invalid", "spec.a", "x")), Some(Of::Code));
    check(refused.clone(), (422, status("Conflict", "spec.a", "x")), Some(Of::Reason));
    check(refused.clone(), (422, status("Invalid", "spec.b", "x")), Some(Of::Causes));
    check(refused, (422, status("Invalid", "spec.a", "y")), Some(Of::Texts));
    let object = |uid: &str, spec: Value| (201, json!({"metadata": {"uid": uid}, "spec": spec}));
    check(object("a", json!({"x": [1]})), object("b", json!({"x": [1]})), None);
    check(object("a", json!({"x": [1]})), object("a", json!({"x": []})), Some(Of::Object));
    check(object("a", json!({"x": null})), object("a", json!({})), Some(Of::Empties));
    check(object("a", json!({"x": [null]})), object("a", json!({})), Some(Of::Object));
    let id = |it: char| json!({"id": format!("{}-0000-0000-0000-000000000000", it.to_string().repeat(8))});
    check(object("a", id('1')), object("a", id('2')), None);
    let time = |it: &str| json!({"at": it});
    let (one, two) = (time("2024-01-02T03:04:05Z"), time("2025-01-02T03:04:05Z"));
    check(object("a", one.clone()), object("a", two), None);
    check(object("a", one), object("a", time("never")), Some(Of::Object));
}

#[test]
fn who_manages_fields_is_compared_in_any_order() {
    let object = |all: &[(&str, &str)]| {
        let entry = |it: &(&str, &str)| json!({"manager": it.0, "fieldsV1": {it.1: {}}});
        let managers: Vec<Value> = all.iter().map(entry).collect();
        (200, json!({"metadata": {"managedFields": managers}}))
    };
    check(object(&[("a", "f:x"), ("b", "f:y")]), object(&[("b", "f:y"), ("a", "f:x")]), None);
    check(object(&[("a", "f:x")]), object(&[("a", "f:y")]), Some(Of::Managers));
    check(object(&[("a", "f:x")]), object(&[]), Some(Of::Managers));
}

#[test]
fn a_known_difference_matches_all_that_its_entry_says() {
    let text = r#"[{"kind": "A", "of": "code", "upstream": "compil", "reason": "no compiler"}]"#;
    let allowed = Allowed::read(text).unwrap();
    let difference =
        |of, upstream: &str| Difference { of, upstream: upstream.to_owned(), ours: String::new() };
    let reason = |kind: &str, of, upstream: &str| {
        allowed.reason(kind, "/spec/x removed", &difference(of, upstream)).map(str::to_owned)
    };
    assert_eq!(reason("g/v1 A", Of::Code, "422 compilation failed").unwrap(), "no compiler");
    assert_eq!(reason("g/v1 B", Of::Code, "422 compilation failed"), None);
    assert_eq!(reason("g/v1 A", Of::Texts, "422 compilation failed"), None);
    assert_eq!(reason("g/v1 A", Of::Code, "422"), None);
}

#[test]
fn every_known_difference_has_its_reason() {
    let text = include_str!("../examples/differ/allowed.json");
    let entries: Vec<Value> = serde_json::from_str(text).unwrap();
    for entry in entries {
        assert!(entry["reason"].as_str().is_some_and(|it| !it.is_empty()), "{entry}");
        let names = ["kind", "of", "upstream", "ours", "change", "in"];
        assert!(names.iter().any(|it| entry[*it].is_string()), "{entry} matches everything");
        let is_known = |it: &&String| *it == "reason" || names.contains(&it.as_str());
        assert!(entry.as_object().unwrap().keys().all(|it| is_known(&it)), "{entry}");
    }
}
