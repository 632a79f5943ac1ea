//! Kinds in several versions: an autoscaler in autoscaling/v1 and v2, events in two groups.

use crate::cluster::{Cluster, header, row};

const IN_V1: &str = r"
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: { name: web }
spec:
  maxReplicas: 5
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: web }
  targetCPUUtilizationPercentage: 70
";

const IN_V2: &str = r"
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: { name: web }
spec:
  maxReplicas: 5
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: web }
  metrics:
  - { type: Resource, resource: { name: memory, target: { type: Utilization, averageUtilization: 60 } } }
  - { type: Resource, resource: { name: cpu, target: { type: Utilization, averageUtilization: 80 } } }
";

#[test]
fn an_autoscaler_is_made_in_one_version_and_applied_in_the_other() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox:1"]);
    let autoscale = ["autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=70"];
    assert_eq!(cluster.ok(&autoscale), "horizontalpodautoscaler.autoscaling/web autoscaled\n");
    let table = cluster.ok(&["get", "hpa"]);
    assert_eq!(header(&table), "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE");
    assert!(
        row(&table, "web").starts_with("web Deployment/web cpu: <unknown>/70% 2 5 "),
        "{table}"
    );
    assert!(cluster.ok(&["get", "all"]).contains("horizontalpodautoscaler.autoscaling/web"));
    let old = cluster.json(&["get", "horizontalpodautoscalers.v1.autoscaling", "web"]);
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 70);
    let new = cluster.json(&["get", "horizontalpodautoscalers.v2.autoscaling", "web"]);
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
    assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"]);
    cluster.ok(&["delete", "horizontalpodautoscalers.v1.autoscaling", "web"]);

    let (in_v1, in_v2) = (cluster.file("v1.yaml", IN_V1), cluster.file("v2.yaml", IN_V2));
    let apply = |file: &str, manager: &str| {
        let manager = format!("--field-manager={manager}");
        cluster.run(&["apply", "--server-side", &manager, "-f", file])
    };
    assert!(apply(&in_v2, "two").is_ok);
    let refused = apply(&in_v1, "one");
    assert!(
        refused.stderr.contains("conflict with \"two\": .spec.metrics"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    cluster.ok(&[
        "apply",
        "--server-side",
        "--field-manager=one",
        "--force-conflicts",
        "-f",
        &in_v1,
    ]);
    let new = cluster.json(&["get", "hpa", "web"]);
    let share = |index: usize| {
        let resource = &new["spec"]["metrics"][index]["resource"];
        (resource["name"].clone(), resource["target"]["averageUtilization"].clone())
    };
    assert_eq!([share(0), share(1)], [("memory".into(), 60.into()), ("cpu".into(), 70.into())]);
    // Client-side apply and edits go by the version of the file.
    cluster.ok(&[
        "patch",
        "horizontalpodautoscalers.v1.autoscaling",
        "web",
        "-p",
        r#"{"spec":{"maxReplicas":9}}"#,
    ]);
    assert_eq!(cluster.json(&["get", "hpa", "web"])["spec"]["maxReplicas"], 9);
    assert!(cluster.ok(&["explain", "hpa.spec.metrics"]).contains("MetricSpec"));
    let explained = cluster.ok(&["explain", "hpa.spec", "--api-version=autoscaling/v1"]);
    assert!(explained.contains("targetCPUUtilizationPercentage"), "{explained}");
}

#[test]
fn events_are_the_same_in_both_groups() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox:1"]);
    let scaled = |it: &str| it.contains("ScalingReplicaSet");
    cluster.until(&["get", "events"], scaled);
    let table = cluster.ok(&["get", "events.v1.events.k8s.io"]);
    assert!(scaled(&table), "{table}");
    assert_eq!(header(&table), "LAST SEEN TYPE REASON OBJECT MESSAGE");
    let selected = cluster.ok(&[
        "get",
        "events.v1.events.k8s.io",
        "--field-selector=regarding.kind=Deployment,reason=ScalingReplicaSet",
    ]);
    assert!(scaled(&selected), "{selected}");
    let described = cluster.ok(&["events", "--for=deployment/web"]);
    assert!(scaled(&described), "{described}");
    let new = cluster.json(&["get", "events.v1.events.k8s.io"]);
    let notes: Vec<&str> =
        new["items"].as_array().unwrap().iter().filter_map(|it| it["note"].as_str()).collect();
    assert!(notes.iter().any(|it| it.starts_with("Scaled up replica set")), "{notes:?}");
}

/// There is no form in which both understand each other: it is said in plain JSON, whatever the
/// version of what was asked for.
#[test]
fn a_client_that_cannot_negotiate_gets_an_unversioned_status() {
    let Some(cluster) = Cluster::start(0) else { return };
    for path in [
        "/api/v1/namespaces/default",
        "/apis/apps/v1/deployments",
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
    ] {
        let write = "\n%{http_code} %{content_type}";
        let answer = cluster.curl(path, &["-H", "Accept: text/html", "-w", write]);
        let (body, rest) = answer.rsplit_once('\n').unwrap();
        assert_eq!(rest, "406 application/json", "{path}");
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&status["kind"], &status["apiVersion"]), (&"Status".into(), &"v1".into()));
        assert_eq!((&status["reason"], &status["code"]), (&"NotAcceptable".into(), &406.into()));
    }
}
