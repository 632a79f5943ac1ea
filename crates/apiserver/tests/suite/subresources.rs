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
        ("/apis/apps/v1/namespaces/default/replicasets", labels.clone()),
        ("/apis/apps/v1/namespaces/default/statefulsets", labels),
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
    // The controller counts revisions there. On the object itself an annotation is a new generation.
    let change = json!({"metadata": {"annotations": {"example.com/a": "1"}}});
    for (part, generation) in [("/status", 2), ("", 2), ("/status", 2)] {
        let uri = format!("{path}/web{part}");
        let (_, written) = connection.call("PATCH", &uri, &change).await;
        let metadata = &written["metadata"];
        assert_eq!(metadata["annotations"]["example.com/a"], "1", "{part}");
        assert_eq!(metadata["generation"], generation, "{part}");
    }
    let change = json!({"metadata": {"annotations": {"example.com/a": "2"}}});
    let (_, written) = connection.call("PATCH", &format!("{path}/web"), &change).await;
    assert_eq!(written["metadata"]["generation"], 3);
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
    let mut before = eviction(None);
    before["apiVersion"] = json!("policy/v1beta1");
    assert_eq!(connection.call("POST", &dry, &before).await.0, 201);
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

#[tokio::test]
async fn custom_resources_have_a_scale_and_a_status_where_their_definition_says() {
    let (_site, mut connection) = connect().await;
    let number = json!({"type": "integer"});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": number}},
                    "status": {"type": "object", "properties": {
                        "size": number, "selector": {"type": "string"},
                    }},
                }}},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&mut connection, path, &definition).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let mut tries = 0;
    while connection.call("GET", path, &Value::Null).await.0 == 404 && tries < 100 {
        tries += 1;
    }
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": 1}, "status": {"size": 9},
    });
    let created = create(&mut connection, path, &widget).await;
    assert_eq!((&created["status"], &created["metadata"]["generation"]), (&Value::Null, &json!(1)));
    let status = json!({"spec": {"size": 8}, "status": {"size": 2, "selector": "app=w"}});
    let (code, written) = connection.call("PATCH", &format!("{path}/w/status"), &status).await;
    assert_eq!(
        (code, &written["spec"]["size"], &written["status"]["size"]),
        (200, &json!(1), &json!(2))
    );
    let scale = format!("{path}/w/scale");
    let (code, mut read) = connection.call("GET", &scale, &Value::Null).await;
    assert_eq!(
        (code, &read["kind"], &read["apiVersion"]),
        (200, &json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(read["status"], json!({"replicas": 2, "selector": "app=w"}));
    read["spec"]["replicas"] = json!(3);
    let (code, written) = connection.call("PUT", &scale, &read).await;
    assert_eq!((code, &written["spec"]["replicas"]), (200, &json!(3)), "{written}");
    let (code, _) = connection.call("PATCH", &scale, &json!({"spec": {"replicas": 4}})).await;
    let (_, object) = connection.call("GET", &format!("{path}/w"), &Value::Null).await;
    assert_eq!(
        (code, &object["spec"]["size"], &object["metadata"]["generation"]),
        (200, &json!(4), &json!(3))
    );
}

#[tokio::test]
async fn a_binding_places_a_pod_once_and_by_the_rules_of_its_gates() {
    let (_site, mut connection) = connect().await;
    let pods = "/api/v1/namespaces/default/pods";
    let gates = json!([{"name": "example.com/wait"}]);
    for (name, gates) in [("gated", gates), ("free", json!([]))] {
        let mut spec = template()["spec"].clone();
        spec["schedulingGates"] = gates;
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        create(&mut connection, pods, &pod).await;
    }
    let labels = json!({"topology.kubernetes.io/zone": "a"});
    let binding =
        |name: &str| json!({"metadata": {"name": name, "labels": labels}, "target": {"name": "n"}});
    let path = format!("{pods}/gated/binding");
    let (code, refused) = connection.call("POST", &path, &binding("gated")).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(code == 409 && message.contains("has non-empty .spec.schedulingGates"), "{refused}");

    let bindings = "/api/v1/namespaces/default/bindings";
    assert_eq!(connection.call("POST", bindings, &binding("free")).await.0, 201);
    let (_, pod) = connection.call("GET", &format!("{pods}/free"), &Value::Null).await;
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
    let path = format!("{pods}/free/binding");
    assert_eq!(connection.call("POST", &path, &binding("free")).await.0, 409);
}

#[tokio::test]
async fn what_a_service_cannot_have_is_said_by_validation_and_takes_nothing() {
    let (_site, mut connection) = connect().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, node_port: i64| {
        json!({
            "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": node_port}]},
        })
    };
    let (code, refused) = connection.call("POST", services, &service("a", -1)).await;
    assert_eq!(code, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap_or_default().contains("nodePort"), "{refused}");
    // A name that is refused after a port was taken for it gives the port back.
    let (code, refused) = connection.call("POST", services, &service("Not_A_Name", 30_123)).await;
    assert_eq!(code, 422, "{refused}");
    create(&mut connection, services, &service("b", 30_123)).await;
}

