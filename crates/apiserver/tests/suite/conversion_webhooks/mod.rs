//! Conversion webhooks, asked over TLS: about what, how often, and what becomes of what they say or
//! do not say. Ropes have a size in v1, which is stored, and a length in v2.

mod changing;
mod failures;
mod selecting;
mod watching;

use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};
use crate::webhooks::server::{Webhook, rule};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ropes.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/default/ropes";
const V2: &str = "/apis/example.com/v2/namespaces/default/ropes";

struct Setting {
    site: Site,
    webhook: Webhook,
    connection: Connection,
}

impl Setting {
    async fn start() -> Self {
        let site = Site::start().await;
        let webhook = Webhook::start(&site.harness.tasks).await;
        let connection = site.connect(ADMIN).await;
        let mut setting = Self { site, webhook, connection };
        let client = setting.webhook.client_config("convert");
        let (code, answer) =
            setting.connection.call("POST", DEFINITIONS, &definition(&client)).await;
        assert_eq!(code, 201, "{answer}");
        setting.until_served().await;
        setting
    }

    async fn until_served(&mut self) {
        for _ in 0..10_000 {
            if self.connection.call("GET", V2, &Value::Null).await.0 == 200 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!("the definition is not served");
    }

    /// The answer, whatever it is.
    async fn call(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.connection.call(method, path, body).await
    }

    async fn done(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.call(method, path, body).await;
        assert!(matches!(code, 200 | 201), "{method} {path}: {code} {answer}");
        answer
    }

    async fn get(&mut self, path: &str) -> Value {
        self.done("GET", path, &Value::Null).await
    }

    /// From now on somebody else is asked.
    async fn ask_at(&mut self, path: &str) {
        let client = self.webhook.client_config(path);
        let client = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
        self.done("PATCH", DEFINITION, &client).await;
    }

    /// What was asked since the last time: the wanted version and the names of the objects.
    fn asked(&self) -> Vec<(String, Vec<String>)> {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let questions = self.webhook.take_all().into_iter();
        questions
            .map(|(_, request)| {
                let objects = request["objects"].as_array().expect("objects");
                let names = objects.iter().map(|it| text(&it["metadata"]["name"])).collect();
                (text(&request["desiredAPIVersion"]), names)
            })
            .collect()
    }
}

fn definition(client: &Value) -> Value {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    field: {"type": "integer"}, "color": {"type": "string"},
                }},
                "status": {"type": "object", "properties": {"tension": {"type": "integer"}}},
            }}},
            "selectableFields": [
                {"jsonPath": ".spec.color"}, {"jsonPath": format!(".spec.{field}")},
            ],
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": format!(".spec.{field}"), "statusReplicasPath": ".status.tension",
            }},
        })
    };
    json!({
        "metadata": {"name": "ropes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ropes", "kind": "Rope"},
            "versions": [version("v1", "size"), version("v2", "length")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client, "conversionReviewVersions": ["v3", "v1", "v1beta1"],
            }},
        },
    })
}

