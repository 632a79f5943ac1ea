//! A pod before and after, and what its node declares, in; the refusal out.

use api::core::Pod;
use apimachinery::User;
use serde_json::{Value, json};

use super::NodeDeclaredFeatureValidator;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

const OF_POD: &str = "InPlacePodLevelResourcesVerticalScaling";
const OF_INIT: &str = "InPlacePodVerticalScalingInitContainers";

fn pod(generation: i64, of_pod: Option<&str>, of_init: &str, of_sidecar: &str) -> Pod {
    let cpu = |it: &str| json!({"requests": {"cpu": it}});
    decode(&json!({
        "metadata": {"name": "web", "namespace": "ns", "generation": generation},
        "spec": {
            "nodeName": "n", "resources": of_pod.map(cpu), "containers": [{"name": "c"}],
            "initContainers": [
                {"name": "i", "resources": cpu(of_init)},
                {"name": "s", "restartPolicy": "Always", "resources": cpu(of_sidecar)},
            ],
        },
    }))
}

fn check(declared: &[&str], new: Pod, expected: Result<(), &str>) {
    let node: Value = json!({"metadata": {"name": "n"}, "status": {"declaredFeatures": declared}});
    let objects = Objects::default().with("nodes", &node);
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Update, "/pods/resize", &user);
    let old = pod(1, Some("1"), "1", "1");
    let outcome = case.run(NodeDeclaredFeatureValidator, objects, (Some(&new), Some(&old)));
    let outcome = outcome.map(drop).map_err(|it| it.to_string());
    let forbidden = |missing: &str| {
        format!(
            "pods \"web\" is forbidden: pod update requires features {missing} which are not available on node \"n\""
        )
    };
    assert_eq!(outcome, expected.map_err(forbidden));
}

#[test]
fn a_node_says_what_it_can_resize() {
    check(&[], pod(2, Some("1"), "1", "2"), Ok(()));
    check(&[], pod(2, Some("2"), "1", "1"), Err(OF_POD));
    check(&[OF_POD], pod(2, Some("2"), "1", "1"), Ok(()));
    check(&[OF_POD], pod(2, Some("2"), "2", "1"), Err(OF_INIT));
    check(&[], pod(2, Some("2"), "2", "1"), Err(&format!("{OF_POD}, {OF_INIT}")));
    check(&[OF_INIT, OF_POD], pod(2, None, "2", "1"), Ok(()));
}

#[test]
fn who_changes_nothing_asks_for_nothing() {
    check(&[], pod(1, Some("2"), "2", "1"), Ok(()));
}
