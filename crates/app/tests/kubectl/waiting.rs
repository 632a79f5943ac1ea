//! What is not done yet, and what it waits for, as `kubectl get` and `kubectl describe` show it.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data }\n\
    spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n";
/// On its node from the first: nobody binds the claim, and the scheduler waits for that.
const USER: &str = "apiVersion: v1\nkind: Pod\nmetadata: { name: web }\nspec:\n\
    \x20 nodeName: sim-0\n\
    \x20 containers: [{ name: main, image: xebec.local/toolbox }]\n\
    \x20 volumes: [{ name: data, persistentVolumeClaim: { claimName: data } }]\n";

#[test]
fn a_claim_that_a_pod_uses_stays_until_the_pod_is_gone() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.until(&["get", "nodes", "-o", "name"], |it| it.contains("sim-0"));
    cluster.ok(&["create", "-f", &cluster.file("claim.yaml", CLAIM)]);
    let made = cluster.json(&["get", "pvc", "data"]);
    assert_eq!(made["metadata"]["finalizers"][0], "kubernetes.io/pvc-protection");
    let user = cluster.file("pod.yaml", USER);
    cluster.until(&["create", "-f", &user], |it| it.contains("created"));
    cluster.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=30s"]);
    cluster.ok(&["delete", "pvc", "data", "--wait=false"]);
    let row = cluster.ok(&["get", "pvc", "data"]);
    assert!(row.contains("Terminating"), "{row}");
    let why = "it is deleted when nothing uses it any more; pods: web";
    let described = cluster.until(&["describe", "pvc", "data"], |it| it.contains(why));
    assert!(described.contains("Used By:       web"), "{described}");
    assert!(described.contains("Terminating (lasts"), "{described}");
    cluster.ok(&["delete", "pod", "web"]);
    cluster.ok(&["wait", "--for=delete", "pvc/data", "--timeout=30s"]);
}

fn template(app: &str, script: &str, restart: &str) -> Value {
    let told = json!({"simulator.xebec.local/containers": script});
    let annotations = if script.is_empty() { Value::Null } else { told };
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "xebec.local/toolbox"}],
        },
    })
}

/// Of pods that run and are never ready: nobody opens their gate.
fn unready(app: &str) -> Value {
    let mut template = template(app, "", "Always");
    template["spec"]["readinessGates"] = json!([{"conditionType": "example.com/open"}]);
    template
}

fn create(cluster: &Cluster, api_version: &str, kind: &str, name: &str, rest: &Value) {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (field, value) in rest.as_object().unwrap() {
        match (object[field].as_object_mut(), value.as_object()) {
            (Some(fields), Some(more)) => fields.extend(more.clone()),
            _ => object[field] = value.clone(),
        }
    }
    let path = cluster.file(&format!("{kind}-{name}.json"), &object.to_string());
    cluster.until(&["create", "-f", &path], |it| it.contains("created"));
}

/// Until `kubectl describe` has all of this.
fn describes(cluster: &Cluster, what: &[&str], expected: &[&str]) -> String {
    let words = [&["describe"], what].concat();
    cluster.until(&words, |it| expected.iter().all(|part| it.contains(part)))
}

