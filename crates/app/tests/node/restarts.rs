//! Containers that end, pods that go, probes that fail, and updates that nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::cluster::{Cluster, deployment, pod, processes};

#[test]
fn a_killed_process_is_started_again_and_counted() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("victim.yaml", &pod("victim", "[sleep, '86399']", ""));
    cluster.wait_ready("app=victim", 1);
    let pids = processes(&["sleep", "86399"]);
    assert_eq!(pids.len(), 1, "{pids:?}");
    let pid = rustix::process::Pid::from_raw(pids[0] as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    cluster.until(&["get", "pod", "victim", "-o", restarts], |it| it == "1");
    cluster.wait_ready("app=victim", 1);
    let last = cluster.json(&["get", "pod", "victim"]);
    let last = &last["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&137.into(), &"Error".into()), "{last}");
}

#[test]
fn a_deleted_pod_is_replaced_and_the_endpoints_follow() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &deployment("web", 2, ""));
    cluster.wait_ready("app=web", 2);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    let pods = cluster.ok(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}\n{end}",
    ]);
    let (name, address) = pods.lines().next().unwrap().split_once(' ').unwrap();
    let slices = &[
        "get",
        "endpointslices",
        "-l",
        "kubernetes.io/service-name=web",
        "-o",
        "jsonpath={.items[*].endpoints[*].addresses[0]}",
    ];
    cluster.until(slices, |it| it.split_whitespace().count() == 2);
    cluster.ok(&["delete", "pod", name]);
    cluster.until(slices, |it| {
        it.split_whitespace().count() == 2 && !it.split_whitespace().any(|it| it == address)
    });
    cluster.wait_ready("app=web", 2);
}

#[test]
fn a_failing_readiness_probe_takes_the_pod_out_of_the_service() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &deployment("web", 1, ""));
    cluster.wait_ready("app=web", 1);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    let ready = &[
        "get",
        "endpointslices",
        "-l",
        "kubernetes.io/service-name=web",
        "-o",
        "jsonpath={.items[*].endpoints[*].conditions.ready}",
    ];
    cluster.until(ready, |it| it == "true");
    cluster.ok(&["exec", "deploy/web", "--", "touch", "/tmp/unhealthy"]);
    cluster.until(ready, |it| it == "false");
    cluster.until(&["get", "events"], |it| {
        it.contains("Readiness probe failed: HTTP probe failed with statuscode: 503")
    });
    cluster.ok(&["exec", "deploy/web", "--", "rm", "/tmp/unhealthy"]);
    cluster.until(ready, |it| it == "true");
    cluster.wait_ready("app=web", 1);
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let Some(cluster) = Cluster::start() else { return };
    let probe = "    livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 2}";
    cluster.apply("web.yaml", &pod("web", "[http]", probe));
    cluster.wait_ready("app=web", 1);
    cluster.exec("web", &["touch", "/tmp/unhealthy"]);
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    cluster.until(&["get", "pod", "web", "-o", restarts], |it| it == "1");
    // The new container has a new root, without the file.
    cluster.wait_ready("app=web", 1);
    cluster.until(&["get", "events"], |it| {
        it.contains("Container main failed liveness probe, will be restarted")
    });
}

#[test]
fn exec_and_tcp_probes_gate_the_start() {
    let Some(cluster) = Cluster::start() else { return };
    let probes = "    startupProbe: {exec: {command: [cat, /tmp/started]}, periodSeconds: 1, failureThreshold: 60}\n    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}";
    cluster.apply("web.yaml", &pod("web", "[http]", probes));
    let started = "jsonpath={.status.containerStatuses[0].started}{.status.containerStatuses[0].state.running.startedAt}";
    cluster.until(&["get", "pod", "web", "-o", started], |it| it.starts_with("false2"));
    cluster.exec("web", &["touch", "/tmp/started"]);
    cluster.wait_ready("app=web", 1);
}

#[test]
fn no_request_fails_during_a_rolling_update() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &deployment("web", 3, ""));
    cluster.wait_ready("app=web", 3);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    let url = format!("http://{}/", cluster.field(&["service", "web"], ".spec.clusterIP"));
    cluster.wait_served("web", 3);
    let (answered, failed) =
        (Arc::new(AtomicU32::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let is_over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Bounded: a hang must not keep the test for ever.
                for _ in 0..20_000 {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let ran = cluster
                        .host
                        .command("curl")
                        .args(["-sS", "--fail", "--max-time", "10", &url])
                        .output()
                        .unwrap();
                    if ran.status.success() {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
                        failed.lock().unwrap().push(text);
                    }
                }
            });
        }
        for round in 0..2 {
            let patch = format!(
                r#"{{"spec":{{"template":{{"metadata":{{"annotations":{{"round":"{round}"}}}}}}}}}}"#
            );
            cluster.ok(&["patch", "deploy", "web", "-p", &patch]);
            let done = cluster.run(&["rollout", "status", "deploy/web", "--timeout=90s"]);
            if !done.is_ok {
                is_over.store(true, Ordering::Relaxed);
                panic!("{}{}\n{}", done.stdout, done.stderr, cluster.state());
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let failed = failed.lock().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {} failed: {failed:?}",
        failed.len(),
        answered.load(Ordering::Relaxed)
    );
    assert!(answered.load(Ordering::Relaxed) > 100);
}

#[test]
fn a_container_that_ends_backs_off_and_says_so() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("crash.yaml", &pod("crash", "['false']", ""));
    cluster.until(&["get", "pod", "crash"], |it| it.contains("CrashLoopBackOff"));
    cluster.until(&["get", "events"], |it| {
        it.contains("Back-off restarting failed container main in pod crash_default")
    });
    let once =
        pod("once", "['false']", "").replace("restartPolicy: Always", "restartPolicy: Never");
    cluster.apply("once.yaml", &once);
    cluster.until(&["get", "pod", "once", "-o", "jsonpath={.status.phase}"], |it| it == "Failed");
    let done =
        pod("done", "['true']", "").replace("restartPolicy: Always", "restartPolicy: OnFailure");
    cluster.apply("done.yaml", &done);
    cluster
        .until(&["get", "pod", "done", "-o", "jsonpath={.status.phase}"], |it| it == "Succeeded");
}
