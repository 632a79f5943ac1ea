//! A node and the time since its last heartbeat in, conditions and taints out; nodes of zones in,
//! whose pods may be driven out.

use std::sync::Arc;
use std::time::Duration;

use api::core::node::{Node, NodeView};
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{Observed, is_evicting, plan, standing, standing_when_silent, taints};
use super::zones::{Limits, Mode, Permit, Standing, Zones};

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

/// As a zone that is well lets it.
fn render(observed: &Observed) -> String {
    let plan = plan(observed);
    let mut words = Vec::new();
    for condition in plan.conditions.iter().flatten().filter(|it| it.type_ == "Ready") {
        words.push(format!("{} {}", condition.status, condition.reason.as_deref().unwrap()));
    }
    let conditions = plan.conditions.as_deref().unwrap_or(&observed.node.conditions);
    if let Some(taints) = taints(&observed.node, conditions, plan.evicts, observed.now) {
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
    assert_eq!(render(&observed(node(ready, taints), silent)), expected);
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

#[test]
fn only_a_node_that_was_ready_has_fallen_and_only_a_silent_one_has_its_pods_marked() {
    let flags = |ready: &str, silent: i64| {
        let plan = plan(&observed(node(ready, &[]), silent));
        (plan.has_fallen, plan.is_silent, plan.evicts.is_some())
    };
    assert_eq!(flags("True", 10), (false, false, false));
    assert_eq!(flags("True", 50), (true, true, true));
    assert_eq!(flags("False", 10), (false, false, true));
    assert_eq!(flags("False", 50), (false, true, true));
    assert_eq!(flags("Unknown", 10), (false, true, true));
    assert_eq!(flags("", 60), (false, true, true));
}

#[test]
fn a_node_that_may_not_be_emptied_is_only_closed() {
    let closed = taints(&node("False", &[]), &node("False", &[]).conditions, None, at(0)).unwrap();
    let shown: Vec<String> = closed.iter().map(|it| format!("{}:{}", it.key, it.effect)).collect();
    assert_eq!(shown, ["node.kubernetes.io/not-ready:NoSchedule"]);
    assert!(is_evicting(&node("", &DEAD)) && !is_evicting(&node("", &DEAD[..1])));
}

fn labeled(labels: &serde_json::Value) -> NodeView {
    let node = json!({
        "metadata": {"name": "n", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    NodeView::from(&serde_json::from_value::<Node>(node).unwrap())
}

#[test]
fn old_names_of_labels_follow_the_new() {
    let plan_of = |labels| plan(&observed(labeled(&labels), 0)).labels;
    let linux = || ("beta.kubernetes.io/os", "linux".to_owned());
    assert_eq!(plan_of(json!({"kubernetes.io/os": "linux"})), [linux()]);
    let other = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"});
    assert_eq!(plan_of(other), [linux()]);
    let same = json!({"kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64"});
    assert_eq!(plan_of(same), []);
    assert_eq!(plan_of(json!({"beta.kubernetes.io/os": "linux"})), []);
}

#[test]
fn a_zone_is_a_region_and_a_zone_and_an_excluded_node_does_not_count() {
    let of = |labels| {
        let it = standing(&labeled(&labels));
        (it.zone.replace('\0', ""), it.is_ready)
    };
    assert_eq!(of(json!({})), (String::new(), Some(true)));
    let both = json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"});
    assert_eq!(of(both), ("r::z".to_owned(), Some(true)));
    let excluded = json!({"node.kubernetes.io/exclude-disruption": ""});
    assert_eq!(of(excluded.clone()), (String::new(), None));
    assert_eq!(standing(&node("", &[])).is_ready, None);
    assert_eq!(standing_when_silent(&node("", &[])).is_ready, Some(false));
    assert_eq!(standing_when_silent(&labeled(&excluded)).is_ready, None);
}

fn zones(nodes: &[(&str, usize, usize)]) -> Zones {
    let mut zones =
        Zones::new(Limits { rate: 0.1, secondary_rate: 0.01, threshold: 0.55, large: 50 });
    for (zone, n_ready, n_not_ready) in nodes {
        for n in 0..n_ready + n_not_ready {
            set(&mut zones, zone, n, n >= *n_ready);
        }
    }
    zones.look();
    zones
}

/// Node `a0` is the first of zone `a`.
fn set(zones: &mut Zones, zone: &str, n: usize, is_bad: bool) -> Option<String> {
    let standing = Standing { zone: zone.to_owned(), is_ready: Some(!is_bad) };
    zones.observe(&format!("{zone}{n}"), Some(standing))
}

fn ask(zones: &mut Zones, node: &str, now: i64) -> String {
    match zones.permit(node, at(now)) {
        Permit::Granted { next: None } => "granted".to_owned(),
        Permit::Granted { next: Some((next, pause)) } => {
            format!("granted, then {next} in {}s", pause.as_secs())
        }
        Permit::Wait(left) => format!("wait {}s", left.as_secs()),
        Permit::Held => "held".to_owned(),
    }
}

#[test]
fn nodes_have_their_turns_one_after_the_other() {
    let mut zones = zones(&[("a", 8, 3)]);
    assert_eq!(ask(&mut zones, "a8", 0), "granted");
    assert_eq!(ask(&mut zones, "a8", 0), "granted");
    assert_eq!(ask(&mut zones, "a9", 1), "wait 9s");
    assert_eq!(ask(&mut zones, "a10", 2), "held");
    assert_eq!(ask(&mut zones, "a9", 10), "granted, then a10 in 10s");
    assert_eq!(ask(&mut zones, "a10", 15), "wait 5s");
    assert_eq!(ask(&mut zones, "a10", 20), "granted");
}

#[test]
fn who_recovers_makes_room_for_the_next() {
    let mut zones = zones(&[("a", 8, 3)]);
    ask(&mut zones, "a8", 0);
    ask(&mut zones, "a9", 0);
    ask(&mut zones, "a10", 0);
    assert_eq!(zones.release("a9").as_deref(), Some("a10"));
    assert_eq!(zones.release("a9"), None);
    assert_eq!(ask(&mut zones, "a10", 10), "granted");
    // And so does who is gone, or moves to another zone.
    ask(&mut zones, "a9", 11);
    ask(&mut zones, "a8", 11);
    assert_eq!(zones.observe("a9", None), None);
    assert_eq!(ask(&mut zones, "a9", 11), "held");
}

#[test]
fn a_small_zone_in_partial_disruption_stops_and_a_large_one_slows_down() {
    let mut small = zones(&[("a", 2, 3), ("b", 1, 0)]);
    assert_eq!(ask(&mut small, "a2", 0), "held");
    // One is ready again: two of five are bad.
    set(&mut small, "a", 4, false);
    let found = small.look();
    assert_eq!(found.wake, ["a2"]);
    assert_eq!(found.modes, [("a".to_owned(), Mode::Normal)]);
    assert_eq!(ask(&mut small, "a2", 0), "granted");
    let mut large = zones(&[("a", 20, 40), ("b", 1, 0)]);
    assert_eq!(ask(&mut large, "a20", 0), "granted");
    assert_eq!(ask(&mut large, "a21", 0), "wait 100s");
}

#[test]
fn one_zone_that_is_down_is_emptied_and_all_zones_are_not() {
    let mut zones = zones(&[("a", 0, 3), ("b", 1, 0)]);
    assert_eq!(ask(&mut zones, "a0", 0), "granted");
    assert_eq!(ask(&mut zones, "a1", 0), "wait 10s");
    set(&mut zones, "b", 0, true);
    let found = zones.look();
    assert!(zones.is_all_down() && !found.is_back);
    assert_eq!(found.wake, ["a0", "a1", "a2", "b0"]);
    assert_eq!(ask(&mut zones, "a1", 100), "held");
    set(&mut zones, "b", 0, false);
    let found = zones.look();
    assert!(!zones.is_all_down() && found.is_back);
    assert_eq!(found.wake.len(), 4);
    assert_eq!(ask(&mut zones, "a1", 100), "granted");
}

#[test]
fn nobody_to_count_is_no_disruption() {
    let mut zones = zones(&[]);
    assert!(!zones.is_all_down());
    zones.observe("n", Some(Standing { zone: String::new(), is_ready: None }));
    zones.look();
    assert!(!zones.is_all_down());
    assert_eq!(ask(&mut zones, "n", 0), "granted");
}

proptest! {
    /// Whoever is woken asks again, and time goes on: never more than one node per pause, and all
    /// have their turn in the end.
    #[test]
    fn all_have_their_turn_and_no_two_at_once(
        n_bad in 1..12usize,
        order in prop::collection::vec(0..12usize, 0..60),
    ) {
        let mut zones = zones(&[("a", 100, n_bad)]);
        let mut times = Vec::new();
        let name = |n: usize| format!("a{}", 100 + n % n_bad);
        let mut done = std::collections::BTreeSet::new();
        let all = (0..n_bad).cycle().take(n_bad * n_bad * 12);
        for (now, n) in (0i64..).zip(order.into_iter().chain(all)) {
            let node = name(n);
            if ask(&mut zones, &node, now).starts_with("granted") && done.insert(node) {
                times.push(now);
            }
        }
        prop_assert_eq!(done.len(), n_bad);
        prop_assert!(times.windows(2).all(|it| it[1] - it[0] >= 10), "{times:?}");
    }

    #[test]
    fn one_round_of_writes_is_enough(
        ready in prop_oneof![Just(""), Just("True"), Just("False"), Just("Unknown")],
        is_tainted: bool,
        silent in 0..100i64,
        may: bool,
    ) {
        let rested = converges(
            |node: &NodeView| {
                let observed = observed(node.clone(), silent);
                let plan = plan(&observed);
                let conditions = plan.conditions.as_deref().unwrap_or(&node.conditions);
                let taints = taints(node, conditions, plan.evicts.filter(|_| may), observed.now);
                let changes = (plan.conditions, taints);
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
