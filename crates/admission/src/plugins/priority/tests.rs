//! Pod spec in, priority or refusal out.

use serde_json::{Value, json};

use super::Priority;
use crate::plugins::fixture::{Objects, create_pod};

fn check(spec: &Value, expected: Result<i64, &str>) {
    let outcome = create_pod(Priority, Objects::default(), spec);
    match expected {
        Ok(priority) => {
            let spec = outcome.unwrap();
            assert_eq!(spec["priority"], priority);
            assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
        }
        Err(text) => {
            let message = outcome.unwrap_err().message().to_owned();
            assert!(message.contains(text), "{message}");
        }
    }
}

#[test]
fn priority_comes_from_the_class_alone() {
    check(&json!({"containers": []}), Ok(0));
    check(&json!({"containers": [], "priority": 0}), Ok(0));
    let class = |name: &str| json!({"containers": [], "priorityClassName": name});
    check(&class("system-node-critical"), Ok(2_000_001_000));
    check(&class("system-cluster-critical"), Ok(2_000_000_000));
    check(&class("x"), Err("pods \"web\" is forbidden: no PriorityClass with name x was found"));
    check(&json!({"containers": [], "priority": 5}), Err("(5) must not be provided in pod spec"));
    check(
        &json!({"containers": [], "preemptionPolicy": "Never"}),
        Err("PreemptionPolicy (Never) must not be provided"),
    );
}
