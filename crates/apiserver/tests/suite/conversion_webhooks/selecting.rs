//! Selecting by what objects are in the version of the request, which a webhook makes of them.

use client::{DeleteOptions, ListOptions, WatchEventKind, WatchStream};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::watching::ropes;
use super::{Setting, V1, V2, rope};

fn by_field(selector: &str) -> ListOptions {
    ListOptions { field_selector: Some(selector.to_owned()), ..ListOptions::default() }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|it| it["metadata"]["name"].as_str().expect("a name")).collect()
}

impl Setting {
    /// The names of what a list has.
    async fn list(&mut self, path: &str) -> Vec<String> {
        names(&self.get(path).await).into_iter().map(str::to_owned).collect()
    }
}

/// The next event, as `Added a 1`.
async fn next(watch: &mut WatchStream) -> String {
    let event = watch.next().await.expect("an event").expect("no error");
    let object: Value = serde_json::from_slice(&event.object.bytes).expect("JSON");
    let size = [&object["spec"]["size"], &object["spec"]["length"]];
    let size = size.iter().find(|it| !it.is_null()).expect("one of them");
    format!("{:?} {} {size}", event.kind, event.object.meta.key.name)
}

#[tokio::test]
async fn fields_are_those_of_the_version_that_is_asked_for() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1, "color": "red"}))).await;
    on.done("POST", V2, &rope("v2", "b", json!({"length": 2, "color": "blue"}))).await;
    on.done("POST", V2, &rope("v2", "c", json!({"length": 1, "color": "blue"}))).await;
    for (path, expected) in [
        (format!("{V2}?fieldSelector=spec.length=1"), &["a", "c"][..]),
        (format!("{V2}?fieldSelector=spec.length=1,spec.color=blue"), &["c"]),
        (format!("{V2}?fieldSelector=spec.length!=1"), &["b"]),
        (format!("{V2}?fieldSelector=spec.length=1,metadata.name=a"), &["a"]),
        (format!("{V2}?fieldSelector=spec.length=2,metadata.name=a"), &[]),
        (format!("{V1}?fieldSelector=spec.size=1"), &["a", "c"]),
        (format!("{V1}?fieldSelector=spec.color=blue"), &["b", "c"]),
    ] {
        assert_eq!(on.list(&path).await, expected, "{path}");
    }
    let list = on.get(&format!("{V2}?fieldSelector=spec.length=2")).await;
    assert_eq!(list["items"][0]["spec"], json!({"length": 2, "color": "blue"}));
    // Each version has its own.
    for path in
        [format!("{V1}?fieldSelector=spec.length=1"), format!("{V2}?fieldSelector=spec.size=1")]
    {
        let (code, answer) = on.call("GET", &path, &Value::Null).await;
        assert_eq!(code, 400, "{answer}");
    }
}

#[tokio::test]
async fn labels_are_those_that_the_webhook_gives() {
    let mut on = Setting::start().await;
    on.ask_at("convert/label").await;
    let mut labeled = rope("v1", "a", json!({"size": 1}));
    labeled["metadata"]["labels"] = json!({"stored": "yes"});
    on.done("POST", V1, &labeled).await;
    for (path, expected) in [
        (format!("{V1}?labelSelector=stored=yes"), &["a"][..]),
        (format!("{V1}?labelSelector=converted=yes"), &[]),
        (format!("{V2}?labelSelector=converted=yes"), &["a"]),
        (format!("{V2}?labelSelector=stored=yes"), &[]),
        (format!("{V2}?labelSelector=stored!=yes"), &["a"]),
    ] {
        assert_eq!(on.list(&path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn parameters_of_policies_are_found_by_the_labels_of_the_version_they_are_named_in() {
    let mut on = Setting::start().await;
    on.ask_at("convert/label").await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 2}))).await;
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let maps = json!({"resourceRules": [{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
    }]});
    let policy = json!({"metadata": {"name": "ropes"}, "spec": {
        "matchConstraints": maps, "paramKind": {"apiVersion": "example.com/v2", "kind": "Rope"},
        "validations": [{"expression": "params.spec.length < 2", "message": "too long"}],
    }});
    on.done("POST", &format!("{policies}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": "ropes"}, "spec": {
        "policyName": "ropes", "validationActions": ["Deny"],
        "paramRef": {
            "selector": {"matchLabels": {"converted": "yes"}}, "parameterNotFoundAction": "Allow",
        },
    }});
    on.done("POST", &format!("{policies}/validatingadmissionpolicybindings"), &binding).await;
    let map = json!({"metadata": {"name": "m"}});
    let (code, answer) = on.call("POST", "/api/v1/namespaces/default/configmaps", &map).await;
    assert_eq!(code, 422, "{answer}");
    assert!(answer["message"].as_str().is_some_and(|it| it.contains("too long")), "{answer}");
}

