//! What a container may not: more memory, more processor, more rights than it was given.

use crate::cluster::{Cluster, pod};

#[test]
fn a_container_over_its_memory_is_killed_and_the_reason_is_shown() {
    let Some(cluster) = Cluster::start() else { return };
    let limits = "    resources: {limits: {memory: 64Mi}}";
    let manifest = pod("hungry", "[eat, memory]", limits)
        .replace("restartPolicy: Always", "restartPolicy: Never");
    cluster.apply("hungry.yaml", &manifest);
    let state = "jsonpath={.status.containerStatuses[0].state.terminated.reason} {.status.containerStatuses[0].state.terminated.exitCode}";
    cluster.until(&["get", "pod", "hungry", "-o", state], |it| it == "OOMKilled 137");
}

#[test]
fn a_container_is_held_to_its_processor_share() {
    let Some(cluster) = Cluster::start() else { return };
    let limits = "    resources: {limits: {cpu: 100m, memory: 64Mi}}";
    cluster.apply("busy.yaml", &pod("busy", "[eat, cpu]", limits));
    cluster.wait_ready("app=busy", 1);
    let id = cluster.field(&["pod", "busy"], ".status.containerStatuses[0].containerID");
    let id = id.strip_prefix("xebec://").unwrap_or_else(|| panic!("{id}")).to_owned();
    let uid = cluster.field(&["pod", "busy"], ".metadata.uid");
    assert_eq!(cluster.field(&["pod", "busy"], ".status.qosClass"), "Guaranteed");
    let below = format!("{}/kubepods/pod{uid}/{id}", cluster.host.cgroup);
    let stat = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"]
        .iter()
        .map(|it| std::path::Path::new(it).join(&below).join("cpu.stat"))
        .find(|it| it.exists())
        .unwrap_or_else(|| panic!("no cgroup {below}"));
    let throttled = || {
        let text = std::fs::read_to_string(&stat).unwrap();
        let line = text.lines().find_map(|it| it.strip_prefix("nr_throttled "));
        line.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
    };
    for _ in 0..200 {
        if throttled() >= 5 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("never throttled: {}", std::fs::read_to_string(&stat).unwrap());
}

#[test]
fn a_process_cannot_do_what_it_was_not_given() {
    let Some(cluster) = Cluster::start() else { return };
    let security = "    securityContext:\n      runAsUser: 1000\n      runAsGroup: 3000\n      readOnlyRootFilesystem: true\n      allowPrivilegeEscalation: false\n      capabilities: {drop: [ALL]}\n      seccompProfile: {type: RuntimeDefault}";
    cluster.apply("low.yaml", &pod("low", "[sleep]", security));
    cluster.wait_ready("app=low", 1);
    let status = cluster.exec("low", &["cat", "/proc/self/status"]);
    let value = |key: &str| {
        let line = status.lines().find(|it| it.starts_with(key));
        line.unwrap_or("").split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(value("Uid:"), "1000 1000 1000 1000");
    assert_eq!(value("Gid:"), "3000 3000 3000 3000");
    assert_eq!(value("CapEff:"), "0000000000000000");
    assert_eq!(value("CapBnd:"), "0000000000000000");
    assert_eq!(value("NoNewPrivs:"), "1");
    assert_eq!(value("Seccomp:"), "2");
    let denied = cluster.refused(&["exec", "low", "--", "touch", "/file"]);
    assert!(denied.contains("Read-only file system"), "{denied}");
    let denied = cluster.refused(&["exec", "low", "--", "try", "unshare"]);
    assert!(denied.contains("Operation not permitted"), "{denied}");
    // Root inside, with the usual set: still no mounts, no raising of what was dropped.
    let dropped = "    securityContext: {capabilities: {drop: [CHOWN]}, seccompProfile: {type: RuntimeDefault}}";
    cluster.apply("root.yaml", &pod("root", "[sleep]", dropped));
    cluster.wait_ready("app=root", 1);
    for attempt in ["chown", "mount", "unshare"] {
        let denied = cluster.refused(&["exec", "root", "--", "try", attempt]);
        assert!(denied.contains("Operation not permitted"), "{attempt}: {denied}");
    }
    let masked = cluster.exec("root", &["cat", "/proc/timer_list"]);
    assert_eq!(masked, "");
}

#[test]
fn run_as_non_root_is_enforced() {
    let Some(cluster) = Cluster::start() else { return };
    let security = "    securityContext: {runAsNonRoot: true}";
    cluster.apply("root.yaml", &pod("root", "[sleep]", security));
    cluster.until(&["get", "pod", "root"], |it| it.contains("CreateContainerConfigError"));
    cluster.until(&["get", "events"], |it| {
        it.contains("container has runAsNonRoot and image will run as root")
    });
}
