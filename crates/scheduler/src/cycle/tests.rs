//! Pod and nodes in, the chosen node or the reasons out.

use serde_json::{Value, json};
use stdx::Random;

use super::choose;
use crate::fixture::{node, pod};
use crate::node::NodeState;
use crate::pod::PodRequirements;

fn check(pod: &PodRequirements, nodes: &[NodeState], expected: &str) {
    let nodes: Vec<&NodeState> = nodes.iter().collect();
    let actual = match choose(pod, &nodes, 0, &Random::from_seed(1)) {
        Ok(choice) => nodes[choice.node].name.clone(),
        Err(diagnosis) => diagnosis.to_string(),
    };
    assert_eq!(actual, expected);
}

fn requests(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "main", "resources": { "requests": { "cpu": cpu } } }] })
}

#[test]
fn a_pod_that_fits_nowhere_says_why_per_reason_and_count() {
    let nodes = [
        node("a", json!({})),
        node("b", json!({})),
        node("c", json!({ "spec": { "unschedulable": true } })),
        node(
            "d",
            json!({ "spec": { "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] } }),
        ),
    ];
    check(
        &pod(requests("100")),
        &nodes,
        "0/4 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable, 2 Insufficient cpu.",
    );
}

#[test]
fn without_nodes_that_is_the_reason() {
    check(&pod(json!({})), &[], "no nodes available to schedule pods");
}

#[test]
fn the_emptier_node_wins() {
    let mut full = node("full", json!({}));
    full.take(&pod(requests("3")));
    check(&pod(requests("500m")), &[full, node("empty", json!({}))], "empty");
}

#[test]
fn selectors_and_affinity_are_hard_preferences_are_not() {
    let nodes = [
        node("plain", json!({})),
        node("ssd", json!({ "metadata": { "labels": { "disk": "ssd", "size": "7" } } })),
    ];
    check(&pod(json!({ "nodeSelector": { "disk": "ssd" } })), &nodes, "ssd");
    let required = |operator: &str, values: Value| {
        pod(
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "size", "operator": operator, "values": values }] }
        ] } } } }),
        )
    };
    check(&required("Gt", json!(["5"])), &nodes, "ssd");
    check(&required("DoesNotExist", json!([])), &nodes, "plain");
    check(
        &required("Lt", json!(["5"])),
        &nodes,
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
    );
    let preferred = pod(
        json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
        { "weight": 10, "preference": { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] } }
    ] } } }),
    );
    check(&preferred, &nodes, "ssd");
    check(&preferred, &nodes[..1], "plain");
}

#[test]
fn tolerations_let_a_pod_onto_tainted_nodes() {
    let nodes =
        [node("gpu", json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoExecute" }] } }))];
    check(&pod(json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] })), &nodes, "gpu");
    check(
        &pod(json!({})),
        &nodes,
        "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: }.",
    );
}

#[test]
fn host_ports_are_taken_once_per_address() {
    let port = |address: &str| {
        pod(
            json!({ "containers": [{ "name": "main", "ports": [{ "containerPort": 80, "hostPort": 80, "hostIP": address }] }] }),
        )
    };
    let mut taken = node("a", json!({}));
    taken.take(&port("10.0.0.1"));
    check(&port("10.0.0.2"), &[taken.clone()], "a");
    check(
        &port(""),
        &[taken],
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    );
}

#[test]
fn rules_without_a_plugin_refuse_the_pod() {
    let anti = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname" }
    ] } } });
    check(
        &pod(anti),
        &[node("a", json!({}))],
        "0/1 nodes are available: 1 node(s) could not be judged: required pod anti-affinity is not supported yet.",
    );
    for (source, value, what) in [
        ("persistentVolumeClaim", json!({ "claimName": "b" }), "persistent volume claims"),
        (
            "ephemeral",
            json!({ "volumeClaimTemplate": { "spec": {} } }),
            "generic ephemeral volumes",
        ),
    ] {
        let expected = format!(
            "0/1 nodes are available: 1 node(s) could not be judged: {what} are not supported yet."
        );
        let volumes = json!({ "volumes": [{ "name": "a", source: value }] });
        check(&pod(volumes), &[node("a", json!({}))], &expected);
    }
}

#[test]
fn large_clusters_are_looked_at_in_parts_by_turns() {
    let nodes: Vec<NodeState> = (0..1_000).map(|it| node(&it.to_string(), json!({}))).collect();
    let pod = pod(requests("1"));
    let mut start = 0;
    for next in [420, 840, 260] {
        let choice = choose(&pod, &nodes, start, &Random::from_seed(1)).unwrap();
        assert_eq!(choice.next_start, next);
        let distance = (choice.node + nodes.len() - start) % nodes.len();
        assert!(distance < 420, "{} from {start}", choice.node);
        start = choice.next_start;
    }
    // Nodes that went meanwhile are not counted on.
    assert!(choose(&pod, &nodes[..7], start, &Random::from_seed(1)).unwrap().node < 7);
    for (n_nodes, expected) in [(3, 100), (100, 100), (1_000, 420), (5_000, 500), (15_000, 750)] {
        assert_eq!(super::enough(n_nodes), expected);
    }
}

#[test]
fn init_containers_and_sidecars_count_at_their_peak() {
    let spec = json!({
        "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }],
        "initContainers": [
            { "name": "side", "restartPolicy": "Always", "resources": { "requests": { "cpu": "500m" } } },
            { "name": "init", "resources": { "requests": { "cpu": "2" } } },
        ],
    });
    assert_eq!(pod(spec).requests.milli_cpu, 2500);
}
