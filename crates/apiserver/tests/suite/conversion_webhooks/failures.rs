//! Who converts is dead, slow, lying or endless: an error that says so, for whoever wants the other
//! version, and nobody else; nothing half stored.

use std::time::Duration;

use apimachinery::GroupVersionResource;
use client::ListOptions;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{DEFINITION, Setting, V1, V2, rope};

#[tokio::test]
async fn a_lie_is_told_and_nothing_of_it_is_stored() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    for (path, why) in [
        ("convert/rename", "returned invalid object: must have the same name: a != another"),
        ("convert/drop", "returned 0 objects, expected 1"),
        (
            "convert/unversioned",
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v9)",
        ),
        (
            "convert/mislabel",
            "returned invalid metadata: metadata.labels: Invalid value: \"a b\": ",
        ),
        ("convert/fail", "failed: it cannot be done"),
        ("lie", "failed: expected response.uid="),
        (
            "kindless",
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        ("garbage", "failed: couldn't get version/kind; json parse error: "),
        (
            "broken",
            "failed: an error on the server (\"oh no\") has prevented the request from succeeding",
        ),
        (
            "redirect",
            "failed: the server responded with the status code 307, and redirects are not followed",
        ),
        ("endless", "the answer has more than 16777216 bytes"),
    ] {
        on.ask_at(path).await;
        let (code, answer) = on.call("GET", &format!("{V2}/a"), &Value::Null).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let begin = "conversion webhook for example.com/v1, Kind=Rope ";
        assert!(code == 500 && message.starts_with(begin), "{path}: {answer}");
        assert!(message.contains(why), "{path}: {message}");
        let (code, answer) = on.call("GET", V2, &Value::Null).await;
        assert_eq!(code, 500, "{path}: {answer}");
        let (code, answer) = on.call("POST", V2, &rope("v2", "b", json!({"length": 1}))).await;
        assert_eq!(code, 500, "{path}: {answer}");
        let (code, answer) =
            on.call("PATCH", &format!("{V2}/a"), &json!({"spec": {"length": 7}})).await;
        assert_eq!(code, 500, "{path}: {answer}");
        assert_eq!(on.call("DELETE", &format!("{V2}/a"), &Value::Null).await.0, 500);
    }
    let list = on.get(V1).await;
    let items = list["items"].as_array().expect("items");
    assert_eq!((items.len(), &items[0]["spec"]), (1, &json!({"size": 1})), "{list}");
    on.ask_at("convert").await;
    assert_eq!(on.get(&format!("{V2}/a")).await["spec"], json!({"length": 1}));
}

#[tokio::test]
async fn a_service_without_endpoints_is_named_at_once_and_stops_nobody_else() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let service = json!({"namespace": "default", "name": "hook", "path": "/convert"});
    let client = json!({"url": null, "service": service});
    let change = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
    on.done("PATCH", DEFINITION, &change).await;
    let (code, answer) = on.call("GET", &format!("{V2}/a"), &Value::Null).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let text = "conversion webhook for example.com/v1, Kind=Rope failed: Post \"https://hook.default.svc:443/convert?timeout=30s\": service \"hook\" not found in namespace \"default\"";
    assert!(code == 500 && message.starts_with(text), "{answer}");
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    on.done("POST", "/api/v1/namespaces/default/services", &service).await;
    let (_, answer) = on.call("GET", &format!("{V2}/a"), &Value::Null).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("no endpoints available for service \"hook\""), "{answer}");
    // The stored version goes on, and so does the end of the definition.
    on.done("POST", V1, &rope("v1", "b", json!({"size": 2}))).await;
    on.done("DELETE", DEFINITION, &Value::Null).await;
    for _ in 0..10_000 {
        if on.call("GET", DEFINITION, &Value::Null).await.0 == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("what is dead keeps the definition: {}", on.get(DEFINITION).await);
}

#[tokio::test]
async fn who_does_not_answer_has_a_deadline_and_only_who_wants_it_waits() {
    let mut on = Setting::start().await;
    on.ask_at("hang").await;
    let of = |version: &str| {
        on.site.harness.client.dynamic(GroupVersionResource::new("example.com", version, "ropes"))
    };
    let (v1, v2) = (of("v1"), of("v2"));
    let mut watch = v1.watch("default", ListOptions::default()).await.expect("a watch");
    let first = api::Dynamic::from_value(rope("v1", "a", json!({"size": 1}))).expect("an object");
    v1.create(first).await.expect("created");
    let waiting = v2.get("default", "a");
    tokio::pin!(waiting);
    // Until the question has arrived.
    while on.webhook.take().is_empty() {
        let step = tokio::time::timeout(Duration::from_millis(1), &mut waiting).await;
        assert!(step.is_err(), "nobody answers");
    }
    let second = api::Dynamic::from_value(rope("v1", "b", json!({"size": 2}))).expect("an object");
    v1.create(second).await.expect("others write");
    for name in ["a", "b"] {
        let event = watch.next().await.expect("an event").expect("no error");
        assert_eq!(event.object.meta.key.name, name);
    }
    assert_eq!(v1.list("default", ListOptions::default()).await.expect("a list").items.len(), 2);
    tokio::time::pause();
    let failed = waiting.await.expect_err("the deadline is over");
    let text = "conversion webhook for example.com/v1, Kind=Rope failed: Post ";
    assert!(failed.message().starts_with(text), "{failed}");
    assert!(failed.message().ends_with("context deadline exceeded"), "{failed}");
}

#[tokio::test]
async fn the_end_of_the_server_waits_for_no_answer() {
    let mut on = Setting::start().await;
    on.ask_at("hang").await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let v2 = GroupVersionResource::new("example.com", "v2", "ropes");
    let v2 = on.site.harness.client.dynamic(v2);
    let waiting = v2.get("default", "a");
    tokio::pin!(waiting);
    while on.webhook.take().is_empty() {
        let step = tokio::time::timeout(Duration::from_millis(1), &mut waiting).await;
        assert!(step.is_err(), "nobody answers");
    }
    on.site.harness.tasks.cancel();
    let failed = waiting.await.expect_err("it is over");
    assert!(!failed.message().contains("deadline"), "{failed}");
}

#[tokio::test]
async fn the_old_review_is_asked_where_it_is_the_only_one() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let versions =
        json!({"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v1beta1"]}}}});
    on.done("PATCH", DEFINITION, &versions).await;
    assert_eq!(on.get(&format!("{V2}/a")).await["spec"], json!({"length": 1}));
    // It was never held to its uid.
    on.ask_at("lie").await;
    let (_, answer) = on.call("GET", &format!("{V2}/a"), &Value::Null).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("failed: response.result.status was '', not 'Success'"), "{answer}");
}
