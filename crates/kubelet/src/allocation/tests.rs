//! Pods in; what they get, in which order, and what is kept of it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    Allocation, Asking, Decision, Pending, Size, Written, completed, decide, failed, order,
    pending, read, write,
};

fn pod(name: &str, requests: Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": { "name": name, "generation": 3 },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": requests } }] },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn amounts(cpu: i64, memory: i64) -> BTreeMap<String, i64> {
    [("cpu".to_owned(), cpu), ("memory".to_owned(), memory)].into()
}

/// The node has two processors and 1000 bytes; others take `used`.
fn check(requests: Value, used: (i64, i64), expected: &str) {
    let decision = decide(&pod("a", requests), &amounts(used.0, used.1), &amounts(2000, 1000));
    let shown = match decision {
        Decision::Granted => "granted".to_owned(),
        Decision::Pending(Pending { reason, message, generation }) => {
            assert_eq!(generation, 3);
            format!("{reason}: {message}")
        }
    };
    assert_eq!(shown, expected);
}

#[test]
fn what_there_is_room_for_is_given() {
    check(json!({ "cpu": "2", "memory": "1000" }), (0, 0), "granted");
    check(json!({ "cpu": "1", "memory": "1" }), (1000, 999), "granted");
    // Who asks for none of it is not held up by others who have it all.
    check(json!({ "cpu": "1" }), (1000, 5000), "granted");
}

#[test]
fn what_is_not_there_is_waited_for() {
    check(
        json!({ "cpu": "1500m" }),
        (501, 0),
        "Deferred: Node didn't have enough resource: cpu, requested: 1500, used: 501, capacity: 2000",
    );
    check(
        json!({ "cpu": "1", "memory": "600" }),
        (0, 500),
        "Deferred: Node didn't have enough resource: memory, requested: 600, used: 500, capacity: 1000",
    );
    // Also where it will never be, as upstream.
    check(
        json!({ "cpu": "2001m" }),
        (0, 0),
        "Deferred: Node didn't have enough resource: cpu, requested: 2001, used: 0, capacity: 2000",
    );
}

#[test]
fn who_takes_no_more_is_first_then_priority_then_class_then_the_longest_wait() {
    let asking = |name: &str, given: &str, asked: &str, priority: i32, since: Option<i64>| {
        let mut new = Pod::clone(&pod(name, json!({ "cpu": asked })));
        new.spec.as_mut().unwrap().priority = Some(priority);
        let allocation = Allocation::of(&pod(name, json!({ "cpu": given })));
        Asking {
            pod: Arc::new(new),
            allocation: Arc::new(allocation),
            since: since.map(|it| jiff::Timestamp::from_second(it).unwrap()),
        }
    };
    let mut guaranteed = asking("guaranteed", "1", "2", 5, None);
    let mut whole = Pod::clone(&guaranteed.pod);
    let all = json!({ "cpu": "2", "memory": "1" });
    whole.spec.as_mut().unwrap().containers[0].resources =
        serde_json::from_value(json!({ "requests": all, "limits": all })).unwrap();
    guaranteed.pod = Arc::new(whole);
    let mut all = [
        asking("late", "1", "2", 5, Some(20)),
        asking("new", "1", "2", 5, None),
        asking("early", "1", "2", 5, Some(10)),
        guaranteed,
        asking("important", "1", "2", 9, None),
        asking("less", "2", "1", 0, None),
    ];
    order(&mut all);
    let names = all.map(|it| it.pod.metadata.name.clone().unwrap());
    assert_eq!(names, ["less", "important", "guaranteed", "early", "late", "new"]);
}

#[test]
fn a_pod_is_shown_with_what_it_was_given() {
    let (old, new) =
        (pod("a", json!({ "cpu": "1" })), pod("a", json!({ "cpu": "2", "memory": "1" })));
    let given = Allocation::of(&old);
    assert!(given.is_of(&old) && !given.is_of(&new));
    assert!(given.is_of(&pod("a", json!({ "cpu": "1000m" }))), "the same, written differently");
    let shown = given.apply(&new);
    assert_eq!(shown.spec, old.spec);
    assert!(Arc::ptr_eq(&given.apply(&old), &old), "nothing is copied that is as it was");
}

#[tokio::test]
async fn what_was_given_is_found_again_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("uid");
    assert_eq!(read(&directory), None);
    let size = Size { cpu_request: 1, cpu_limit: 2, memory_request: 3, memory_limit: 4 };
    let written = Written {
        allocation: Allocation::of(&pod("a", json!({ "cpu": "1" }))),
        resized: [("id".to_owned(), size)].into(),
    };
    write(&directory, written.clone()).await.unwrap();
    assert_eq!(read(&directory), Some(written));
    std::fs::write(directory.join("allocation.json"), "{\"alloc").unwrap();
    assert_eq!(read(&directory), None);
}

#[test]
fn sizes_are_read_as_they_were_written() {
    let size = Size { cpu_request: 100, cpu_limit: 0, memory_request: 3, memory_limit: 1 << 40 };
    assert_eq!(Size::parse(&size.render()), Some(size));
    assert_eq!(Size::parse("1,2,3"), None);
}

#[test]
fn a_request_of_processors_comes_out_of_the_kernel_as_it_went_in() {
    for millis in (3..5000).step_by(7) {
        let size = Size { cpu_request: millis, cpu_limit: millis.max(10), ..Size::default() };
        let told = size.resources(&Default::default());
        assert_eq!(Size::in_force(&told, 0), size, "{millis}");
    }
}

#[test]
fn events_say_which_container_has_what() {
    let pod = pod("a", json!({ "cpu": "1" }));
    let resources = r#""containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]"#;
    assert_eq!(
        completed(&pod, 3),
        format!("Pod resize completed: {{{resources},\"generation\":3}}")
    );
    let error = "no room";
    let expected =
        format!("Pod resize error: {{{resources},\"error\":\"no room\",\"generation\":3}}");
    assert_eq!(sorted(&failed(&pod, 3, error)), sorted(&expected));
    let deferred = Pending { reason: "Deferred", message: error.to_owned(), generation: 3 };
    assert!(pending(&pod, &deferred).starts_with("Pod resize Deferred: {"));
}

/// Whatever the order of the fields.
fn sorted(text: &str) -> (String, Value) {
    let (what, summary) = text.split_once(": ").unwrap();
    (what.to_owned(), serde_json::from_str(summary).unwrap())
}
