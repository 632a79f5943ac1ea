//! The pure parts of the example `differ`.

#[path = "../examples/differ/compare.rs"]
mod compare;
#[path = "../examples/differ/mutate.rs"]
mod mutate;

use serde_json::{Value, json};

use compare::{Answer, compare};

#[test]
fn every_place_is_changed_one_at_a_time() {
    let object = json!({"apiVersion": "v1", "kind": "A", "spec": {"a/b": 1, "list": ["x"]}});
    let all = mutate::all(&object);
    let of = |what: &str| all.iter().find(|it| it.0 == what).unwrap().1.clone();
    assert_eq!(of("as it is"), object);
    assert_eq!(of("spec removed"), json!({"apiVersion": "v1", "kind": "A"}));
    assert_eq!(of("spec.a~1b = -1")["spec"]["a/b"], -1);
    assert_eq!(of("spec.list = []")["spec"]["list"], json!([]));
    assert_eq!(of("spec.list.0 removed")["spec"]["list"], json!([]));
    assert_eq!(of("spec.list.0 = 7")["spec"]["list"], json!([7]));
    assert!(all.iter().all(|it| it.1["kind"] == "A"), "what it is stays");
    // As it is; spec; a/b; list; the item.
    assert_eq!(all.len(), 1 + 5 + 6 + 6 + 6);
}

fn check(upstream: (u16, Value), ours: (u16, Value), expected: Option<&str>) {
    let answer = |(code, body)| Answer { code, body };
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
    check(refused.clone(), (400, status("Invalid", "spec.a", "x")), Some("code"));
    check(refused.clone(), (422, status("Conflict", "spec.a", "x")), Some("reason"));
    check(refused.clone(), (422, status("Invalid", "spec.b", "x")), Some("causes"));
    check(refused, (422, status("Invalid", "spec.a", "y")), Some("texts"));
    let object = |uid: &str, spec: Value| (201, json!({"metadata": {"uid": uid}, "spec": spec}));
    check(object("a", json!({"x": [1]})), object("b", json!({"x": [1]})), None);
    check(object("a", json!({"x": [1]})), object("a", json!({"x": []})), Some("object"));
    check(object("a", json!({"x": null})), object("a", json!({})), Some("object"));
    let id = |it: char| json!({"id": format!("{}-0000-0000-0000-000000000000", it.to_string().repeat(8))});
    check(object("a", id('1')), object("a", id('2')), None);
    let time = |it: &str| json!({"at": it});
    check(
        object("a", time("2024-01-02T03:04:05Z")),
        object("a", time("2025-01-02T03:04:05Z")),
        None,
    );
    check(object("a", time("2024-01-02T03:04:05Z")), object("a", time("never")), Some("object"));
}
