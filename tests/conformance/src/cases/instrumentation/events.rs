//! Events, in the core group and in their own: the same objects, seen from two sides.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{count, items, same, shows};
use crate::operations::{Operations, deletes_a_collection};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-instrumentation] Events API should delete a collection of events [Conformance]",
        collection
    ),
    case!(
        "[sig-instrumentation] Events API should ensure that an event can be fetched, patched, deleted, and listed [Conformance]",
        lifecycle
    ),
    case!(
        "[sig-instrumentation] Events should delete a collection of events [Conformance]",
        core_collection
    ),
    case!(
        "[sig-instrumentation] Events should manage the lifecycle of an event [Conformance]",
        core_lifecycle
    ),
];

const GROUP: &str = "events.k8s.io/v1";

fn event(scope: &Scope) -> Value {
    json!({
        "regarding": { "namespace": scope.namespace },
        "eventTime": "2017-09-19T13:49:16.000000Z",
        "note": "something happened", "action": "Do", "reason": "Test", "type": "Normal",
        "reportingController": "test-controller", "reportingInstance": "test-node",
    })
}

fn core_event(scope: &Scope) -> Value {
    json!({
        "involvedObject": { "namespace": scope.namespace },
        "message": "something happened", "reason": "Test", "type": "Normal", "count": 1,
    })
}

async fn collection(scope: &Scope) -> Result<()> {
    deletes_a_collection(scope, &scope.own(GROUP, "events"), &event(scope)).await
}

async fn core_collection(scope: &Scope) -> Result<()> {
    deletes_a_collection(scope, &scope.own("v1", "events"), &core_event(scope)).await
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let series =
        |count: u32| json!({ "count": count, "lastObservedTime": "2017-09-19T13:49:11.000000Z" });
    let operations = Operations {
        group_version: GROUP,
        resource: "events",
        kind: "Event",
        is_namespaced: true,
        object: event(scope),
        change: json!({ "series": series(2) }),
        status: None,
        names: None,
    };
    operations.check(scope).await?;

    let (events, core) = (scope.own(GROUP, "events"), scope.own("v1", "events"));
    let mut object = event(scope);
    object["metadata"] = json!({ "name": "seen-twice" });
    events.create(&object).await?;
    // The controller is called otherwise in the core group.
    for (collection, field) in [(&core, "source"), (&events, "reportingController")] {
        let select = format!("{field}=test-controller");
        let list = collection.list(&[("fieldSelector", &select)]).await?;
        count(&select, &list, 1)?;
        same("name", &items(&list)?[0]["metadata"]["name"], &json!("seen-twice"))?;
        let other = format!("{field}=another");
        count(&other, &collection.list(&[("fieldSelector", &other)]).await?, 0)?;
    }
    let replaced = events.change("seen-twice", None, |it| it["series"] = series(100)).await?;
    object["series"] = series(100);
    shows(&replaced, &object)?;
    let from_core = core.get("seen-twice").await?;
    shows(&from_core, &json!({ "message": "something happened", "series": series(100) }))
}

async fn core_lifecycle(scope: &Scope) -> Result<()> {
    let operations = Operations {
        group_version: "v1",
        resource: "events",
        kind: "Event",
        is_namespaced: true,
        object: core_event(scope),
        change: json!({ "message": "something else happened" }),
        status: None,
        names: None,
    };
    operations.check(scope).await?;

    let events = scope.own("v1", "events");
    let mut object = core_event(scope);
    object["metadata"] = json!({ "name": "again" });
    events.create(&object).await?;
    // Without a resourceVersion it replaces whatever is there.
    object["series"] = json!({ "count": 100, "lastObservedTime": "2017-09-19T13:49:16.000000Z" });
    events.replace(&object).await?;
    shows(&events.get("again").await?, &object)
}
