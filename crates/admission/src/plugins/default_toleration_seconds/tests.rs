//! Tolerations in, tolerations out.

use serde_json::{Value, json};

use super::DefaultTolerationSeconds;
use crate::plugins::fixture::{Objects, create_pod};

fn check(tolerations: &Value, expected: &[&str]) {
    let spec = json!({"containers": [], "tolerations": tolerations});
    let spec = create_pod(DefaultTolerationSeconds, Objects::default(), &spec).unwrap();
    let shown: Vec<String> = spec["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {}", it["key"].as_str().unwrap_or("any"), it["tolerationSeconds"]))
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn each_taint_is_tolerated_for_five_minutes_unless_the_pod_speaks_of_it() {
    let not_ready = "node.kubernetes.io/not-ready 300";
    let unreachable = "node.kubernetes.io/unreachable 300";
    check(&json!([]), &[not_ready, unreachable]);
    check(
        &json!([{"key": "other", "operator": "Exists"}]),
        &["other null", not_ready, unreachable],
    );
    check(&json!([{"operator": "Exists"}]), &["any null"]);
    check(
        &json!([{"operator": "Exists", "effect": "NoSchedule"}]),
        &["any null", not_ready, unreachable],
    );
    let own = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 5}]);
    check(&own, &["node.kubernetes.io/not-ready 5", unreachable]);
}
