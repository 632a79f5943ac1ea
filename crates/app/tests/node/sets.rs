//! StatefulSets and DaemonSets with real pods: names that resolve, an update in order, and a daemon
//! that comes back.

use crate::cluster::Cluster;

fn manifest(kind: &str, name: &str, version: &str, rest: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
{rest}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: xebec.local/toolbox
        env: [{{name: VERSION, value: {version}}}]
        readinessProbe: {{httpGet: {{port: 8080, path: /healthz}}, periodSeconds: 1}}
"#
    )
}

const HEADLESS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}
"#;

#[test]
fn a_stateful_set_has_names_that_last_and_is_updated_in_order() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("service.yaml", HEADLESS);
    let rest = "  serviceName: web\n  replicas: 2";
    cluster.apply("web.yaml", &manifest("StatefulSet", "web", "one", rest));
    cluster.ok(&["rollout", "status", "sts/web", "--timeout=120s"]);
    assert_eq!(cluster.field(&["pods", "-l", "app=web"], ".items[*].metadata.name"), "web-0 web-1");
    let fetch = ["exec", "web-0", "--", "get", "http://web-1.web:8080/"];
    cluster.until(&fetch, |it| it.contains("web-1"));
    let before = cluster.field(&["pod", "web-0"], ".metadata.uid");
    cluster.ok(&["delete", "pod", "web-0"]);
    cluster.ok(&["wait", "--for=condition=ready", "pod/web-0", "--timeout=60s"]);
    assert_ne!(cluster.field(&["pod", "web-0"], ".metadata.uid"), before);

    cluster.apply("web.yaml", &manifest("StatefulSet", "web", "two", rest));
    cluster.ok(&["rollout", "status", "sts/web", "--timeout=120s"]);
    cluster.until(&fetch, |it| it.contains("web-1"));
    assert!(cluster.ok(&["exec", "web-0", "--", "env"]).contains("VERSION=two"));
    let times: Vec<String> = ["web-0", "web-1"]
        .map(|it| cluster.field(&["pod", it], ".metadata.creationTimestamp"))
        .into();
    assert!(times[1] <= times[0], "{times:?}");
    cluster.ok(&["scale", "sts/web", "--replicas=1"]);
    cluster.until(&["get", "pods", "-o", "name"], |it| it.trim() == "pod/web-0");
    cluster.ok(&["delete", "sts", "web"]);
    cluster.until(&["get", "pods"], |it| it.contains("No resources found"));
}

#[test]
fn a_daemon_runs_on_the_node_and_comes_back_when_it_fails() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("agent.yaml", &manifest("DaemonSet", "agent", "one", "  minReadySeconds: 1"));
    cluster.ok(&["rollout", "status", "ds/agent", "--timeout=60s"]);
    let pod = cluster.field(&["pods", "-l", "app=agent"], ".items[0].metadata.name");
    cluster.ok(&["delete", "pod", &pod]);
    cluster
        .until(&["get", "ds", "agent", "-o", "jsonpath={.status.numberAvailable}"], |it| it == "1");
    cluster.apply("agent.yaml", &manifest("DaemonSet", "agent", "two", "  minReadySeconds: 1"));
    cluster.ok(&["rollout", "status", "ds/agent", "--timeout=60s"]);
    cluster.ok(&["rollout", "undo", "ds/agent"]);
    cluster.ok(&["rollout", "status", "ds/agent", "--timeout=60s"]);
    let version = ".items[*].spec.containers[0].env[0].value";
    cluster.until(&["get", "pods", "-o", &format!("jsonpath={{{version}}}")], |it| it == "one");
    cluster.ok(&["delete", "ds", "agent"]);
    cluster.until(&["get", "pods"], |it| it.contains("No resources found"));
}
