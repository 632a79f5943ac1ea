//! `/metrics` of the API server.

use super::cluster::Cluster;
use super::page::Page;

#[test]
fn requests_are_counted_by_upstream_s_labels() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "configmap", "one", "--from-literal=a=b"]);
    cluster.ok(&["create", "configmap", "dry", "--dry-run=server"]);
    cluster.ok(&["get", "configmap", "one"]);
    assert!(!cluster.run(&["get", "configmap", "none"]).is_ok);
    cluster.ok(&["get", "configmaps", "-A"]);
    let manifest = cluster.file(
        "map.yaml",
        "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: default}}",
    );
    cluster.ok(&["apply", "--server-side", "-f", &manifest]);
    cluster.ok(&["delete", "configmap", "one", "two"]);
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    cluster.ok(&["rollout", "status", "deployment/web"]);

    let page = Page::parse(&cluster.ok(&["get", "--raw", "/metrics"]));
    let maps = |verb: &'static str, scope: &'static str, code: &'static str| {
        let labels = [
            ("verb", verb),
            ("scope", scope),
            ("code", code),
            ("resource", "configmaps"),
            ("group", ""),
            ("version", "v1"),
            ("subresource", ""),
            ("component", "apiserver"),
            ("dry_run", ""),
        ];
        page.value("apiserver_request_total", &labels)
    };
    // kubectl looks whether what it deleted is gone.
    assert!(maps("GET", "resource", "404") >= 1.0);
    assert!(maps("GET", "resource", "200") >= 1.0);
    assert!(maps("LIST", "cluster", "200") >= 1.0);
    assert!(maps("POST", "resource", "201") >= 1.0);
    assert_eq!(maps("APPLY", "resource", "201"), 1.0);
    assert_eq!(maps("DELETE", "resource", "200"), 2.0);
    let dry = [("verb", "POST"), ("dry_run", "All"), ("resource", "configmaps"), ("code", "201")];
    assert_eq!(page.value("apiserver_request_total", &dry), 1.0);
    let listed = [("verb", "LIST"), ("scope", "cluster"), ("resource", "configmaps")];
    assert!(page.value("apiserver_response_sizes_count", &listed) >= 1.0);
    assert!(page.value("apiserver_request_duration_seconds_count", &listed) >= 1.0);
    let watched = [("verb", "WATCH"), ("resource", "pods"), ("scope", "cluster")];
    assert!(page.value("apiserver_longrunning_requests", &watched) >= 1.0);
    assert!(page.value("apiserver_watch_events_total", &[("resource", "pods")]) >= 1.0);
    assert_eq!(page.value("apiserver_storage_objects", &[("resource", "deployments.apps")]), 1.0);
    let created = [("operation", "create"), ("group", "apps"), ("resource", "deployments")];
    assert_eq!(page.value("etcd_request_duration_seconds_count", &created), 1.0);
    let reading = [("request_kind", "readOnly")];
    assert!(page.value("apiserver_current_inflight_requests", &reading) >= 1.0);
    check_what_shares_the_page(&page);
}

/// The controllers and the scheduler have no server of their own in one process.
fn check_what_shares_the_page(page: &Page) {
    let queue = [("name", "deployment-controller")];
    assert!(page.value("workqueue_adds_total", &queue) >= 1.0);
    assert_eq!(page.value("workqueue_depth", &queue), 0.0);
    assert!(page.value("workqueue_work_duration_seconds_count", &queue) >= 1.0);
    let scheduled = [("result", "scheduled"), ("profile", "default-scheduler")];
    assert_eq!(page.value("scheduler_schedule_attempts_total", &scheduled), 1.0);
    assert_eq!(page.value("scheduler_pending_pods", &[("queue", "active")]), 0.0);
    let incoming = [("queue", "active"), ("event", "UnschedulablePodAdd")];
    assert_eq!(page.value("scheduler_queue_incoming_pods_total", &incoming), 1.0);
    assert!(page.value("process_resident_memory_bytes", &[]) > 1e6);
    assert!(page.value("process_start_time_seconds", &[]) > 1.7e9);
    let build = page.find("kubernetes_build_info", &[("major", "1"), ("minor", "36")]);
    assert!(build.is_some_and(|it| it.labels["git_version"].starts_with("v1.36.0+xebec")));
    let gate = [("name", "APIResponseCompression"), ("stage", "BETA")];
    assert_eq!(page.value("kubernetes_feature_enabled", &gate), 1.0);
}

#[test]
fn metrics_are_for_those_who_may_read_them() {
    let Some(cluster) = Cluster::start(0) else { return };
    let refused = cluster.refused(&["get", "--raw", "/metrics", "--as", "jane"]);
    assert!(refused.contains("forbidden: User \"jane\" cannot get path \"/metrics\""), "{refused}");
    let monitor = ["get", "--raw", "/metrics", "--as", "m", "--as-group", "system:monitoring"];
    Page::parse(&cluster.ok(&monitor));
    let head = cluster.curl("/metrics", &["-I"]).to_ascii_lowercase();
    let kind = "content-type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    assert!(head.contains(kind), "{head}");
    let zipped = cluster.curl("/metrics", &["--compressed"]);
    assert!(Page::parse(&zipped).has("apiserver_storage_size_bytes"));
}

#[test]
fn clients_cannot_make_up_labels() {
    let Some(cluster) = Cluster::start(0) else { return };
    for path in ["/apis/made.up/v1/cats", "/api/v1/namespaces/default/pods/web/made-up", "/made-up"]
    {
        assert!(!cluster.run(&["get", "--raw", path]).is_ok);
    }
    let page = cluster.ok(&["get", "--raw", "/metrics"]);
    Page::parse(&page);
    assert!(!page.contains("made"), "{page}");
}
