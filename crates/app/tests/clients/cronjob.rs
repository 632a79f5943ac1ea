//! The operator of `examples/operators/cronjob`, from outside and with the rights of its manifest: its
//! definition, rules, webhooks and conversion, and Jobs that it starts.

use std::path::Path;
use std::time::Duration;

use client::kubeconfig::{Credential, Entry, merge};
use cronjob_operator::{NAME, manifests, serve, start, tls};
use lifecycle::Tasks;
use operator_connection::{Place, connect};
use serde_json::{Value, json};
use stdx::World;
use tokio::net::TcpListener;

use crate::cluster::Cluster;

const DEPLOYMENT: &str =
    include_str!("../../../../examples/operators/cronjob/manifests/deployment.yaml");
const GROUP: &str = "batch.tutorial.xebec.dev";
const DEFINITION: &str = "cronjobs.batch.tutorial.xebec.dev";
/// Without a version it would be the newest that is shown.
const KIND: &str = "cronjobs.v1.batch.tutorial.xebec.dev";

/// Its account and role, and a kubeconfig of that account.
fn kubeconfig(cluster: &Cluster) -> String {
    // Those of the documents that need no image.
    let wanted = |it: &&str| !it.contains("kind: Deployment") && !it.contains("kind: Service\n");
    let documents: Vec<&str> = DEPLOYMENT.split("\n---\n").filter(wanted).collect();
    assert_eq!(documents.len(), 4, "namespace, account, role and binding");
    let path = cluster.file("rights.yaml", &documents.join("\n---\n"));
    cluster.ok(&["apply", "-f", &path]);
    let token = cluster.ok(&["create", "token", "-n", "cronjob-system", "cronjob-operator"]);
    let entry = Entry {
        name: "operator".to_owned(),
        server: cluster.server(),
        ca_pem: std::fs::read(cluster.path("data/pki/ca.crt")).unwrap(),
        credential: Credential::Token(token.trim().to_owned()),
    };
    cluster.file("cronjobs.kubeconfig", &merge("", &entry).unwrap())
}

/// The operator in this process: webhooks on a port of its own, and the reconciler.
struct Operator {
    tasks: Tasks,
    url: String,
    authority: Vec<u8>,
}

async fn run(cluster: &Cluster) -> Operator {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let authority = certified.cert.pem().into_bytes();
    let certificate = cluster.file("tls.crt", &certified.cert.pem());
    let key = cluster.file("tls.key", &certified.signing_key.serialize_pem());
    let (tasks, world) = (Tasks::new(), World::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    serve(listener, tls(Path::new(&certificate), Path::new(&key)).unwrap(), &tasks);
    let path = kubeconfig(cluster);
    let client = connect(Place::Kubeconfig(path.as_ref(), None), NAME, &world, &tasks).unwrap();
    start(&client, &world, &tasks);
    Operator { tasks, url, authority }
}

/// The definition with both versions, and the webhooks.
fn install(cluster: &Cluster, operator: &Operator) {
    let place = cronjob_operator::Place::Url(operator.url.clone());
    let list = manifests(&place, &operator.authority).unwrap();
    let path = cluster.file("manifests.json", &list.to_string());
    cluster.ok(&["apply", "-f", &path]);
    cluster.until_established(DEFINITION);
}

fn cron_job(name: &str, spec: &Value) -> String {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "CronJob", "metadata": { "name": name },
        "spec": { "schedule": "@every 1s", "jobTemplate": {
            "metadata": { "labels": { "made": "by-tick" } },
            "spec": { "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": "xebec.local/toolbox" }],
            } } },
        } },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_are_checked_written_out_and_started() {
    let Some(cluster) = Cluster::start(1) else { return };
    let operator = run(&cluster).await;
    install(&cluster, &operator);
    let file = |name: &str, spec: Value| cluster.file("cronjob.json", &cron_job(name, &spec));
    refusals(&cluster, &file);

    // Written out by the webhook that changes, filled in by the definition.
    let daily = file("daily", json!({ "schedule": "@daily", "timeZone": "Europe/Rome" }));
    cluster.ok(&["create", "-f", &daily]);
    let spec = cluster.json(&["get", KIND, "daily"])["spec"].clone();
    assert_eq!(spec["schedule"], "0 0 * * *");
    assert_eq!(spec["concurrencyPolicy"], "Allow");
    assert_eq!(spec["successfulJobsHistoryLimit"], 3);
    let next = ["get", KIND, "daily", "-o", "jsonpath={.status.nextScheduleTime}"];
    // Midnight in Rome is an hour or two before midnight in Greenwich.
    cluster.until(&next, |it| it.contains("T22:00:00Z") || it.contains("T23:00:00Z"));
    let moved = r#"{"spec":{"timeZone":"Asia/Tokyo"}}"#;
    let refused = cluster.refused(&["patch", KIND, "daily", "--type=merge", "-p", moved]);
    let text = "the time zone can change only while suspended; it is Europe/Rome";
    assert!(
        refused.contains("spec.timeZone: Invalid value: ") && refused.contains(text),
        "{refused}"
    );
    let suspended = r#"{"spec":{"suspend":true}}"#;
    cluster.ok(&["patch", KIND, "daily", "--type=merge", "-p", suspended]);
    cluster.ok(&["patch", KIND, "daily", "--type=merge", "-p", moved]);
    cluster.until(&next, str::is_empty);

    runs(&cluster, &file);
    operator.tasks.shutdown(Duration::from_secs(10)).await.unwrap();
}

