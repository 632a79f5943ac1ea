//! A pod that fits nowhere says why.

use crate::cluster::Cluster;

#[test]
fn a_pod_that_fits_nowhere_says_why_in_its_condition_and_event() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.ok(&["cordon", "sim-0"]);
    cluster.ok(&["taint", "node", "sim-1", "team=red:NoSchedule"]);
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge"},"spec":{"containers":[{"name":"main",
        "image":"xebec.local/toolbox","resources":{"requests":{"cpu":"1000"}}}]}}"#;
    cluster.ok(&["create", "-f", &cluster.file("huge.json", pod)]);
    let expected = "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {team: red}, 1 node(s) were unschedulable.";
    let path = r#"jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}"#;
    let message = cluster.until(&["get", "pod", "huge", "-o", path], |it| !it.is_empty());
    assert!(message.starts_with(expected), "{message}");
    let events = cluster
        .until(&["get", "events", "--field-selector", "reason=FailedScheduling"], |it| {
            it.contains("huge")
        });
    assert!(events.contains(expected), "{events}");
    let described = cluster.ok(&["describe", "pod", "huge"]);
    assert!(
        described.contains("FailedScheduling") && described.contains("default-scheduler"),
        "{described}"
    );

    cluster.ok(&["delete", "pod", "huge"]);
    cluster.ok(&["run", "small", "--image=xebec.local/toolbox"]);
    cluster.ok(&["wait", "--for=condition=Ready", "pod/small", "--timeout=30s"]);
    assert_eq!(cluster.ok(&["get", "pod", "small", "-o", "jsonpath={.spec.nodeName}"]), "sim-2");
}
