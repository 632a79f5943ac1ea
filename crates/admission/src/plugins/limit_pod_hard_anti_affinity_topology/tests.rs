//! Pod specs in, refusals out.

use serde_json::{Value, json};

use super::LimitPodHardAntiAffinityTopology;
use crate::plugins::fixture::{Objects, create_pod};

fn keeping_away(terms: &str, keys: &[&str]) -> Value {
    let terms_of = |it: &&str| json!({"topologyKey": it, "labelSelector": {}});
    let list: Vec<Value> = keys.iter().map(terms_of).collect();
    json!({"containers": [], "affinity": {"podAntiAffinity": {terms: list}}})
}

#[test]
fn others_are_kept_away_from_a_node_alone() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let check = |spec: &Value| {
        create_pod(LimitPodHardAntiAffinityTopology, Objects::default(), spec).map(|_| ())
    };
    assert!(check(&json!({"containers": []})).is_ok());
    assert!(check(&keeping_away(required, &["kubernetes.io/hostname"])).is_ok());
    let refusal = check(&keeping_away(required, &["kubernetes.io/hostname", "zone"]));
    assert_eq!(
        refusal.unwrap_err().message(),
        "pods \"web\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"
    );
}
