//! What is not there yet says so where it is asked for.

use crate::cluster::Cluster;

#[test]
fn logs_and_commands_of_simulated_pods_say_that_the_node_is_simulated() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["run", "one", "--image=xebec.local/toolbox"]);
    cluster.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=30s"]);
    // A label is easily removed; it is not what decides.
    cluster.ok(&["label", "node", "sim-0", "xebec.local/simulated-"]);
    let expected = "node \"sim-0\" is simulated: its pods have no containers";
    let source = cluster.file("a", "a");
    for arguments in [
        &["logs", "one"][..],
        &["logs", "-f", "one"],
        &["exec", "one", "--", "date"],
        &["attach", "one"],
        &["cp", &source, "one:/a"],
    ] {
        let refused = cluster.refused(arguments);
        assert!(refused.contains(expected), "{arguments:?}: {refused}");
    }
    let path = "/api/v1/namespaces/default/pods/one/portforward?ports=80";
    let upgrade =
        ["--http1.1", "-X", "POST", "-H", "Connection: Upgrade", "-H", "Upgrade: SPDY/3.1"];
    let refused = cluster.curl(path, &upgrade);
    assert!(refused.contains(r#"is simulated"#), "{refused}");
    let node = cluster.refused(&[
        "patch",
        "node",
        "sim-0",
        "-p",
        r#"{"spec":{"providerID":"elsewhere://sim-0"}}"#,
    ]);
    assert!(node.contains("node updates may not change providerID"), "{node}");
}

#[test]
fn a_pod_with_a_claim_is_warned_of_and_says_why_it_waits() {
    let Some(cluster) = Cluster::start(1) else { return };
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one"},"spec":{
        "containers":[{"name":"main","image":"xebec.local/toolbox"}],
        "volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}}]}}"#;
    let created = cluster.run(&["create", "-f", &cluster.file("pod.json", pod)]);
    let warning = "Warning: spec.volumes[0].persistentVolumeClaim: volumes of this type are not \
                   supported yet; the pod will not start";
    assert!(created.is_ok && created.stderr.contains(warning), "{}", created.stderr);
    let expected = "0/1 nodes are available: 1 node(s) could not be judged: persistent volume \
                    claims are not supported yet.";
    let path = r#"jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}"#;
    let message = cluster.until(&["get", "pod", "one", "-o", path], |it| !it.is_empty());
    assert!(message.starts_with(expected), "{message}");
    let described = cluster.until(&["describe", "pod", "one"], |it| it.contains("FailedSched"));
    assert!(described.contains(expected), "{described}");
    // A claim is kept, and nobody binds it.
    let claim = cluster.file(
        "claim.yaml",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data }\n\
         spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n",
    );
    cluster.ok(&["create", "-f", &claim]);
    let row = cluster.ok(&["get", "persistentvolumeclaim", "data"]);
    assert!(row.contains("Pending"), "{row}");
}

#[test]
fn a_load_balancer_without_nodes_says_why() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "service", "loadbalancer", "web", "--tcp=80"]);
    assert!(cluster.ok(&["get", "service", "web"]).contains("<pending>"));
    let described = cluster.until(&["describe", "service", "web"], |it| {
        it.contains("there are no available nodes for LoadBalancer")
    });
    assert!(described.contains("SyncLoadBalancerFailed"), "{described}");
}