/// So many objects at once, and no more of them than a page takes.
#[tokio::test]
async fn a_page_converts_what_it_looks_at_in_batches() {
    let mut on = Setting::start().await;
    for index in 0..150 {
        let spec = json!({"size": index % 50});
        on.done("POST", V1, &rope("v1", &format!("r{index:03}"), spec)).await;
    }
    on.asked();
    let path = format!("{V2}?fieldSelector=spec.length=7&limit=2");
    let page = on.get(&path).await;
    assert_eq!(names(&page), ["r007", "r057"]);
    let sizes = |on: &Setting| on.asked().iter().map(|it| it.1.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&on), [64]);
    let token = page["metadata"]["continue"].as_str().expect("there is more").to_owned();
    assert!(page["metadata"]["remainingItemCount"].is_null(), "nobody knows how many");
    let page = on.get(&format!("{path}&continue={token}")).await;
    assert_eq!((names(&page), &page["metadata"]["continue"]), (vec!["r107"], &json!("")));
    // What was just answered is not asked for again.
    assert_eq!(sizes(&on), [58, 28]);
}

#[tokio::test]
async fn a_collection_is_deleted_by_what_its_objects_are_in_the_version_asked_for() {
    let mut on = Setting::start().await;
    for (name, length) in [("a", 1), ("b", 2), ("c", 1)] {
        on.done("POST", V2, &rope("v2", name, json!({"length": length}))).await;
    }
    let deleted = on
        .done(
            "DELETE",
            &format!("{V2}?fieldSelector=spec.length=1"),
            &json!({"gracePeriodSeconds": 0}),
        )
        .await;
    assert_eq!(names(&deleted), ["a", "c"]);
    assert_eq!(deleted["items"][0]["spec"], json!({"length": 1}));
    assert_eq!(on.list(V2).await, ["b"]);
    on.done("DELETE", &format!("{V1}?fieldSelector=spec.size=2"), &Value::Null).await;
    assert_eq!(on.list(V1).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_watch_sees_what_comes_into_the_selection_and_leaves_it() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let first = on.done("POST", V1, &rope("v1", "b", json!({"size": 2}))).await;
    let (v1, v2) = (ropes(&on, "v1"), ropes(&on, "v2"));
    let mut watches = Vec::new();
    for (api, selector) in [(&v2, "spec.length=1"), (&v1, "spec.size=1")] {
        watches.push(api.watch("default", by_field(selector)).await.expect("a watch"));
    }
    // From where the state is known.
    let since = first["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let resumed = ListOptions { resource_version: Some(since), ..by_field("spec.length=1") };
    let mut resumed = v2.watch("default", resumed).await.expect("a watch");
    for watch in &mut watches {
        assert_eq!(next(watch).await, "Added a 1", "of what was there, what is selected");
    }
    watches.push(
        v2.watch("default", by_field("metadata.name=b,spec.length=1")).await.expect("a watch"),
    );
    let size = |size: i64| json!({"spec": {"size": size}});
    on.done("PATCH", &format!("{V1}/b"), &size(1)).await;
    on.done("PATCH", &format!("{V1}/a"), &size(3)).await;
    on.done("PATCH", &format!("{V1}/a"), &size(4)).await;
    on.done("PATCH", &format!("{V1}/b"), &json!({"metadata": {"labels": {"x": "y"}}})).await;
    on.done("DELETE", &format!("{V1}/b"), &Value::Null).await;
    watches.push(std::mem::replace(
        &mut resumed,
        v2.watch("default", by_field("spec.length=4")).await.expect("a watch"),
    ));
    let (of_one, b) = (["Added b 1", "Modified b 1", "Deleted b 1"], "Deleted a 1");
    let all = [of_one[0], b, of_one[1], of_one[2]];
    for (watch, expected) in watches.iter_mut().zip([&all[..], &all, &of_one, &all]) {
        for expected in expected {
            assert_eq!(next(watch).await, *expected);
        }
    }
    assert_eq!(next(&mut resumed).await, "Added a 4");
}

/// However many watch, and however they select: each state is converted once.
#[tokio::test]
async fn an_event_is_one_question_for_all_who_select() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    let v2 = ropes(&on, "v2");
    let begin =
        on.get(V1).await["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut watches = Vec::new();
    for index in 0..60 {
        let selector = format!("spec.length={}", index % 3);
        let from = |it: ListOptions| ListOptions { resource_version: Some(begin.clone()), ..it };
        let options = if index < 30 { by_field(&selector) } else { ListOptions::default() };
        watches.push(v2.watch("default", from(options)).await.expect("a watch"));
    }
    on.asked();
    on.done("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": 2}})).await;
    let seen =
        join_all(watches.iter_mut().enumerate().map(async |(index, watch)| match index % 3 {
            _ if index >= 30 => assert_eq!(next(watch).await, "Modified a 2"),
            1 => assert_eq!(next(watch).await, "Deleted a 1"),
            2 => assert_eq!(next(watch).await, "Added a 2"),
            _ => {}
        }));
    seen.await;
    let asked: Vec<usize> = on.asked().iter().map(|it| it.1.len()).collect();
    // The state before, which nobody has asked for yet, goes with the new one, or alone if those who
    // do not select were first.
    assert_eq!(asked.iter().sum::<usize>(), 2, "{asked:?}");
    on.done("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": 0}})).await;
    assert_eq!(next(&mut watches[0]).await, "Added a 0");
    assert_eq!(next(&mut watches[2]).await, "Deleted a 2");
    let asked: Vec<usize> = on.asked().iter().map(|it| it.1.len()).collect();
    assert_eq!(asked.iter().sum::<usize>(), 1, "what was converted a moment ago is at hand");
}

