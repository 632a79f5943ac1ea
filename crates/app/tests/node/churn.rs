//! Leaving is clean: after many pods, after `down`, after `down --purge`.

use std::process::Command;

use crate::cluster::{Cluster, deployment, pod, processes};

#[test]
fn fifty_pods_three_times_leave_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let manifest = deployment("many", 0, "").replace("replicas: 0", "replicas: 50");
    let mut traces = Vec::new();
    for _ in 0..3 {
        cluster.apply("many.yaml", &manifest);
        cluster.ok(&["rollout", "status", "deploy/many", "--timeout=180s"]);
        cluster.ok(&["delete", "deploy", "many", "--wait=true"]);
        cluster.until(&["get", "pods"], |it| it.contains("No resources found"));
        // The last container's network goes a moment after its pod's object.
        let mut now = cluster.host.traces(&cluster.data());
        for _ in 0..100 {
            if !now
                .iter()
                .any(|it| it.contains("veth") || it.contains("holder") || it.contains("mount: "))
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            now = cluster.host.traces(&cluster.data());
        }
        traces.push(now);
    }
    assert_eq!(traces[0], traces[1]);
    assert_eq!(traces[1], traces[2]);
    assert!(!traces[0].iter().any(|it| it.contains("veth")), "{:#?}", traces[0]);
    let sandboxes = std::fs::read_dir(cluster.data().join("containers/sandboxes"));
    assert_eq!(sandboxes.map_or(0, Iterator::count), 0);
}

#[test]
fn down_leaves_containers_running_and_purge_leaves_nothing() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    let before = cluster.host.traces(&cluster.data());
    cluster.up();
    let volumes = "    volumeMounts: [{name: scratch, mountPath: /scratch}]\n  volumes: [{name: scratch, emptyDir: {medium: Memory}}]";
    cluster.apply("sleeper.yaml", &pod("sleeper", "[sleep, '86398']", volumes));
    cluster.apply("web.yaml", &deployment("web", 2, ""));
    cluster.wait_ready("app=sleeper", 1);
    cluster.wait_ready("app=web", 2);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080", "--type=NodePort"]);
    cluster.stop();
    cluster.xebec_ok(&["down"]);
    assert_eq!(processes(&["sleep", "86398"]).len(), 1, "containers go on");
    cluster.xebec_ok(&["down", "--purge"]);
    assert_eq!(processes(&["sleep", "86398"]).len(), 0);
    let after = cluster.host.traces(&cluster.data());
    let left: Vec<_> = after.difference(&before).collect();
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}\nlost: {lost:#?}");
    assert!(!cluster.data().exists());
}

#[test]
fn without_root_the_error_says_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root to become somebody else");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    // The build directory may be out of another user's reach.
    let program = directory.path().join("xebec");
    std::fs::copy(env!("CARGO_BIN_EXE_xebec"), &program).unwrap();
    let mut command = Command::new(&program);
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    command.env("XEBEC_REGISTRY", directory.path().join("clusters"));
    let output =
        command.args(["up", "--data-dir"]).arg(directory.path().join("data")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("root: containers need it"), "{text}");
    assert!(text.contains("--node none"), "{text}");
    assert!(!directory.path().join("data").exists(), "nothing was made");
}
