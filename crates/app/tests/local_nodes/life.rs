//! Nodes of one machine outlive who started them, and go with the cluster.

use crate::cluster::{Cluster, processes};
use crate::three::{self, FLAGS, Logs, NAMES};

fn ids(cluster: &Cluster) -> Vec<String> {
    NAMES.iter().map(|it| cluster.container_id(it)).collect()
}

#[test]
fn containers_go_on_whatever_ends_and_the_next_up_takes_over() {
    let Some(mut cluster) = three::start(&[]) else { return };
    cluster.run_on_each();
    let before = ids(&cluster);
    let inits = |cluster: &Cluster| {
        NAMES[1..].iter().map(|it| cluster.listed(it)["pid"].clone()).collect::<Vec<_>>()
    };
    let inits_before = inits(&cluster);

    cluster.kill();
    assert_eq!(cluster.listed_state("node-a-2"), "running", "agents are not up's own");
    // As many as it had.
    cluster.up();
    three::until_all_ready(&cluster);
    assert_eq!((ids(&cluster), inits(&cluster)), (before.clone(), inits_before.clone()));

    cluster.stop();
    for name in &NAMES[1..] {
        assert_eq!(cluster.listed_state(name), "stopped");
    }
    let status = cluster.xebec(&["status"]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("node-a-2 (stopped), node-a-3 (stopped)"), "{status}");
    assert!(
        status.lines().any(|it| it.starts_with("containers") && it.ends_with(" 3")),
        "{status}"
    );
    cluster.up();
    three::until_all_ready(&cluster);
    let _logs = Logs(&cluster);
    assert_eq!((ids(&cluster), inits(&cluster)), (before, inits_before));
    cluster.until_pods_meet();
}

#[test]
fn purge_leaves_nothing() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    let before = cluster.host.traces(&cluster.data());
    cluster.up_with(&FLAGS);
    let sleeper = |node: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: on-{node}, labels: {{app: each}}}}, \
             spec: {{nodeName: {node}, containers: [{{name: main, image: xebec.local/toolbox, args: [sleep, '86397'], \
             volumeMounts: [{{name: scratch, mountPath: /scratch}}]}}], volumes: [{{name: scratch, emptyDir: {{medium: Memory}}}}]}}}}"
        )
    };
    for node in NAMES {
        cluster.apply(&format!("{node}.yaml"), &sleeper(node));
    }
    cluster.wait_ready("app=each", NAMES.len());
    // Agents that nobody stopped: who could was killed.
    cluster.kill();
    let said = cluster.xebec_ok(&["down"]);
    assert!(said.contains("stopped the node node-a-2"), "{said}");
    assert_eq!(processes(&["sleep", "86397"]).len(), 3, "containers go on");
    cluster.xebec_ok(&["down", "--purge"]);
    assert_eq!(processes(&["sleep", "86397"]).len(), 0);
    let after = cluster.host.traces(&cluster.data());
    let left: Vec<_> = after.difference(&before).collect();
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}\nlost: {lost:#?}");
    assert!(!cluster.data().exists());
}
