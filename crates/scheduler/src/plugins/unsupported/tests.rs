//! Rules that no plugin has in, refusals out.

use serde_json::{Value, json};

use super::Unsupported;
use crate::fixture::{node, pod, refusal};

fn check(spec: Value, expected: &str) {
    let said = refusal(&Unsupported, &pod(spec), &node("a", json!({})));
    assert_eq!(said.trim_start_matches("node(s) could not be judged: "), expected);
}

#[test]
fn hard_rules_that_nobody_keeps_are_refused() {
    let term = json!([{ "topologyKey": "kubernetes.io/hostname" }]);
    let hard = "requiredDuringSchedulingIgnoredDuringExecution";
    check(
        json!({ "affinity": { "podAffinity": { hard: term } } }),
        "required pod affinity is not supported yet",
    );
    check(
        json!({ "affinity": { "podAntiAffinity": { hard: term } } }),
        "required pod anti-affinity is not supported yet",
    );
    let spread = |when: &str| json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when }] });
    check(
        spread("DoNotSchedule"),
        "topology spread constraints with DoNotSchedule are not supported yet",
    );
    check(spread("ScheduleAnyway"), "");
}

#[test]
fn who_has_none_is_not_refused() {
    check(json!({}), "");
    check(
        json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [] } } }),
        "",
    );
}
