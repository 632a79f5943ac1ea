//! dryRun=All on every verb: the whole answer, and nothing of it kept.

use serde_json::{Value, json};

use super::subresources::{connect, create};
use crate::harness::wire::Connection;

async fn revision(connection: &mut Connection) -> Value {
    let (_, list) = connection.call("GET", "/api/v1/nodes", &Value::Null).await;
    list["metadata"]["resourceVersion"].clone()
}

#[tokio::test]
async fn nothing_is_stored() {
    let (_site, mut connection) = connect().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "a"}, "data": {"key": "value"}});
    let stored = create(&mut connection, maps, &object).await;
    let mut changed = stored.clone();
    changed["data"]["key"] = json!("other");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    create(&mut connection, maps, &held).await;
    let new = json!({"metadata": {"name": "new"}});
    let generated = json!({"metadata": {"generateName": "new-"}});
    let one = format!("{maps}/a");
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    create(&mut connection, pods, &pod).await;
    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}});
    let before = revision(&mut connection).await;
    for (method, path, body, expected) in [
        ("POST", maps, new.clone(), 201),
        ("POST", maps, generated, 201),
        ("POST", maps, object, 409),
        ("PUT", &one, changed, 200),
        ("PATCH", &one, json!({"data": {"key": "other"}}), 200),
        ("DELETE", &one, Value::Null, 200),
        ("DELETE", &format!("{maps}/held"), Value::Null, 200),
        ("DELETE", maps, Value::Null, 200),
        ("DELETE", &format!("{pods}/web"), Value::Null, 200),
        ("POST", &format!("{pods}/web/binding"), binding, 201),
        ("DELETE", "/api/v1/namespaces/default", Value::Null, 403),
    ] {
        let (code, answer) = connection.call(method, &format!("{path}?dryRun=All"), &body).await;
        assert_eq!(code, expected, "{method} {path}: {answer}");
        assert_eq!(revision(&mut connection).await, before, "{method} {path}");
        if method == "POST" && code == 201 && path == maps {
            assert_eq!(answer["metadata"]["resourceVersion"], Value::Null, "{answer}");
            assert!(
                answer["metadata"]["uid"].is_string() && answer["metadata"]["name"].is_string()
            );
        }
    }
    // Options in the body count as well.
    let options = json!({"dryRun": ["All"]});
    assert_eq!(connection.call("DELETE", &one, &options).await.0, 200);
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{maps}/applied?fieldManager=test&dryRun=All");
    let (head, _) = connection.send("PATCH", &path, &headers, &applied).await;
    assert_eq!(head.status, 201);
    assert_eq!(revision(&mut connection).await, before);
    assert_eq!(connection.call("POST", &format!("{maps}?dryRun=None"), &new).await.0, 422);
}

#[tokio::test]
async fn addresses_and_ports_are_not_taken() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/services";
    let service = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": "10.96.7.7", "ports": [{"port": 80, "nodePort": 30077}]},
        })
    };
    let dry = format!("{path}?dryRun=All");
    for name in ["a", "b"] {
        let (code, answer) = connection.call("POST", &dry, &service(name)).await;
        assert_eq!((code, &answer["spec"]["clusterIP"]), (201, &json!("10.96.7.7")), "{answer}");
    }
    let created = create(&mut connection, path, &service("a")).await;
    assert_eq!(created["spec"]["ports"][0]["nodePort"], 30077);
    assert_eq!(connection.call("POST", &dry, &service("b")).await.0, 422);
    // A dry deletion and a dry change of type give nothing back.
    assert_eq!(
        connection.call("DELETE", &format!("{path}/a?dryRun=All"), &Value::Null).await.0,
        200
    );
    let change = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    let (code, answer) = connection.call("PATCH", &format!("{path}/a?dryRun=All"), &change).await;
    assert_eq!((code, &answer["spec"]["type"]), (200, &json!("ClusterIP")), "{answer}");
    assert_eq!(connection.call("POST", path, &service("b")).await.0, 422);
}
