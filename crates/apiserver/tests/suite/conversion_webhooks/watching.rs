//! Watches of another version than the stored one: one question for an event, whoever watches; and
//! what ends them.

use apimachinery::GroupVersionResource;
use client::{DynamicApi, ListOptions, WatchStream};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{DEFINITION, Setting, V1, V2, rope};

pub(super) fn ropes(on: &Setting, version: &str) -> DynamicApi {
    on.site.harness.client.dynamic(GroupVersionResource::new("example.com", version, "ropes"))
}

async fn next(watch: &mut WatchStream) -> Value {
    let event = watch.next().await.expect("an event").expect("no error");
    serde_json::from_slice(&event.object.bytes).expect("JSON")
}

#[tokio::test]
async fn a_hundred_watchers_cost_one_question_an_event() {
    let mut on = Setting::start().await;
    let v2 = ropes(&on, "v2");
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(v2.watch("default", ListOptions::default()).await.expect("a watch"));
    }
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    on.done("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": 2}})).await;
    on.done("DELETE", &format!("{V1}/a"), &Value::Null).await;
    let seen = join_all(
        watches
            .iter_mut()
            .map(|watch| async { [next(watch).await, next(watch).await, next(watch).await] }),
    )
    .await;
    for events in seen {
        let specs: Vec<&Value> = events.iter().map(|it| &it["spec"]).collect();
        let (one, two) = (json!({"length": 1}), json!({"length": 2}));
        assert_eq!(specs, [&one, &two, &two]);
        assert!(events.iter().all(|it| it["apiVersion"] == "example.com/v2"));
    }
    let asked = on.asked();
    assert_eq!(asked.len(), 2, "what is gone is what it was: {asked:?}");
}

#[tokio::test]
async fn a_failed_conversion_is_the_last_event_of_a_watch() {
    let mut on = Setting::start().await;
    let first = on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    on.ask_at("convert/fail").await;
    let since = first["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut other = on.site.connect(crate::harness::wire::ADMIN).await;
    let path = format!("{V2}?watch=true&resourceVersion={since}");
    let (head, mut body) = other.open("GET", &path, &[], bytes::Bytes::new()).await;
    assert_eq!(head.status, 200);
    on.done("POST", V1, &rope("v1", "b", json!({"size": 2}))).await;
    let mut lines = Vec::new();
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        lines.extend_from_slice(frame.expect("a frame").data_ref().expect("data"));
    }
    let event: Value = serde_json::from_slice(&lines).expect("one event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)));
    let why = "conversion webhook for example.com/v1, Kind=Rope failed: it cannot be done";
    assert_eq!(event["object"]["message"], why, "{event}");
    // Who comes again where it was misses nothing.
    on.ask_at("convert").await;
    let options = ListOptions { resource_version: Some(since), ..ListOptions::default() };
    let mut again = ropes(&on, "v2").watch("default", options).await.expect("a watch");
    assert_eq!(next(&mut again).await["spec"], json!({"length": 2}));
}

#[tokio::test]
async fn a_watch_ends_when_somebody_else_is_to_convert() {
    let mut on = Setting::start().await;
    let mut watch =
        ropes(&on, "v2").watch("default", ListOptions::default()).await.expect("a watch");
    // What concerns nobody who watches does not end it.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    on.done("PATCH", DEFINITION, &label).await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    assert_eq!(next(&mut watch).await["spec"], json!({"length": 1}));
    on.ask_at("convert/label").await;
    assert!(watch.next().await.is_none(), "the watch is over");
    let mut watch =
        ropes(&on, "v2").watch("default", ListOptions::default()).await.expect("a watch");
    assert_eq!(next(&mut watch).await["metadata"]["labels"], json!({"converted": "yes"}));
}
