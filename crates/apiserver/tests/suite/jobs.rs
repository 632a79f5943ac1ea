//! Jobs on the wire: what the server makes of one, and who may write what of it.

use serde_json::{Value, json};

use crate::harness::wire::Connection;
use crate::subresources::{connect, create};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}],
        }}},
    })
}

async fn warnings(connection: &mut Connection, method: &str, path: &str, body: &Value) -> usize {
    let (head, _) = connection.send(method, path, &[], body).await;
    assert!(head.status.is_success(), "{method} {path}: {}", head.status);
    head.headers.get_all("warning").iter().count()
}

#[tokio::test]
async fn a_job_selects_by_its_own_uid() {
    let (_site, mut connection) = connect().await;
    let created = create(&mut connection, JOBS, &job("pi")).await;
    let uid = &created["metadata"]["uid"];
    let labels = &created["spec"]["template"]["metadata"]["labels"];
    let selector = &created["spec"]["selector"]["matchLabels"];
    assert!(uid.as_str().is_some_and(|it| !it.is_empty()), "{created}");
    assert_eq!(selector, &json!({"batch.kubernetes.io/controller-uid": uid}));
    assert_eq!(labels["controller-uid"], *uid);
    assert_eq!(labels["batch.kubernetes.io/job-name"], "pi");
    // One more of the same name would be another.
    let (code, refused) = connection.call("POST", JOBS, &created).await;
    assert_eq!(code, 400, "{refused}");
}

#[tokio::test]
async fn what_a_status_says_is_found_by_and_stays() {
    let (_site, mut connection) = connect().await;
    for name in ["done", "open"] {
        create(&mut connection, JOBS, &job(name)).await;
    }
    let path = format!("{JOBS}/done/status");
    let (_, mut done) = connection.call("GET", &path, &Value::Null).await;
    done["status"] = json!({"succeeded": 1});
    done["spec"]["parallelism"] = json!(7);
    let (code, mut written) = connection.call("PUT", &path, &done).await;
    assert_eq!((code, &written["spec"]["parallelism"]), (200, &json!(1)), "{written}");
    let list = format!("{JOBS}?fieldSelector=status.successful=1");
    let (_, found) = connection.call("GET", &list, &Value::Null).await;
    let names: Vec<&Value> =
        found["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["done"]);
    written["status"] = json!({});
    let (code, refused) = connection.call("PUT", &path, &written).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("cannot decrease the succeeded counter"), "{message}");
}

#[tokio::test]
async fn whoever_makes_a_job_with_a_name_that_is_none_of_a_host_is_warned() {
    let (_site, mut connection) = connect().await;
    // Of the dot in its name.
    assert_eq!(warnings(&mut connection, "POST", JOBS, &job("p.i")).await, 1);
    let path = format!("{JOBS}/p.i");
    let (_, read) = connection.call("GET", &path, &Value::Null).await;
    assert_eq!(warnings(&mut connection, "PUT", &path, &read).await, 0);
    assert_eq!(warnings(&mut connection, "PUT", &format!("{path}/status"), &read).await, 0);
}

#[tokio::test]
async fn pods_of_a_job_outlive_it_unless_somebody_says_otherwise() {
    let (_site, mut connection) = connect().await;
    for (name, query, finalizers) in [
        ("a", "", json!(["orphan"])),
        ("b", "?propagationPolicy=Foreground", json!(["foregroundDeletion"])),
    ] {
        create(&mut connection, JOBS, &job(name)).await;
        let path = format!("{JOBS}/{name}");
        let (code, _) = connection.call("DELETE", &format!("{path}{query}"), &Value::Null).await;
        assert_eq!(code, 200);
        let (_, left) = connection.call("GET", &path, &Value::Null).await;
        assert_eq!(left["metadata"]["finalizers"], finalizers, "{left}");
    }
    create(&mut connection, JOBS, &job("c")).await;
    let path = format!("{JOBS}/c?propagationPolicy=Background");
    assert_eq!(connection.call("DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(connection.call("GET", &format!("{JOBS}/c"), &Value::Null).await.0, 404);
}
