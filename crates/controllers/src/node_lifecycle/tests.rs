//! A node and the time since its last heartbeat in, conditions and taints out.

use std::sync::Arc;
use std::time::Duration;

use api::core::node::{Node, NodeView};
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{Observed, Plan, plan};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// `ready` is the status of the condition Ready, or empty; taints are `key:Effect` without the
/// prefix.
fn node(ready: &str, taints: &[&str]) -> NodeView {
    let taints: Vec<_> = taints
        .iter()
        .map(|it| {
            let (key, effect) = it.split_once(':').unwrap();
            json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect})
        })
        .collect();
    let conditions: Vec<_> = (!ready.is_empty())
        .then(|| json!({"type": "Ready", "status": ready}))
        .into_iter()
        .collect();
    let node = json!({
        "metadata": {"name": "n"},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    });
    NodeView::from(&serde_json::from_value::<Node>(node).unwrap())
}

fn observed(node: NodeView, silent: i64) -> Observed {
    Observed {
        node: Arc::new(node),
        seen: at(0),
        now: at(silent),
        grace: Duration::from_secs(50),
        startup_grace: Duration::from_secs(60),
    }
}

fn render(plan: &Plan) -> String {
    let mut words = Vec::new();
    for condition in plan.conditions.iter().flatten().filter(|it| it.type_ == "Ready") {
        words.push(format!("{} {}", condition.status, condition.reason.as_deref().unwrap()));
    }
    if let Some(taints) = &plan.taints {
        let taints: Vec<String> = taints
            .iter()
            .map(|it| format!("{}:{}", it.key.trim_start_matches("node.kubernetes.io/"), it.effect))
            .collect();
        words.push(format!("taints [{}]", taints.join(" ")));
    }
    if let Some(deadline) = plan.deadline {
        words.push(format!("look in {deadline:?}"));
    }
    words.join("; ")
}

fn check(ready: &str, taints: &[&str], silent: i64, expected: &str) {
    assert_eq!(render(&plan(&observed(node(ready, taints), silent))), expected);
}

const DEAD: [&str; 2] = ["unreachable:NoSchedule", "unreachable:NoExecute"];

#[test]
fn a_node_is_given_up_after_its_grace() {
    check("True", &[], 10, "look in 40s");
    check(
        "True",
        &[],
        50,
        "Unknown NodeStatusUnknown; taints [unreachable:NoSchedule unreachable:NoExecute]",
    );
    check("", &["not-ready:NoSchedule"], 50, "look in 10s");
}

#[test]
fn taints_follow_the_conditions_and_foreign_ones_stay() {
    let fresh = ["not-ready:NoSchedule"];
    check("True", &fresh, 0, "taints []; look in 50s");
    check("False", &fresh, 0, "taints [not-ready:NoSchedule not-ready:NoExecute]; look in 50s");
    check(
        "True",
        &["unreachable:NoSchedule", "mine:NoExecute"],
        0,
        "taints [mine:NoExecute]; look in 50s",
    );
}

proptest! {
    #[test]
    fn one_round_of_writes_is_enough(
        ready in prop_oneof![Just(""), Just("True"), Just("False"), Just("Unknown")],
        is_tainted: bool,
        silent in 0..100i64,
    ) {
        let rested = converges(
            |node: &NodeView| {
                let plan = plan(&observed(node.clone(), silent));
                let changes = (plan.conditions, plan.taints);
                Some(changes).filter(|it| *it != (None, None)).into_iter().collect()
            },
            |node, (conditions, taints)| {
                if let Some(conditions) = conditions {
                    node.conditions = conditions;
                }
                if let Some(taints) = taints {
                    node.taints = taints;
                }
            },
            node(ready, if is_tainted { &DEAD } else { &[] }),
            1,
        );
        rested.unwrap();
    }
}