fn rope(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Rope",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

#[tokio::test]
async fn what_is_stored_in_one_version_is_read_and_written_in_the_other() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    assert!(on.asked().is_empty(), "the stored version needs nobody");
    let read = on.get(&format!("{V2}/a")).await;
    assert_eq!(
        (&read["apiVersion"], &read["spec"]),
        (&json!("example.com/v2"), &json!({"length": 1}))
    );
    let stored = on.get(&format!("{V1}/a")).await;
    assert_eq!(read["metadata"], stored["metadata"]);
    assert_eq!(on.asked(), [("example.com/v2".to_owned(), vec!["a".to_owned()])]);

    on.done("POST", V2, &rope("v2", "b", json!({"length": 2}))).await;
    assert_eq!(on.get(&format!("{V1}/b")).await["spec"], json!({"size": 2}));
    let mut changed = on.get(&format!("{V2}/b")).await;
    changed["spec"]["length"] = json!(3);
    changed["status"] = json!({"tension": 9});
    assert_eq!(on.done("PUT", &format!("{V2}/b"), &changed).await["spec"], json!({"length": 3}));
    let tension = json!({"status": {"tension": 4}, "spec": {"length": 77}});
    on.done("PATCH", &format!("{V2}/b/status"), &tension).await;
    let stored = on.get(&format!("{V1}/b")).await;
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({"size": 3}), &json!({"tension": 4})));

    let scale = on.get(&format!("{V2}/b/scale")).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(3), &json!(4)));
    on.done("PATCH", &format!("{V2}/b/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(on.get(&format!("{V1}/b")).await["spec"], json!({"size": 5}));
    on.done("DELETE", &format!("{V2}/b"), &Value::Null).await;
    assert_eq!(on.call("GET", &format!("{V1}/b"), &Value::Null).await.0, 404);
    on.done("DELETE", V2, &Value::Null).await;
    assert_eq!(on.get(V1).await["items"], json!([]));
}

#[tokio::test]
async fn ownership_is_held_against_each_version() {
    let mut on = Setting::start().await;
    let apply = |manager: &str| format!("?fieldManager={manager}&force=false");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = rope("v2", "a", json!({"length": 1}));
    let path = format!("{V2}/a{}", apply("two"));
    let (head, answer) = on.connection.send("PATCH", &path, &headers, &body).await;
    assert_eq!(head.status, 201, "{answer:?}");
    let body = rope("v1", "a", json!({"size": 2}));
    let path = format!("{V1}/a{}", apply("one"));
    let (head, answer) = on.connection.send("PATCH", &path, &headers, &body).await;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let conflict = "Apply failed with 1 conflict: conflict with \"two\": .spec.length";
    assert_eq!((head.status.as_u16(), answer["message"].as_str()), (409, Some(conflict)));
}

#[tokio::test]
async fn a_list_is_one_question_and_what_was_just_answered_none() {
    let mut on = Setting::start().await;
    for index in 0..50 {
        on.done("POST", V1, &rope("v1", &format!("r{index:02}"), json!({"size": index}))).await;
    }
    let list = on.get(V2).await;
    let items = list["items"].as_array().expect("items");
    assert_eq!((items.len(), &items[7]["spec"]), (50, &json!({"length": 7})));
    let asked = on.asked();
    assert_eq!((asked.len(), asked[0].1.len()), (1, 50));
    // Others who read the same a moment later.
    on.get(V2).await;
    on.get(&format!("{V2}/r03")).await;
    assert!(on.asked().is_empty());
    on.done("PATCH", &format!("{V1}/r03"), &json!({"spec": {"size": 100}})).await;
    assert_eq!(on.get(V2).await["items"][3]["spec"], json!({"length": 100}));
    assert_eq!(on.asked(), [("example.com/v2".to_owned(), vec!["r03".to_owned()])]);
    // The page of a list, too, and metadata alone.
    let page = on.get(&format!("{V2}?limit=2")).await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn each_object_is_converted_from_the_version_that_it_is_stored_in() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "old", json!({"size": 1}))).await;
    let storage = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let headers = [("content-type", "application/json-patch+json")];
    let (head, answer) = on.connection.send("PATCH", DEFINITION, &headers, &storage).await;
    assert_eq!(head.status, 200, "{answer:?}");
    let stored = on.get(DEFINITION).await;
    assert_eq!(stored["status"]["storedVersions"], json!(["v1", "v2"]));
    on.done("POST", V1, &rope("v1", "new", json!({"size": 2}))).await;
    on.asked();
    let specs = |list: &Value| -> Vec<Value> {
        list["items"].as_array().expect("items").iter().map(|it| it["spec"].clone()).collect()
    };
    let list = on.get(V2).await;
    assert_eq!(specs(&list), [json!({"length": 2}), json!({"length": 1})]);
    assert_eq!(on.asked(), [("example.com/v2".to_owned(), vec!["old".to_owned()])]);
    let list = on.get(V1).await;
    assert_eq!(specs(&list), [json!({"size": 2}), json!({"size": 1})]);
    assert!(on.asked().is_empty(), "the answer to its creation is at hand");
    // A write that changes nothing stores it anew, as it is stored now.
    let unchanged = on.get(&format!("{V2}/old")).await;
    on.done("PUT", &format!("{V2}/old"), &unchanged).await;
    on.asked();
    on.get(&format!("{V2}/old")).await;
    assert!(on.asked().is_empty(), "it is stored in the new version");
}

#[tokio::test]
async fn admission_webhooks_see_the_version_that_they_ask_for() {
    let mut on = Setting::start().await;
    let mut hook = on.webhook.hook("allow");
    hook["rules"] = json!([rule(&["CREATE"], "example.com", "v2", "ropes")]);
    let body = json!({"metadata": {"name": "all"}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    on.done("POST", path, &body).await;
    on.webhook.take();
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let asked = on.webhook.take_all();
    let paths: Vec<&str> = asked.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(paths, ["convert", "allow"]);
    let object = &asked[1].1["object"];
    assert_eq!(
        (&object["apiVersion"], &object["spec"]),
        (&json!("example.com/v2"), &json!({"length": 1}))
    );
    let requested = &asked[1].1["requestKind"]["version"];
    assert_eq!(requested, "v1");
}

#[tokio::test]
async fn labels_are_taken_other_metadata_is_kept_and_what_no_schema_has_is_pruned() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    on.ask_at("convert/label").await;
    let read = on.get(&format!("{V2}/a")).await;
    assert_eq!(read["metadata"]["labels"], json!({"converted": "yes"}));
    on.ask_at("convert/finalize").await;
    let read = on.get(&format!("{V2}/a")).await;
    assert!(
        read["metadata"]["finalizers"].is_null() && read["metadata"]["uid"].is_string(),
        "{read}"
    );
    on.ask_at("convert/unknown").await;
    assert_eq!(on.get(&format!("{V2}/a")).await["spec"], json!({"length": 1}));
    // What is written, too.
    on.done("POST", V2, &rope("v2", "b", json!({"length": 2}))).await;
    assert_eq!(on.get(&format!("{V1}/b")).await["spec"], json!({"size": 2}));
}

#[tokio::test]
async fn conversions_are_counted_as_upstream_counts_them() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    on.get(&format!("{V2}/a")).await;
    on.ask_at("convert/drop").await;
    on.call("GET", &format!("{V2}/a"), &Value::Null).await;
    let (_, page) = on.connection.send("GET", "/metrics", &[], &Value::Null).await;
    let page = String::from_utf8_lossy(&page).into_owned();
    for line in [
        r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="ropes.example.com",from_version="v1",succeeded="true",to_version="v2"} 1"#,
        r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="ropes.example.com",from_version="v1",succeeded="false",to_version="v2"} 1"#,
        r#"apiserver_conversion_webhook_request_total{failure_type="",result="success"} 1"#,
        r#"apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_partial_response_failure",result="failure"} 1"#,
        r#"apiserver_conversion_webhook_duration_seconds_count{failure_type="",result="success"} 1"#,
    ] {
        assert!(page.contains(line), "{line}");
    }
}
