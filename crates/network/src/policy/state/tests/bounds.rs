//! Absurd policies: what they make stays in proportion to what was written.

use serde_json::{Value, json};

use super::World;
use super::naive::OUR_NODE;
use super::random::Step;

/// Chains, sets, rules, elements of both families.
fn sizes(world: &World) -> [usize; 4] {
    let mut sizes = [0; 4];
    for (_, table) in world.state.tables() {
        let table = table.unwrap();
        sizes[0] += table.chains.len();
        sizes[1] += table.sets.len();
        sizes[2] += table.chains.values().map(|it| it.rules.len()).sum::<usize>();
        sizes[3] += table.elements.values().map(|it| it.len()).sum::<usize>();
    }
    sizes
}

fn with_policy(spec: Value) -> World {
    let mut world = World::new();
    world.step(&Step::pod("x", "a", &["10.244.1.2", "fd00::2"], OUR_NODE));
    world.step(&Step::policy("x", "p", Some(spec)));
    world
}

#[test]
fn peers_and_ports_add_up_and_do_not_multiply() {
    let peer = |it: u32| json!({"podSelector": {"matchLabels": {"app": it.to_string()}}});
    let port = |it: u32| json!({"port": format!("port-{it}")});
    let (peers, ports): (Vec<_>, Vec<_>) =
        ((0..3000).map(peer).collect(), (0..2000).map(port).collect());
    let world = with_policy(json!({"ingress": [{"from": peers, "ports": ports}]}));
    let [_, n_sets, n_rules, _] = sizes(&world);
    assert!((10_000..10_100).contains(&n_sets), "{n_sets}");
    assert!((10_000..10_100).contains(&n_rules), "{n_rules}");
}

#[test]
fn blocks_of_one_rule_are_one_set_of_ranges_that_do_not_meet() {
    let block = |it: u32| {
        json!({"ipBlock": {
            "cidr": format!("{}.{}.0.0/16", it % 200, it / 200 % 100),
            "except": [format!("{}.{}.7.0/24", it % 200, it / 200 % 100)],
        }})
    };
    let blocks: Vec<_> = (0..10_000).map(block).collect();
    let world = with_policy(json!({"egress": [{"to": blocks}], "policyTypes": ["Egress"]}));
    let [_, n_sets, n_rules, n_elements] = sizes(&world);
    assert!(n_sets < 20 && n_rules < 30, "{n_sets} {n_rules}");
    assert!(n_elements < 20_500, "{n_elements}");
    let overlapping: Vec<_> = (0..10_000)
        .map(|it| json!({"ipBlock": {"cidr": format!("10.0.0.0/{}", it % 24 + 8)}}))
        .collect();
    let world = with_policy(json!({"egress": [{"to": overlapping}], "policyTypes": ["Egress"]}));
    assert!(sizes(&world)[3] < 20, "{:?}", sizes(&world));
}

#[test]
fn all_without_all_is_nobody() {
    let nobody = json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["0.0.0.0/0"]}});
    let world = with_policy(json!({"ingress": [{"from": [nobody]}]}));
    world.check();
}

#[test]
fn the_same_selector_in_many_policies_is_one_set() {
    let mut world = World::new();
    world.step(&Step::pod("x", "a", &["10.244.1.2"], OUR_NODE));
    for number in 0..300 {
        let peer = json!({"namespaceSelector": {"matchLabels": {"team": "t"}}});
        let port = json!({"port": number % 3 + 80});
        let spec = json!({"ingress": [{"from": [peer], "ports": [port]}]});
        world.step(&Step::policy("x", &format!("p{number}"), Some(spec)));
    }
    assert_eq!(world.state.terms.len(), 4);
}
