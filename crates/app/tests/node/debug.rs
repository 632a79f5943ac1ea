//! `kubectl debug`: containers that come later, to look at one that runs.

use crate::cluster::{Cluster, pod, processes};

fn debug(cluster: &Cluster, words: &[&str]) -> String {
    let start = ["debug", "--image=xebec.local/toolbox", "--profile=general"];
    cluster.ok(&[&start, words].concat())
}

fn log(cluster: &Cluster, pod: &str, container: &str) -> String {
    cluster.until(&["logs", pod, "-c", container], |it| !it.is_empty() && !it.contains("Error"))
}

#[test]
fn a_debugger_sees_the_processes_of_its_target_and_of_nobody_else() {
    let Some(cluster) = Cluster::start() else { return };
    let other = "  - {name: other, image: xebec.local/toolbox, args: [sleep, '7007']}";
    cluster.apply("web.yaml", &pod("web", "[sleep, '7006']", other));
    cluster.wait_ready("app=web", 1);

    // The target's program is the first process that the debugger sees.
    debug(&cluster, &["web", "-c", "look", "--target=main", "--", "cat", "/proc/1/cmdline"]);
    let shown = log(&cluster, "web", "look").replace('\0', " ");
    assert!(shown.contains("sleep 7006"), "{shown}");

    debug(&cluster, &["web", "-c", "list", "--target=main", "--", "ls", "/proc"]);
    let shown = log(&cluster, "web", "list");
    let pids: Vec<u32> = shown.lines().filter_map(|it| it.parse().ok()).collect();
    assert_eq!((pids.len(), pids.first()), (2, Some(&1)), "the target and ls alone: {pids:?}");

    // And commands in a debugger that stays.
    debug(&cluster, &["web", "-c", "stay", "--target=main", "--", "sleep", "7008"]);
    let state = "jsonpath={.status.ephemeralContainerStatuses[?(@.name=='stay')].state.running}";
    cluster.until(&["get", "pod", "web", "-o", state], |it| it.contains("startedAt"));
    let inside = cluster.ok(&["exec", "web", "-c", "stay", "--", "cat", "/proc/1/cmdline"]);
    assert!(inside.replace('\0', " ").contains("sleep 7006"), "{inside:?}");
    let target = cluster.ok(&["exec", "web", "-c", "main", "--", "ls", "/proc"]);
    let pids = target.lines().filter(|it| it.parse::<u32>().is_ok()).count();
    assert_eq!(pids, 3, "the target, the debugger and ls: {target}");

    // Without a target it sees itself alone.
    debug(&cluster, &["web", "-c", "alone", "--", "ls", "/proc"]);
    let shown = log(&cluster, "web", "alone");
    assert_eq!(shown.lines().filter(|it| it.parse::<u32>().is_ok()).count(), 1, "{shown}");
    assert_eq!(processes(&["sleep", "7007"]).len(), 1);
}

#[test]
fn a_target_that_is_not_there_or_does_not_run_is_named() {
    let Some(cluster) = Cluster::start() else { return };
    let init = "  initContainers: [{name: first, image: xebec.local/toolbox, args: ['true']}]";
    cluster.apply("web.yaml", &pod("web", "[sleep]", init));
    cluster.wait_ready("app=web", 1);
    debug(&cluster, &["web", "-c", "late", "--target=first", "--", "ls", "/proc"]);
    let waiting = |name: &str| {
        format!(
            "jsonpath={{.status.ephemeralContainerStatuses[?(@.name=='{name}')].state.waiting}}"
        )
    };
    let state = cluster.until(&["get", "pod", "web", "-o", &waiting("late")], |it| {
        it.contains("CreateContainerError")
    });
    assert!(state.contains("is not running - in state CONTAINER_EXITED"), "{state}");
}