#[tokio::test]
async fn informers_hold_what_is_selected() {
    let mut on = Setting::start().await;
    on.done("POST", V2, &rope("v2", "a", json!({"length": 1}))).await;
    on.done("POST", V2, &rope("v2", "b", json!({"length": 2}))).await;
    let v2 = ropes(&on, "v2");
    let initial = ListOptions {
        send_initial_events: Some(true),
        resource_version_match: Some("NotOlderThan".to_owned()),
        allow_watch_bookmarks: true,
        ..by_field("spec.length=1")
    };
    let mut watch = v2.watch("default", initial).await.expect("a watch");
    assert_eq!(next(&mut watch).await, "Added a 1");
    let end = watch.next().await.expect("an event").expect("no error");
    assert_eq!(end.kind, WatchEventKind::Bookmark);
    let options = DeleteOptions::default();
    v2.delete_collection("default", by_field("spec.length=1"), options).await.expect("deleted");
    assert_eq!(next(&mut watch).await, "Deleted a 1");
}

#[tokio::test]
async fn what_cannot_be_converted_ends_lists_and_watches_by_fields() {
    let mut on = Setting::start().await;
    on.done("POST", V1, &rope("v1", "a", json!({"size": 1}))).await;
    on.ask_at("convert/fail").await;
    let path = format!("{V2}?fieldSelector=spec.length=1");
    let (code, answer) = on.call("GET", &path, &Value::Null).await;
    assert_eq!(code, 500, "{answer}");
    let (code, _) = on.call("DELETE", &path, &Value::Null).await;
    assert_eq!(code, 500);
    assert_eq!(on.list(V1).await, ["a"]);
    // The stored version needs nobody.
    assert_eq!(on.list(&format!("{V1}?fieldSelector=spec.size=1")).await, ["a"]);
}