#[tokio::test]
async fn the_priority_classes_of_the_system_stay() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let (_, of_system) =
        connection.call("GET", &format!("{path}/system-node-critical"), &Value::Null).await;
    assert_eq!(of_system["value"], 2_000_001_000);
    create(&mut connection, path, &json!({"metadata": {"name": "mine"}, "value": 7})).await;
    let (code, refused) =
        connection.call("DELETE", &format!("{path}/system-node-critical"), &Value::Null).await;
    let why = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: \
               this is a system priority class and cannot be deleted";
    assert_eq!((code, &refused["message"]), (403, &json!(why)));
    assert_eq!(connection.call("DELETE", &format!("{path}/mine"), &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_pod_is_resized_by_every_way_to_write_its_resize() {
    let (_site, mut connection) = connect().await;
    let sized = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Mi"}});
    let mut pod = json!({"metadata": {"name": "web"}, "spec": template()["spec"]});
    pod["spec"]["containers"][0]["resources"] = sized("1m");
    let pods = "/api/v1/namespaces/default/pods";
    create(&mut connection, pods, &pod).await;
    let (one, resize) = (format!("{pods}/web"), format!("{pods}/web/resize"));
    let (code, mut read) = connection.call("GET", &resize, &Value::Null).await;
    assert_eq!(
        (code, &read["kind"], &read["metadata"]["generation"]),
        (200, &json!("Pod"), &json!(1))
    );

    read["spec"]["containers"][0]["resources"] = sized("2m");
    read["spec"]["containers"][0]["image"] = json!("other");
    read["metadata"]["labels"] = json!({"a": "b"});
    let (code, put) = connection.call("PUT", &resize, &read).await;
    assert_eq!((code, &put["metadata"]["generation"]), (200, &json!(2)), "{put}");
    assert_eq!(
        (&put["spec"]["containers"][0]["image"], &put["metadata"]["labels"]),
        (&json!("web"), &Value::Null)
    );

    let of = |cpu: &str| json!([{"name": "web", "resources": sized(cpu)}]);
    let at = "/spec/containers/0/resources/requests/cpu";
    let json_patch = json!([{"op": "replace", "path": at, "value": "4m"}]);
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "mine", "resources": sized("6m")}]},
    });
    let merged = json!({"spec": {"containers": [{"name": "web", "image": "web", "resources": sized("5m")}]}});
    let apply = format!("{resize}?fieldManager=me&force=true");
    for (path, kind, body, expected) in [
        (&resize, "strategic-merge-patch+json", json!({"spec": {"containers": of("3m")}}), "3m"),
        (&resize, "json-patch+json", json_patch, "4m"),
        (&resize, "merge-patch+json", merged, "5m"),
        (&apply, "apply-patch+yaml", applied, "6m"),
    ] {
        let kind = format!("application/{kind}");
        let (head, body) =
            connection.send("PATCH", path, &[("content-type", kind.as_str())], &body).await;
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        let found = (head.status.as_u16(), answer.pointer(at));
        assert_eq!(found, (200, Some(&json!(expected))), "{kind}: {answer}");
    }
    let (_, read) = connection.call("GET", &one, &Value::Null).await;
    assert_eq!(read["spec"]["containers"][0]["image"], "web");
    let managers = read["metadata"]["managedFields"].as_array().expect("managers");
    let mine = managers.iter().find(|it| it["manager"] == "me").expect("who applied");
    let container = &mine["fieldsV1"]["f:spec"]["f:containers"]["k:{\"name\":\"web\"}"];
    assert_eq!((&mine["subresource"], &container["f:image"]), (&json!("resize"), &Value::Null));
    assert!(container["f:resources"].is_object(), "{mine}");

    let change = json!({"spec": {"containers": of("7m")}});
    let (head, _) = connection
        .send("PATCH", &one, &[("content-type", "application/strategic-merge-patch+json")], &change)
        .await;
    assert_eq!(head.status.as_u16(), 422, "and by no other");
    let more = json!({"spec": {"nodeName": "nowhere"}});
    assert_eq!(
        connection.call("PATCH", &resize, &more).await.0,
        200,
        "what is no part of it is left out"
    );
}