fn make_set(cluster: &Cluster, name: &str, policy: &str, more: &Value) {
    let mut spec = json!({
        "replicas": 2, "serviceName": name, "podManagementPolicy": policy,
        "selector": {"matchLabels": {"app": name}}, "template": unready(name),
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    create(cluster, "apps/v1", "StatefulSet", name, &json!({ "spec": spec }));
}

#[test]
fn sets_say_which_pod_and_which_claim_they_wait_for() {
    let Some(cluster) = Cluster::start(2) else { return };
    make_set(&cluster, "web", "OrderedReady", &json!({}));
    // Somebody keeps the claim of the first pod, which is on its way.
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}, "spec": spec});
    create(&cluster, "v1", "PersistentVolumeClaim", "data-db-0", &held);
    cluster.ok(&["delete", "pvc", "data-db-0", "--wait=false"]);
    let claim = json!({"metadata": {"name": "data"}, "spec": spec});
    make_set(&cluster, "db", "OrderedReady", &json!({ "volumeClaimTemplates": [claim] }));
    let labels = json!({"matchLabels": {"app": "agent"}});
    let agent = json!({"spec": {"selector": labels, "template": template("agent", "", "Always")}});
    create(&cluster, "apps/v1", "DaemonSet", "agent", &agent);
    cluster.until(&["get", "daemonset", "agent", "-o", "jsonpath={.status.numberReady}"], |it| {
        it == "2"
    });
    let update = json!({"spec": {"template": unready("agent")}}).to_string();
    cluster.ok(&["patch", "daemonset", "agent", "-p", &update]);

    describes(&cluster, &["statefulset", "db"], &["db-0", "pvc data-db-0 is being deleted"]);
    let ready = "waiting for pod web-0 to be Running and Ready";
    describes(&cluster, &["statefulset", "web"], &["PodNotReady", ready]);
    let body = r#"{"metadata":{"finalizers":null}}"#;
    cluster.ok(&["patch", "pvc", "data-db-0", "--type=merge", "-p", body]);
    let ready = "waiting for pod db-0 to be Running and Ready";
    describes(&cluster, &["statefulset", "db"], &["PodNotReady", ready]);
    let available = ["PodsNotAvailable", "the update waits for agent-", "to be available"];
    describes(&cluster, &["daemonset", "agent"], &available);
}

#[test]
fn jobs_and_cron_jobs_say_when_they_go_on() {
    let Some(cluster) = Cluster::start(1) else { return };
    let job = json!({"spec": {"backoffLimit": 9, "template": template("work", "exit=3", "Never")}});
    create(&cluster, "batch/v1", "Job", "work", &job);
    let run = json!({"spec": {"template": template("run", "", "Never")}});
    for (name, is_suspended) in [("yearly", false), ("stopped", true)] {
        let spec = json!({"schedule": "0 0 1 1 *", "suspend": is_suspended, "jobTemplate": run});
        create(&cluster, "batch/v1", "CronJob", name, &json!({ "spec": spec }));
    }
    let next = ["NextRun", "the next Job is started at 20", "-01-01T00:00:00Z"];
    describes(&cluster, &["cronjob", "yearly"], &next);
    let stopped = ["CronJobSuspended", "no Job is started while suspend is true"];
    describes(&cluster, &["cronjob", "stopped"], &stopped);
    let back_off = ["BackOff", "failures in a row: ", "the next pods are created at 20"];
    describes(&cluster, &["job", "work"], &back_off);
}

#[test]
fn a_budget_says_which_pods_it_counts_and_a_namespace_what_remains() {
    let Some(cluster) = Cluster::start(1) else { return };
    make_set(&cluster, "ill", "Parallel", &json!({ "replicas": 1 }));
    make_set(&cluster, "well", "Parallel", &json!({"template": template("well", "", "Always")}));
    let apps = json!([{"key": "app", "operator": "In", "values": ["ill", "well"]}]);
    let budget = json!({"spec": {"minAvailable": 3, "selector": {"matchExpressions": apps}}});
    create(&cluster, "policy/v1", "PodDisruptionBudget", "guard", &budget);
    cluster.ok(&["create", "namespace", "leaving"]);
    let held = json!({"metadata": {"namespace": "leaving", "finalizers": ["example.com/held"]}});
    create(&cluster, "v1", "ConfigMap", "kept", &held);
    cluster.ok(&["delete", "namespace", "leaving", "--wait=false"]);

    let remain = "configmaps. has 1 resource instances";
    let finalizers = "example.com/held in 1 resource instances";
    let described = describes(&cluster, &["namespace", "leaving"], &[remain, finalizers]);
    assert!(described.contains("Terminating"), "{described}");
    let counted = "not healthy: ill-0 (not ready); healthy: well-0, well-1";
    let refused = "of 3 pods 2 are healthy and 3 have to be: no pod may be evicted";
    let expected = ["DisruptionNotAllowed", refused, counted];
    describes(&cluster, &["poddisruptionbudget", "guard"], &expected);
    // Nothing holds the namespace any more.
    let body = r#"{"metadata":{"finalizers":null}}"#;
    cluster.ok(&["patch", "configmap", "kept", "-n", "leaving", "--type=merge", "-p", body]);
    cluster.ok(&["wait", "--for=delete", "namespace/leaving", "--timeout=30s"]);
}
