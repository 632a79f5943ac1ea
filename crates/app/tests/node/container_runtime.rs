//! The same kubelet on Debian's containerd, behind `--container-runtime-endpoint`.

use std::ffi::OsString;

use crate::cluster::Cluster;
use crate::daemon::{self, Daemon, IMAGE};

#[test]
fn pods_run_on_containerd() {
    if let Some(why) = daemon::missing() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let Some(mut cluster) = Cluster::prepare() else { return };
    let inside: Vec<OsString> = cluster.host.words_inside();
    let daemon = Daemon::start(&inside);
    let endpoint = format!("unix://{}", daemon.socket().display());
    cluster.up_with(&["--container-runtime-endpoint", &endpoint]);
    let version = ".status.nodeInfo.containerRuntimeVersion";
    let shown = cluster.field(&["node", "node-a"], version);
    assert!(shown.starts_with("containerd://1."), "{shown}");
    let script = "echo hello from $HOSTNAME; exec sleep 1000";
    cluster.apply(
        "boxed.yaml",
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: boxed, labels: {{app: boxed}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: {IMAGE}
    command: [sh, -c, "{script}"]
    env: [{{name: GREETING, value: hi}}]
    readinessProbe: {{exec: {{command: ["true"]}}, periodSeconds: 1}}
"#
        ),
    );
    cluster.wait_ready("app=boxed", 1);
    let id = cluster.field(&["pod", "boxed"], ".status.containerStatuses[0].containerID");
    assert!(id.starts_with("containerd://"), "{id}");
    assert!(cluster.field(&["pod", "boxed"], ".status.podIP").starts_with("10.91.0."));
    assert_eq!(cluster.ok(&["logs", "boxed"]), "hello from boxed\n");
    assert_eq!(cluster.exec("boxed", &["sh", "-c", "echo $GREETING"]), "hi\n");
    // Another start finds the pod, and `kill -9` in between stops nothing.
    cluster.kill();
    cluster.up();
    cluster.wait_ready("app=boxed", 1);
    let again = cluster.field(&["pod", "boxed"], ".status.containerStatuses[0].containerID");
    assert_eq!(again, id, "it is the same container");
    cluster.stop();
    cluster.xebec_ok(&["down", "--purge"]);
    assert_eq!(daemon.ctr(&["-n", "k8s.io", "containers", "list", "-q"]), "");
    daemon.leave();
}
