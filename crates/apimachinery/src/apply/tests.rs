//! Ownership: objects in, fieldsV1 or conflicts out.

use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Definitions, SchemaRef};

fn schema() -> SchemaRef {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    let definitions = DEFINITIONS.get_or_init(|| {
        Definitions::from_json(&json!({
            "Web": {"type": "object", "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": "#/definitions/Meta"}], "default": {}},
                "spec": {"allOf": [{"$ref": "#/definitions/Spec"}], "default": {}},
                "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}
            }},
            "Meta": {"type": "object", "properties": {
                "name": {"type": "string"},
                "uid": {"type": "string"},
                "resourceVersion": {"type": "string"},
                "generation": {"type": "integer"},
                "managedFields": {"type": "array", "items": {}},
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
            }},
            "Spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "copies": {"type": "integer"},
                "data": {"allOf": [{"$ref": "#/definitions/a.RawExtension"}], "default": {}},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"}},
                "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
                "strategy": {"type": "object", "properties": {"surge": {"type": "integer"}}},
                "containers": {"type": "array", "items": {"$ref": "#/definitions/Container"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
            }},
            "Container": {"type": "object", "properties": {
                "name": {"type": "string"},
                "image": {"type": "string"},
                "ports": {"type": "array", "items": {"$ref": "#/definitions/Port"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]}
            }},
            "a.RawExtension": {"type": "object"},
            "Port": {"type": "object", "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string"}
            }}
        }))
    });
    definitions.get("Web").unwrap().clone()
}

fn writer(manager: &str, second: i64) -> Writer<'_> {
    Writer {
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: Timestamp::from_second(second).unwrap(),
        resets: Resets::Only(&["status"]),
    }
}

fn web(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Web", "metadata": {"name": "a"}, "spec": spec})
}

fn update(live: Option<&Value>, mut object: Value, manager: &str, second: i64) -> Value {
    record_update(&schema(), live, &mut object, &writer(manager, second)).unwrap();
    object
}

/// `manager operation: paths` of each entry.
fn owners(object: &Value) -> Vec<String> {
    entries::of(object)
        .into_iter()
        .map(|it| format!("{} {:?}: {}", it.manager, it.operation, it.fields.paths().join(" ")))
        .collect()
}

#[test]
fn a_create_owns_all_but_bookkeeping() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Web",
        "metadata": {"name": "a", "uid": "1", "labels": {"app": "x"}, "finalizers": ["f"]},
        "spec": {
            "replicas": 1, "selector": {"app": "x"}, "args": ["a"], "strategy": {},
            "containers": [{"name": "c", "ports": [{"port": 80}]}]
        },
        "status": {"ready": 1}
    });
    let created = update(None, object, "kubectl", 0);
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!(entry["time"], "1970-01-01T00:00:00Z");
    assert_eq!(
        entry["fieldsV1"],
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {".": {}, "v:\"f\"": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {}, "f:args": {}, "f:strategy": {},
                "f:containers": {".": {}, "k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {},
                    "f:ports": {
                        ".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}
                    }
                }}
            }
        })
    );
}

