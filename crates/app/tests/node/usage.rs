//! What pods use is measured: `kubectl top` shows it, and autoscalers act on it.

use crate::cluster::Cluster;

/// Takes all it may of a processor, which is a fifth of one.
const BUSY: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: xebec.local/toolbox
        args: [eat, cpu]
        resources: {requests: {cpu: 100m}, limits: {cpu: 200m, memory: 64Mi}}
";

fn start() -> Option<Cluster> {
    let mut cluster = Cluster::prepare()?;
    cluster.up_with(&["--horizontal-pod-autoscaler-sync-period=2s"]);
    Some(cluster)
}

/// `198m` of a line `NAME CPU(cores) ...`.
fn millis(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find(|it| it.starts_with(name))?;
    line.split_whitespace().nth(1)?.strip_suffix('m')?.parse().ok()
}

#[test]
fn top_shows_what_is_used_and_an_autoscaler_acts_on_it() {
    let Some(cluster) = start() else { return };
    cluster.apply("busy.yaml", BUSY);
    cluster.wait_ready("app=busy", 1);
    let top = cluster.until(&["top", "pods"], |it| {
        millis(it, "busy-").is_some_and(|it| (100..=260).contains(&it))
    });
    assert!(top.contains("CPU(cores)") && top.contains("MEMORY(bytes)"), "{top}");
    let nodes = cluster.ok(&["top", "nodes"]);
    assert!(nodes.lines().count() == 2 && nodes.contains('%'), "{nodes}");
    assert!(cluster.ok(&["top", "pods", "--containers"]).contains("main"));
    let listed = cluster.ok(&["get", "pods.metrics.k8s.io", "-l", "app=busy"]);
    assert!(listed.contains("CPU") && listed.contains("WINDOW"), "{listed}");
    assert!(cluster.ok(&["api-resources", "--api-group=metrics.k8s.io"]).contains("PodMetrics"));
    assert!(
        cluster
            .ok(&["explain", "pods.containers", "--api-version=metrics.k8s.io/v1beta1"])
            .contains("usage")
    );
    let refused = cluster.refused(&["delete", "pods.metrics.k8s.io", "--all"]);
    assert!(refused.contains("MethodNotAllowed") || refused.contains("not allow"), "{refused}");

    cluster.ok(&["autoscale", "deployment", "busy", "--cpu-percent=50", "--min=1", "--max=3"]);
    cluster
        .until(&["get", "deployment", "busy", "-o", "jsonpath={.spec.replicas}"], |it| it == "3");
    let described = cluster.ok(&["describe", "hpa", "busy"]);
    for expected in
        ["SuccessfulRescale", "above target", "ValidMetricFound", "resource cpu on pods"]
    {
        assert!(described.contains(expected), "{expected} in\n{described}");
    }
    let node = cluster.field(&["nodes"], ".items[0].metadata.name");
    let page =
        cluster.ok(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/metrics/resource")]);
    for expected in [
        "node_cpu_usage_seconds_total ",
        "container_memory_working_set_bytes{container=\"main\",namespace=\"default\",pod=\"busy-",
        "resource_scrape_error 0",
    ] {
        assert!(page.contains(expected), "{expected} in\n{page}");
    }
    let summary =
        cluster.ok(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/stats/summary")]);
    for expected in ["usageNanoCores", "workingSetBytes", "availableBytes", "\"rxBytes\""] {
        assert!(summary.contains(expected), "{expected} in\n{summary}");
    }
}
