//! Paths below an object: scale, status, eviction, finalize.

use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    })
}

pub(crate) async fn connect() -> (Site, Connection) {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let account = json!({"metadata": {"name": "default"}});
    let path = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(connection.call("POST", path, &account).await.0, 201);
    (site, connection)
}

pub(crate) async fn create(connection: &mut Connection, path: &str, object: &Value) -> Value {
    let (code, created) = connection.call("POST", path, object).await;
    assert_eq!(code, 201, "{path}: {created}");
    created
}

#[tokio::test]
async fn workloads_are_scaled_through_their_scale() {
    let (_site, mut connection) = connect().await;
    let labels = json!({"matchLabels": {"app": "web"}});
    for (path, selector) in [
        ("/apis/apps/v1/namespaces/default/deployments", labels.clone()),
        ("/apis/apps/v1/namespaces/default/replicasets", labels),
        ("/api/v1/namespaces/default/replicationcontrollers", json!({"app": "web"})),
    ] {
        let object = json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 1, "selector": selector, "template": template()},
        });
        create(&mut connection, path, &object).await;
        let scale = format!("{path}/web/scale");
        let (code, mut read) = connection.call("GET", &scale, &Value::Null).await;
        assert_eq!(
            (code, &read["kind"], &read["apiVersion"]),
            (200, &json!("Scale"), &json!("autoscaling/v1")),
            "{path}"
        );
        assert_eq!(
            (&read["spec"]["replicas"], &read["status"]["selector"]),
            (&json!(1), &json!("app=web")),
            "{path}"
        );
        let stale = read.clone();
        read["spec"]["replicas"] = json!(3);
        let (code, written) = connection.call("PUT", &scale, &read).await;
        assert_eq!((code, &written["spec"]["replicas"]), (200, &json!(3)), "{path}: {written}");
        assert_eq!(connection.call("PUT", &scale, &stale).await.0, 409, "{path}");
        let (code, written) =
            connection.call("PATCH", &scale, &json!({"spec": {"replicas": 4}})).await;
        assert_eq!((code, &written["spec"]["replicas"]), (200, &json!(4)), "{path}: {written}");
        let (code, refused) =
            connection.call("PATCH", &scale, &json!({"spec": {"replicas": -1}})).await;
        assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{path}");
        let (_, object) = connection.call("GET", &format!("{path}/web"), &Value::Null).await;
        assert_eq!(
            (&object["spec"]["replicas"], &object["metadata"]["generation"]),
            (&json!(4), &json!(3)),
            "{path}"
        );
        let managers: Vec<&Value> = object["metadata"]["managedFields"]
            .as_array()
            .expect("managers")
            .iter()
            .map(|it| &it["subresource"])
            .collect();
        assert!(managers.contains(&&json!("scale")), "{path}: {managers:?}");
    }
}

#[tokio::test]
async fn the_status_is_written_apart() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let spec =
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    let object = json!({"metadata": {"name": "web"}, "spec": spec, "status": {"replicas": 9}});
    let mut created = create(&mut connection, path, &object).await;
    assert_eq!(created["status"]["replicas"], Value::Null);
    created["status"] = json!({"replicas": 2, "observedGeneration": 1});
    created["spec"]["replicas"] = json!(7);
    let (code, written) = connection.call("PUT", &format!("{path}/web/status"), &created).await;
    assert_eq!(
        (
            code,
            &written["status"]["replicas"],
            &written["spec"]["replicas"],
            &written["metadata"]["generation"]
        ),
        (200, &json!(2), &json!(1), &json!(1))
    );
    let change = json!({"spec": {"replicas": 5}, "status": {"replicas": 8}});
    let (_, written) = connection.call("PATCH", &format!("{path}/web"), &change).await;
    assert_eq!(
        (
            &written["status"]["replicas"],
            &written["spec"]["replicas"],
            &written["metadata"]["generation"]
        ),
        (&json!(2), &json!(5), &json!(2))
    );
    let (_, written) = connection.call("PATCH", &format!("{path}/web/status"), &change).await;
    assert_eq!(
        (&written["status"]["replicas"], &written["spec"]["replicas"]),
        (&json!(8), &json!(5))
    );
    let (code, read) = connection.call("GET", &format!("{path}/web/status"), &Value::Null).await;
    assert_eq!((code, &read["kind"]), (200, &json!("Deployment")));
}

#[tokio::test]
async fn an_eviction_deletes_the_pod() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "web"}, "spec": template()["spec"]});
    create(&mut connection, path, &pod).await;
    let eviction = |uid: Option<&str>| {
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"},
            "deleteOptions": {"preconditions": {"uid": uid}},
        })
    };
    let evict = format!("{path}/web/eviction");
    assert_eq!(connection.call("POST", &evict, &eviction(Some("other"))).await.0, 409);
    let dry = format!("{evict}?dryRun=All");
    assert_eq!(connection.call("POST", &dry, &eviction(None)).await.0, 201);
    assert_eq!(connection.call("GET", &format!("{path}/web"), &Value::Null).await.0, 200);
    let (code, status) = connection.call("POST", &evict, &eviction(None)).await;
    assert_eq!((code, &status["status"]), (201, &json!("Success")));
    // It had no node, so that nobody has to stop it first.
    assert_eq!(connection.call("GET", &format!("{path}/web"), &Value::Null).await.0, 404);
    assert_eq!(connection.call("POST", &evict, &eviction(None)).await.0, 404);
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_finalized() {
    let (_site, mut connection) = connect().await;
    create(&mut connection, "/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await;
    let path = "/api/v1/namespaces/a";
    let (code, mut marked) = connection.call("DELETE", path, &Value::Null).await;
    assert_eq!((code, &marked["status"]["phase"]), (200, &json!("Terminating")), "{marked}");
    let late = json!({"metadata": {"name": "late"}});
    let (code, refused) = connection.call("POST", "/api/v1/namespaces/a/configmaps", &late).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    marked["spec"]["finalizers"] = json!([]);
    let (code, kept) = connection.call("PUT", path, &marked).await;
    assert_eq!((code, &kept["spec"]["finalizers"]), (200, &json!(["kubernetes"])), "{kept}");
    marked["metadata"]["resourceVersion"] = kept["metadata"]["resourceVersion"].clone();
    let (code, gone) = connection.call("PUT", &format!("{path}/finalize"), &marked).await;
    assert_eq!(code, 200, "{gone}");
    assert_eq!(connection.call("GET", path, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn deletion_in_the_old_way_says_whether_the_object_is_still_there() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/configmaps";
    for (name, finalizers, query, expected) in [
        ("a", json!([]), "?orphanDependents=false", 200),
        ("b", json!(["example.com/hold"]), "?orphanDependents=false", 202),
        ("c", json!(["example.com/hold"]), "", 200),
    ] {
        let object = json!({"metadata": {"name": name, "finalizers": finalizers}});
        create(&mut connection, path, &object).await;
        let (code, _) =
            connection.call("DELETE", &format!("{path}/{name}{query}"), &Value::Null).await;
        assert_eq!(code, expected, "{name}");
    }
}