#[test]
fn an_update_takes_over_what_it_changes() {
    let first = update(None, web(json!({"replicas": 1, "args": ["a"]})), "a", 0);
    let second = update(Some(&first), web(json!({"replicas": 2, "args": ["a"]})), "b", 1);
    assert_eq!(owners(&second), ["a Update: .spec.args", "b Update: .spec.replicas"]);
    let third = update(Some(&second), web(json!({"replicas": 2})), "b", 2);
    assert_eq!(owners(&third), ["b Update: .spec.replicas"]);
    assert_eq!(third["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:01Z");
}

#[test]
fn an_update_without_change_keeps_entries_and_times() {
    let first = update(None, web(json!({"replicas": 1})), "a", 0);
    let second = update(Some(&first), web(json!({"replicas": 1})), "b", 9);
    assert_eq!(first, second);
}

#[test]
fn empty_managed_fields_forget_ownership() {
    let first = update(None, web(json!({"replicas": 1})), "a", 0);
    let mut object = web(json!({"replicas": 1}));
    object["metadata"]["managedFields"] = json!([{}]);
    let second = update(Some(&first), object, "a", 1);
    assert_eq!(second["metadata"].get("managedFields"), None);
    let third = update(Some(&second), web(json!({"replicas": 2})), "a", 1);
    assert_eq!(third["metadata"].get("managedFields"), None);
    let config = web(json!({"args": ["x"]}));
    let fourth = apply(&schema(), Some(&third), &config, &writer("b", 2), false).unwrap();
    assert_eq!(
        owners(&fourth),
        ["b Apply: .spec.args", "before-first-apply Update: .spec.replicas"]
    );
}

/// What kubectl sends when it moves an object from client-side to server-side apply.
#[test]
fn managed_fields_that_a_client_sets_count() {
    let first = update(None, web(json!({"replicas": 1, "args": ["a"]})), "client-side", 0);
    let mut claim = first.clone();
    let entry = &mut claim["metadata"]["managedFields"][0];
    entry["manager"] = json!("me");
    entry["operation"] = json!("Apply");
    let second = update(Some(&first), claim.clone(), "other", 1);
    assert_eq!(owners(&second), ["me Apply: .spec.args .spec.replicas"]);
    assert_eq!(second["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:00Z");
    // What the same write changes is its writer's.
    claim["spec"]["replicas"] = json!(2);
    let changed = update(Some(&first), claim.clone(), "other", 1);
    assert_eq!(owners(&changed), ["me Apply: .spec.args", "other Update: .spec.replicas"]);
    // Now that it is its applier's, what the applier no longer says goes.
    let config = web(json!({"replicas": 1}));
    let third = apply(&schema(), Some(&second), &config, &writer("me", 2), false).unwrap();
    assert_eq!(third["spec"], json!({"replicas": 1}));
}

#[test]
fn claims_of_ownership_that_cannot_be_read_are_those_of_clients_that_do_not_know_it() {
    let first = update(None, web(json!({"replicas": 1})), "a", 0);
    let good = json!({"manager": "b", "operation": "Update", "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    let check = |field: &str, value: Value, expected: &str| {
        let mut claim = first.clone();
        let mut entry = good.clone();
        entry[field] = value;
        claim["metadata"]["managedFields"] = json!([entry]);
        let second = update(Some(&first), claim, "c", 1);
        assert_eq!(owners(&second), [expected], "{field}");
    };
    let theirs = "b Update: .spec.replicas";
    let live = "a Update: .spec.replicas";
    check("manager", json!("b"), theirs);
    check("operation", json!("Delete"), live);
    check("apiVersion", json!(""), live);
    check("fieldsType", json!("FieldsV2"), live);
    check("fieldsType", Value::Null, live);
    check("fieldsV1", json!({"replicas": {}}), live);
    let status =
        Writer { subresource: "status", resets: Resets::Only(&["spec"]), ..writer("c", 1) };
    let mut claim = first.clone();
    claim["metadata"]["managedFields"] = json!([good]);
    record_update(&schema(), Some(&first), &mut claim, &status).unwrap();
    assert_eq!(owners(&claim), [live], "subresources take no claims");
    let mut without_times = first.clone();
    without_times["metadata"]["managedFields"][0]["time"].take();
    assert_eq!(update(Some(&first), without_times, "c", 1), first);
}

#[test]
fn of_two_claims_of_one_owner_the_later_counts() {
    let first = update(None, web(json!({"replicas": 1, "args": ["a"]})), "a", 0);
    let mut claim = first.clone();
    let entry = |field: &str| {
        json!({"manager": "b", "operation": "Apply", "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {field: {}}}})
    };
    claim["metadata"]["managedFields"] = json!([entry("f:replicas"), entry("f:args")]);
    assert_eq!(owners(&update(Some(&first), claim, "c", 1)), ["b Apply: .spec.args"]);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn kubectl_takes_over_what_client_side_apply_wrote() {
    let last = web(json!({"replicas": 1, "args": ["a"]}));
    let mut object = web(json!({"replicas": 1, "args": ["a"]}));
    object["metadata"]["annotations"] = json!({LAST_APPLIED: last.to_string()});
    let live = update(None, object, "kubectl-client-side-apply", 0);
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    let scaled = update(Some(&live), scaled, "scaler", 1);

    let config = web(json!({"replicas": 1, "args": ["b"]}));
    let by = |manager: &str, live: &Value| {
        apply(&schema(), Some(live), &config, &writer(manager, 2), false)
            .map(|it| it["spec"].to_string())
            .unwrap_or_else(|err| err.to_string())
    };
    assert_eq!(by("kubectl", &live), r#"{"args":["b"],"replicas":1}"#);
    assert_eq!(
        by("other", &live),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.args"
    );
    assert_eq!(
        by("kubectl", &scaled),
        "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas",
        "what somebody else wrote since then is theirs"
    );
    let applied = apply(&schema(), Some(&live), &config, &writer("kubectl", 2), false).unwrap();
    let annotation = applied["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), config);
    let again = apply(&schema(), Some(&applied), &config, &writer("kubectl", 3), false).unwrap();
    assert_eq!(again, applied);
}

#[test]
fn old_updaters_become_ancient() {
    let mut object = update(None, web(json!({"containers": []})), "m0", 0);
    for number in 1..13 {
        let mut next = object.clone();
        next["metadata"]["labels"][format!("l{number}")] = json!("x");
        object = update(Some(&object), next, &format!("m{number:02}"), number);
    }
    let owners = owners(&object);
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        "ancient-changes Update: .metadata.labels .metadata.labels.l1 .metadata.labels.l2 .metadata.labels.l3 .spec.containers"
    );
}

#[test]
fn apply_conflicts_with_other_owners_unless_forced() {
    let live = update(None, web(json!({"replicas": 1, "args": ["a"]})), "kubectl", 0);
    let check = |spec: Value, expected: &str| {
        let result = apply(&schema(), Some(&live), &web(spec), &writer("me", 1), false);
        let actual = match result {
            Ok(object) => owners(&object).join("; "),
            Err(err) => err.to_string(),
        };
        assert_eq!(actual, expected);
    };
    check(
        json!({"replicas": 2}),
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas",
    );
    check(
        json!({"replicas": 2, "args": ["b"]}),
        "Apply failed with 2 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.args\n- .spec.replicas",
    );
    check(
        json!({"replicas": 1}),
        "me Apply: .spec.replicas; kubectl Update: .spec.args .spec.replicas",
    );
    let config = web(json!({"replicas": 2}));
    let forced = apply(&schema(), Some(&live), &config, &writer("me", 1), true).unwrap();
    assert_eq!(owners(&forced), ["me Apply: .spec.replicas", "kubectl Update: .spec.args"]);
    assert_eq!(forced["spec"], json!({"replicas": 2, "args": ["a"]}));
}

#[test]
fn apply_removes_what_it_no_longer_says_unless_others_own_it() {
    let config = web(json!({
        "replicas": 1, "strategy": {"surge": 1},
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    }));
    let live = apply(&schema(), None, &config, &writer("me", 0), false).unwrap();
    let mut changed = live.clone();
    changed["spec"]["containers"][1]["ports"] = json!([{"port": 80}]);
    changed["status"] = json!({"ready": 1});
    changed["metadata"]["uid"] = json!("1");
    let live = update(Some(&live), changed, "other", 1);
    let config = web(json!({"containers": [{"name": "c"}]}));
    let next = apply(&schema(), Some(&live), &config, &writer("me", 2), false).unwrap();
    assert_eq!(
        next["spec"],
        json!({"containers": [{"name": "b", "ports": [{"port": 80}]}, {"name": "c"}]})
    );
    assert_eq!(next["metadata"]["uid"], "1");
    assert_eq!(next["status"], json!({"ready": 1}));
}

/// `protocol` is a key with a default: an item without it is the item with the default.
#[test]
fn items_that_leave_out_a_key_are_those_with_its_default() {
    let ports = |ports: Value| web(json!({"containers": [{"name": "c", "ports": ports}]}));
    let of = |object: &Value| object["spec"]["containers"][0]["ports"].clone();
    let config = ports(json!([{"port": 80, "name": "web"}]));
    let mut live = apply(&schema(), None, &config, &writer("me", 0), false).unwrap();
    // The server's own defaults.
    live["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    let stored = json!([{"port": 80, "name": "web", "protocol": "TCP"}]);
    let again = apply(&schema(), Some(&live), &config, &writer("me", 1), false).unwrap();
    assert_eq!(of(&again), stored);
    let null = ports(json!([{"port": 80, "name": "web", "protocol": null}]));
    let again = apply(&schema(), Some(&live), &null, &writer("me", 1), false).unwrap();
    assert_eq!(of(&again).as_array().unwrap().len(), 1);
    // The same item, said in full by another: both own it, and it goes when both have left it out.
    let full = ports(json!([{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]));
    let both = apply(&schema(), Some(&live), &full, &writer("other", 2), false).unwrap();
    assert_eq!(
        of(&both),
        json!([{"port": 80, "name": "web", "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}])
    );
    let none = web(json!({"containers": [{"name": "c"}]}));
    let one = apply(&schema(), Some(&both), &none, &writer("me", 3), false).unwrap();
    assert_eq!(
        of(&one),
        json!([{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]),
        "the name was mine, the port is still theirs"
    );
    let gone = apply(&schema(), Some(&one), &none, &writer("other", 4), false).unwrap();
    assert_eq!(of(&gone), Value::Null);
    let twice = ports(json!([{"port": 80}, {"port": 80, "protocol": "TCP"}]));
    let error = apply(&schema(), None, &twice, &writer("me", 0), false).unwrap_err();
    assert!(error.to_string().contains(r#"[port=80,protocol="TCP"]"#), "{error}");
}

#[test]
fn lists_merge_in_the_order_of_the_configuration() {
    let names = |list: &str| {
        let items = list.chars().map(|it| json!({"name": it.to_string()}));
        web(json!({"containers": items.collect::<Vec<_>>()}))
    };
    for (live, config, expected) in
        [("abcd", "dxb", "adcxb"), ("ab", "ba", "ba"), ("", "ab", "ab"), ("ab", "c", "abc")]
    {
        let live = update(None, names(live), "other", 0);
        let next = apply(&schema(), Some(&live), &names(config), &writer("me", 1), true).unwrap();
        let actual: Vec<&str> = next["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(actual.concat(), expected);
    }
}

#[test]
fn bad_configurations_are_malformed() {
    let mut config = web(json!({}));
    config["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let error = apply(&schema(), None, &config, &writer("me", 0), false).unwrap_err();
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");
    let config = web(json!({"containers": [{"name": "a"}, {"name": "a"}]}));
    let error = apply(&schema(), None, &config, &writer("me", 0), false).unwrap_err();
    assert!(matches!(error, Error::Untyped(_)));
    let config = web(json!({"containers": [{"image": "a"}]}));
    let error = apply(&schema(), None, &config, &writer("me", 0), false).unwrap_err();
    assert!(error.to_string().contains(r#"omits all key fields ["name"]"#), "{error}");
}

fn any_spec() -> impl Strategy<Value = Value> {
    let container = (0..4_u8, proptest::option::of(0..3_u8)).prop_map(|(name, image)| {
        let mut it = json!({"name": format!("c{name}")});
        if let Some(image) = image {
            it["image"] = json!(format!("i{image}"));
        }
        it
    });
    let containers = proptest::collection::vec(container, 0..4);
    (proptest::option::of(0..3), containers, proptest::option::of(0..2)).prop_map(
        |(replicas, mut containers, surge)| {
            containers.sort_by_key(|it| it["name"].to_string());
            containers.dedup_by_key(|it| it["name"].to_string());
            let mut spec = json!({"containers": containers});
            if let Some(replicas) = replicas {
                spec["replicas"] = json!(replicas);
            }
            if let Some(surge) = surge {
                spec["strategy"] = json!({"surge": surge});
            }
            spec
        },
    )
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(live in any_spec(), config in any_spec()) {
        let live = update(None, web(live), "other", 0);
        let once = apply(&schema(), Some(&live), &web(config.clone()), &writer("me", 1), true).unwrap();
        let twice = apply(&schema(), Some(&once), &web(config), &writer("me", 2), false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_only_manager_gets_what_it_applies(first in any_spec(), second in any_spec()) {
        let live = apply(&schema(), None, &web(first), &writer("me", 0), false).unwrap();
        let next = apply(&schema(), Some(&live), &web(second.clone()), &writer("me", 1), false).unwrap();
        let fresh = apply(&schema(), None, &web(second), &writer("me", 1), false).unwrap();
        // An empty list of items has no owner, and is there or not.
        let filled = |object: &Value| {
            let mut spec = object["spec"].clone();
            if spec["containers"].as_array().is_none_or(Vec::is_empty) {
                spec["containers"] = Value::Null;
            }
            spec
        };
        prop_assert_eq!(filled(&next), filled(&fresh));
    }

    #[test]
    fn sets_obey_set_laws(a in any_spec(), b in any_spec()) {
        let set = |it| compare::field_set(&schema(), &web(it), Mode::Applied);
        let (a, b) = (set(a), set(b));
        let mut union = a.clone();
        union.union_with(&b);
        let mut only_a = union.clone();
        only_a.subtract(&b);
        let mut rest = a.clone();
        rest.subtract(&a.intersection(&b));
        prop_assert_eq!(&only_a, &rest);
        rest.union_with(&a.intersection(&b));
        prop_assert_eq!(&rest, &a);
        prop_assert_eq!(FieldSet::try_from(a.to_json()), Ok(a));
    }
}

/// `apps/v2` has `copies` where `apps/v1` has `replicas`, and nothing else is another.
struct TwoVersions;

impl Versions for TwoVersions {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        matches!(api_version, "apps/v1" | "apps/v2").then(schema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        let mut object = object.clone();
        let (from, to) = match api_version {
            "apps/v2" => ("replicas", "copies"),
            _ => ("copies", "replicas"),
        };
        object["apiVersion"] = json!(api_version);
        if let Some(value) = object["spec"].as_object_mut().and_then(|it| it.remove(from)) {
            object["spec"][to] = value;
        }
        Ok(object)
    }
}

fn in_version<'a>(api_version: &'a str, writer: Writer<'a>) -> Writer<'a> {
    Writer { api_version, ..writer }
}

#[test]
fn owners_are_asked_in_their_own_version() {
    let (one, two) =
        (|it| in_version("apps/v1", writer(it, 1)), |it| in_version("apps/v2", writer(it, 2)));
    let config = web(json!({"replicas": 1, "strategy": {"surge": 1}}));
    let live = apply(&TwoVersions, None, &config, &one("a"), false).unwrap();
    let live = TwoVersions.convert(&live, "apps/v2").unwrap();
    let mut config = web(json!({"copies": 2}));
    config["apiVersion"] = json!("apps/v2");
    let refused = apply(&TwoVersions, Some(&live), &config, &two("b"), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    let forced = apply(&TwoVersions, Some(&live), &config, &two("b"), true).unwrap();
    let owned = |object: &Value, index: usize| {
        let entry = &object["metadata"]["managedFields"][index];
        (entry["apiVersion"].clone(), entry["fieldsV1"].clone())
    };
    assert_eq!(
        owned(&forced, 0),
        (json!("apps/v1"), json!({"f:spec": {"f:strategy": {"f:surge": {}}}}))
    );
    assert_eq!(owned(&forced, 1), (json!("apps/v2"), json!({"f:spec": {"f:copies": {}}})));

    // What a applies no longer goes, in whichever version it says so; what b has stays.
    let mut nothing = web(json!({}));
    nothing["apiVersion"] = json!("apps/v2");
    let left = apply(&TwoVersions, Some(&forced), &nothing, &two("a"), false).unwrap();
    assert_eq!(left["spec"], json!({"copies": 2}));

    // An update in one version takes from the owner in the other.
    let before = TwoVersions.convert(&forced, "apps/v1").unwrap();
    let mut after = before.clone();
    after["spec"]["replicas"] = json!(3);
    record_update(&TwoVersions, Some(&before), &mut after, &one("c")).unwrap();
    let entries = after["metadata"]["managedFields"].as_array().unwrap();
    let owners: Vec<_> = entries.iter().map(|it| (&it["manager"], &it["apiVersion"])).collect();
    assert_eq!(owners, [(&json!("a"), &json!("apps/v1")), (&json!("c"), &json!("apps/v1"))]);
}

#[test]
fn what_was_owned_in_a_version_that_is_gone_is_owned_by_nobody() {
    let gone = in_version("apps/v0", writer("a", 1));
    let mut live = web(json!({"replicas": 1}));
    record_update(&schema(), None, &mut live, &gone).unwrap();
    let config = web(json!({"replicas": 2}));
    let applied = apply(&TwoVersions, Some(&live), &config, &writer("b", 2), false).unwrap();
    assert_eq!(applied["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}

#[test]
fn conversions_that_take_time_are_asked_for() {
    struct Later;
    impl Versions for Later {
        fn schema(&self, _api_version: &str) -> Option<SchemaRef> {
            Some(schema())
        }

        fn convert(&self, _object: &Value, _api_version: &str) -> Result<Value, Unconverted> {
            Err(Unconverted::NotYet)
        }
    }
    let first = web(json!({"replicas": 1}));
    let live = apply(&Later, None, &first, &writer("a", 1), false).unwrap();
    let config = web(json!({"replicas": 2}));
    let second = in_version("apps/v2", writer("b", 2));
    let error = apply(&Later, Some(&live), &config, &second, true).unwrap_err();
    assert!(matches!(error, Error::Unconverted(Unconverted::NotYet)));
}

#[test]
fn a_configuration_that_is_not_what_the_schema_says_is_refused_in_upstreams_words() {
    let check = |spec: Value, expected: &str| {
        let error = apply(&schema(), None, &web(spec), &writer("me", 0), false).unwrap_err();
        let start = "failed to create typed patch object (/a; apps/v1, Kind=Web): ";
        assert_eq!(error.to_string(), format!("{start}{expected}"));
        assert!(matches!(error, Error::Untyped(_)));
    };
    check(json!({"bogus": 1}), ".spec.bogus: field not declared in schema");
    check(json!("x"), ".spec: expected map, got &{x}");
    check(json!({"args": {"a": 1}}), ".spec.args: expected list, got &{map[a:1]}");
    check(json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string");
    check(
        json!({"args": [7]}),
        ".spec.args[0]: expected string, got &value.valueUnstructured{Value:7}",
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "a"}]}),
        ".spec.containers: duplicate entries for key [name=\"a\"]",
    );
    check(
        json!({"containers": [null]}),
        ".spec.containers: element 0: associative list with keys may not have a null element",
    );
    check(
        json!({"bogus": 1, "replicas": true}),
        "errors:\n  .spec.bogus: field not declared in schema\n  \
         .spec.replicas: expected numeric (int or float), got bool",
    );
}

#[test]
fn items_that_cannot_be_told_apart_are_nobodys() {
    let object = web(json!({"containers": [{"image": "a"}]}));
    let created = update(None, object, "a", 0);
    assert_eq!(created["metadata"].get("managedFields"), None);
}

#[test]
fn items_that_repeat_a_key_are_owned_as_one() {
    let twice = web(json!({"containers": [{"name": "c", "image": "1"}, {"name": "c"}]}));
    let created = update(None, twice.clone(), "a", 0);
    assert_eq!(owners(&created), [r#"a Update: .spec.containers .spec.containers[name="c"]"#]);
    let once = web(json!({"containers": [{"name": "c"}]}));
    let next = update(Some(&created), once, "b", 1);
    assert_eq!(
        owners(&next),
        [
            "a Update: .spec.containers",
            r#"b Update: .spec.containers[name="c"] .spec.containers[name="c"].name"#
        ]
    );
}

#[test]
fn what_belongs_to_somebody_else_is_owned_whole() {
    let created = update(None, web(json!({"data": {"a": {"b": 1}}})), "a", 0);
    assert_eq!(owners(&created), ["a Update: .spec.data"]);
}

#[test]
fn parts_of_what_was_empty_do_not_bring_it_in() {
    let live = update(None, web(json!({"strategy": {}})), "a", 0);
    let next = update(Some(&live), web(json!({"strategy": {"surge": 1}})), "b", 1);
    assert_eq!(owners(&next), ["a Update: .spec.strategy", "b Update: .spec.strategy.surge"]);
}

#[test]
fn an_apply_that_changes_nothing_has_no_time() {
    let live = update(None, web(json!({"replicas": 1})), "a", 0);
    let next = apply(&schema(), Some(&live), &web(json!({"replicas": 1})), &writer("b", 1), false);
    let next = next.unwrap();
    let entries = next["metadata"]["managedFields"].as_array().unwrap();
    let mine = entries.iter().find(|it| it["manager"] == "b").unwrap();
    assert_eq!(mine.get("time"), None);
}

#[test]
fn null_says_nothing_about_parts() {
    let live = update(None, web(json!({"strategy": {"surge": 1}, "replicas": 1})), "a", 0);
    let config = web(json!({"strategy": null, "replicas": null}));
    let next = apply(&schema(), Some(&live), &config, &writer("b", 1), true).unwrap();
    assert_eq!(next["spec"], json!({"strategy": {"surge": 1}, "replicas": null}));
}

#[test]
fn a_door_that_writes_little_owns_no_more() {
    let fields = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:containers": {
                ".": {},
                "k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {"f:cpu": {}}}},
                "k:{\"name\":\"b\"}": {".": {}, "f:image": {}},
            },
        },
    });
    let mut set = FieldSet::try_from(fields).unwrap();
    Resets::AllBut(&["spec.containers.*.resources", "spec.resources"]).take_from(&mut set);
    assert_eq!(set.paths(), [".spec.containers[name=\"a\"].resources.limits.cpu"]);
}

#[test]
fn who_applies_no_items_owns_none() {
    let applied = |spec: Value| {
        owners(&apply(&schema(), None, &web(spec), &writer("me", 0), false).unwrap()).join("; ")
    };
    assert_eq!(applied(json!({"containers": []})), "");
    assert_eq!(applied(json!({"args": []})), "me Apply: .spec.args");
    let live = update(None, web(json!({"replicas": 1})), "other", 0);
    let config = web(json!({"strategy": null}));
    let object = apply(&schema(), Some(&live), &config, &writer("me", 9), false).unwrap();
    assert_eq!(object["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:09Z");
}

#[test]
fn null_is_a_value_of_a_map() {
    let mut config = web(json!({}));
    config["metadata"]["labels"] = json!({"a": null});
    let object = apply(&schema(), None, &config, &writer("me", 0), false).unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"a": null}));
}
