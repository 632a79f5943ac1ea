//! Nodes that are taken out of service and come back: cordon, drain within what a disruption budget
//! allows, uncordon.

use crate::cluster::{Cluster, row};

const PODS: &str = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}";

fn budget(unavailable: usize) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{ name: web }}\n\
         spec: {{ maxUnavailable: {unavailable}, selector: {{ matchLabels: {{ app: web }} }} }}\n"
    )
}

/// Two replicas of `web`, both on sim-0.
fn start() -> Option<Cluster> {
    let cluster = Cluster::start(2)?;
    assert_eq!(cluster.ok(&["cordon", "sim-1"]), "node/sim-1 cordoned\n");
    assert_eq!(cluster.ok(&["cordon", "sim-1"]), "node/sim-1 already cordoned\n");
    let nodes = cluster.ok(&["get", "nodes"]);
    assert!(row(&nodes, "sim-1").starts_with("sim-1 Ready,SchedulingDisabled "), "{nodes}");
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let pods = cluster.ok(&["get", "pods", "-o", PODS]);
    assert_eq!(pods.lines().filter(|it| it.ends_with(" sim-0")).count(), 2, "{pods}");
    assert_eq!(cluster.ok(&["uncordon", "sim-1"]), "node/sim-1 uncordoned\n");
    assert_eq!(cluster.ok(&["uncordon", "sim-1"]), "node/sim-1 already uncordoned\n");
    Some(cluster)
}

fn set_budget(cluster: &Cluster, unavailable: usize, allowed: &str) {
    let file = cluster.file("budget.yaml", &budget(unavailable));
    cluster.ok(&["apply", "-f", &file]);
    let path = "jsonpath={.status.observedGeneration}/{.metadata.generation} \
                {.status.currentHealthy} {.status.disruptionsAllowed}";
    cluster.until(&["get", "pdb", "web", "-o", path], |it| {
        let (generations, rest) = it.split_once(' ').unwrap_or_default();
        let (observed, latest) = generations.split_once('/').unwrap_or_default();
        !latest.is_empty() && observed == latest && rest == format!("2 {allowed}")
    });
}

#[test]
fn drain_waits_for_the_budget_and_moves_pods_within_it() {
    let Some(cluster) = start() else { return };
    set_budget(&cluster, 0, "0");
    let before = cluster.ok(&["get", "pods", "-o", PODS]);
    let refused = cluster.refused(&["drain", "sim-0", "--timeout=2s"]);
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert!(refused.contains(why), "{refused}");
    assert_eq!(cluster.ok(&["get", "pods", "-o", PODS]), before, "none was evicted");
    let nodes = cluster.ok(&["get", "nodes"]);
    assert!(row(&nodes, "sim-0").contains("SchedulingDisabled"), "{nodes}");

    set_budget(&cluster, 1, "1");
    let drained = cluster.ok(&["drain", "sim-0", "--timeout=60s"]);
    assert!(drained.contains("evicting pod default/web-") || drained.contains("evicted"));
    assert!(drained.ends_with("node/sim-0 drained\n"), "{drained}");
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let pods = cluster.until(&["get", "pods", "-o", PODS], |it| !it.contains(" sim-0"));
    assert_eq!(pods.lines().filter(|it| it.ends_with(" sim-1")).count(), 2, "{pods}");
    assert_eq!(cluster.ok(&["uncordon", "sim-0"]), "node/sim-0 uncordoned\n");
}

#[test]
fn drain_leaves_pods_that_nobody_would_make_anew() {
    let Some(cluster) = start() else { return };
    cluster.ok(&["cordon", "sim-1"]);
    cluster.ok(&["run", "alone", "--image=xebec.local/toolbox"]);
    cluster.ok(&["wait", "--for=condition=Ready", "pod/alone", "--timeout=30s"]);
    let set = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: { name: agent }\nspec:\n  \
               selector: { matchLabels: { app: agent } }\n  template:\n    \
               metadata: { labels: { app: agent } }\n    \
               spec: { containers: [{ name: main, image: xebec.local/toolbox }] }\n";
    cluster.ok(&["apply", "-f", &cluster.file("agent.yaml", set)]);
    cluster.ok(&["rollout", "status", "daemonset/agent", "--timeout=60s"]);
    let refused = cluster.refused(&["drain", "sim-0"]);
    for why in [
        "cannot delete Pods that declare no controller (use --force to override): default/alone",
        "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/agent-",
    ] {
        assert!(refused.contains(why), "{refused}");
    }
    cluster.ok(&["get", "pod", "alone"]);
    let forced = ["drain", "sim-0", "--force", "--ignore-daemonsets", "--timeout=60s"];
    assert!(cluster.ok(&forced).ends_with("node/sim-0 drained\n"));
    assert!(cluster.refused(&["get", "pod", "alone"]).contains("NotFound"));
    let left = cluster.ok(&["get", "pods", "-o", PODS]);
    let on_it: Vec<&str> = left.lines().filter(|it| it.ends_with(" sim-0")).collect();
    assert!(on_it.len() == 1 && on_it[0].starts_with("agent-"), "{left}");
}
