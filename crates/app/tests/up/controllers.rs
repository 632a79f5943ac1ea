//! Which controllers run, and what their flags change.

use std::process::Command;

use crate::cluster::Cluster;

#[test]
fn a_controller_that_is_switched_off_does_nothing_and_the_others_go_on() {
    let flags = ["--controllers=*,-deployment", "--controllers=-endpoints-controller"];
    let Some(cluster) = Cluster::start_with(tempfile::tempdir().unwrap(), 1, &flags) else {
        return;
    };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    cluster.ok(&["create", "service", "clusterip", "web", "--tcp=80"]);
    let replica_set = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"alone"},"spec":{"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"xebec.local/toolbox"}]}}}}"#;
    cluster.ok(&["create", "-f", &cluster.file("alone.json", replica_set)]);
    let slices = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o"];
    let addresses = "jsonpath={.items[*].endpoints[*].addresses[*]}";
    cluster.until(&[&slices[..], &[addresses]].concat(), |it| it.contains('.'));
    assert_eq!(cluster.ok(&["get", "replicasets", "-o", "name"]), "replicaset.apps/alone\n");
    let endpoints = cluster.refused(&["get", "endpoints", "web"]);
    assert!(endpoints.contains("NotFound"), "{endpoints}");
}

#[test]
fn what_no_controller_is_called_or_takes_is_refused_before_anything_starts() {
    let check = |command: &str, flag: &str, expected: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_xebec")).args([command, flag]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let unknown = r#""cronjobs" is not in the list of known controllers"#;
    check("up", "--controllers=*,-cronjobs", unknown);
    check("controller-manager", "--controllers=cronjobs", unknown);
    check("up", "--controllers=*,replicset", r#"the nearest is "replicaset""#);
    check("up", "--concurrent-deployment-syncs=0", "--concurrent-deployment-syncs");
    for flag in [
        "--kube-api-qps=fast",
        "--kube-api-burst=0",
        "--kube-api-content-type=text/plain",
        "--controller-start-interval=soon",
        "--controller-shutdown-timeout=-1s",
        "--min-resync-period=12",
        "--cluster-name=",
    ] {
        check("controller-manager", flag, flag.split('=').next().unwrap());
    }
}
