//! Classes and a pod spec in, priority or refusal out.

use api::scheduling::PriorityClass;
use apimachinery::User;
use serde_json::{Value, json};

use super::Priority;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, create_pod, decode};

fn class(name: &str, value: i32, is_default: bool) -> Value {
    json!({
        "metadata": {"name": name}, "value": value, "globalDefault": is_default,
        "preemptionPolicy": if name == "gentle" { "Never" } else { "PreemptLowerPriority" },
    })
}

fn classes(all: &[Value]) -> Objects {
    all.iter().fold(Objects::default(), |objects, it| objects.with("priorityclasses", it))
}

fn check(classes: Objects, spec: &Value, expected: Result<(Value, i64, &str), &str>) {
    match (create_pod(Priority, classes, spec), expected) {
        (Ok(spec), Ok((class, priority, policy))) => {
            assert_eq!(spec["priorityClassName"], class);
            assert_eq!(spec["priority"], priority);
            assert_eq!(spec["preemptionPolicy"], policy);
        }
        (Err(refused), Err(text)) => {
            assert!(refused.message().contains(text), "{}", refused.message());
        }
        (outcome, _) => panic!("{outcome:?}"),
    }
}

const LOWER: &str = "PreemptLowerPriority";

fn of(class: &str) -> Value {
    json!({"containers": [], "priorityClassName": class})
}

#[test]
fn without_a_class_there_is_no_priority() {
    for spec in [json!({"containers": []}), json!({"containers": [], "priority": 0})] {
        check(Objects::default(), &spec, Ok((Value::Null, 0, LOWER)));
    }
}

#[test]
fn priority_comes_from_the_class_alone() {
    let all = || classes(&[class("high", 1000, false), class("gentle", 5, false)]);
    check(all(), &of("high"), Ok((json!("high"), 1000, LOWER)));
    check(all(), &of("gentle"), Ok((json!("gentle"), 5, "Never")));
    let missing = "pods \"web\" is forbidden: no PriorityClass with name x was found";
    check(all(), &of("x"), Err(missing));
    let given = json!({"containers": [], "priorityClassName": "high", "priority": 5});
    check(all(), &given, Err("(5) must not be provided in pod spec"));
    let given = json!({"containers": [], "preemptionPolicy": "Never"});
    check(all(), &given, Err("PreemptionPolicy (Never) must not be provided"));
}

#[test]
fn classes_of_the_system_are_there_before_their_objects() {
    let (node, cluster) = ("system-node-critical", "system-cluster-critical");
    check(Objects::default(), &of(node), Ok((json!(node), 2_000_001_000, LOWER)));
    check(Objects::default(), &of(cluster), Ok((json!(cluster), 2_000_000_000, LOWER)));
}

#[test]
fn who_names_no_class_has_the_default() {
    let all = || classes(&[class("high", 1000, false), class("usual", 7, true)]);
    check(all(), &json!({"containers": []}), Ok((json!("usual"), 7, LOWER)));
    check(all(), &of("high"), Ok((json!("high"), 1000, LOWER)));
    // Of two, the lower.
    let two = classes(&[class("a", 9, true), class("b", 8, true)]);
    check(two, &json!({"containers": []}), Ok((json!("b"), 8, LOWER)));
}

#[test]
fn there_is_one_default() {
    let user = User::new("alice", &[]);
    let there = || classes(&[class("usual", 7, true), class("high", 1000, false)]);
    let write = |operation, value: &Value| {
        let class: PriorityClass = decode(value);
        let old: PriorityClass = decode(value);
        let old = (operation == Operation::Update).then_some(&old as _);
        let case = Case::of(operation, "scheduling.k8s.io/priorityclasses", &user);
        case.run(Priority, there(), (Some(&class), old)).map(drop)
    };
    let refused = write(Operation::Create, &class("second", 8, true)).unwrap_err();
    let why = "PriorityClass usual is already marked as default. Only one default can exist";
    assert!(refused.message().contains(why), "{}", refused.message());
    assert!(write(Operation::Update, &class("high", 1000, true)).is_err());
    assert!(write(Operation::Update, &class("usual", 7, true)).is_ok());
    assert!(write(Operation::Create, &class("second", 8, false)).is_ok());
}