fn refusals(cluster: &Cluster, file: &dyn Fn(&str, Value) -> String) {
    let refused = |name: &str, spec: Value, text: &str| {
        let said = cluster.refused(&["create", "-f", &file(name, spec)]);
        assert!(said.contains(text), "{text}\n{said}");
    };
    let hook =
        "admission webhook \"validate.cronjobs.batch.tutorial.xebec.dev\" denied the request: ";
    refused("often", json!({ "schedule": "often" }), &format!("{hook}spec.schedule: "));
    refused(
        &"a".repeat(53),
        json!({ "timeZone": "Europe/Atlantis" }),
        &format!("{hook}metadata.name: must have 52 characters at the most; spec.timeZone: "),
    );
    refused(
        "hasty",
        json!({ "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 5 }),
        "spec.startingDeadlineSeconds: Forbidden: with Forbid a run may have to wait for the one before",
    );
    refused(
        "odd",
        json!({ "concurrencyPolicy": "Sometimes" }),
        "supported values: \"Allow\", \"Forbid\", \"Replace\"",
    );
}

/// Every second one, replaced by the next: in the end one goes on.
fn runs(cluster: &Cluster, file: &dyn Fn(&str, Value) -> String) {
    cluster.ok(&["create", "-f", &file("tick", json!({ "concurrencyPolicy": "Replace" }))]);
    let last = ["get", KIND, "tick", "-o", "jsonpath={.status.lastScheduleTime}"];
    let first = cluster.until(&last, |it| it.starts_with("20"));
    cluster.until(&last, |it| it.starts_with("20") && it != first);
    let paused = r#"{"spec":{"suspend":true}}"#;
    cluster.ok(&["patch", KIND, "tick", "--type=merge", "-p", paused]);
    let jobs = ["get", "jobs", "-l", "made=by-tick", "-o", "name"];
    cluster.until(&jobs, |it| it.lines().count() == 1);
    let job = cluster.ok(&jobs);
    let owner =
        "jsonpath={.metadata.ownerReferences[0].apiVersion} {.metadata.ownerReferences[0].name}";
    assert_eq!(cluster.ok(&["get", job.trim(), "-o", owner]), format!("{GROUP}/v1 tick"));
    let reasons = [
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=tick",
        "-o",
        "jsonpath={.items[*].reason}",
    ];
    cluster.until(&reasons, |it| it.contains("JobStarted"));
    // With their CronJob they go.
    cluster.ok(&["delete", KIND, "tick"]);
    cluster.until(&jobs, str::is_empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn either_version_is_written_and_read() {
    let Some(cluster) = Cluster::start(0) else { return };
    let operator = run(&cluster).await;
    install(&cluster, &operator);
    let weekly = json!({ "schedule": "5 4 * * 0", "suspend": true });
    cluster.ok(&["create", "-f", &cluster.file("cronjob.json", &cron_job("weekly", &weekly))]);
    let second = format!("cronjobs.v2.{GROUP}");
    let schedule = cluster.json(&["get", &second, "weekly"])["spec"]["schedule"].clone();
    assert_eq!((&schedule["minute"], &schedule["dayOfWeek"]), (&json!("5"), &json!("0")));
    let later = r#"{"spec":{"schedule":{"minute":"7"}}}"#;
    cluster.ok(&["patch", &second, "weekly", "--type=merge", "-p", later]);
    assert_eq!(cluster.json(&["get", KIND, "weekly"])["spec"]["schedule"], "7 4 * * 0");
    operator.tasks.shutdown(Duration::from_secs(10)).await.unwrap();
}
