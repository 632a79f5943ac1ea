//! Watches: everything once, in order, from the version that was asked for, and nothing else.

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{name, same, version};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Watchers should be able to restart watching from the last resource version observed by the previous watch [Conformance]",
        resumes
    ),
    case!(
        "[sig-api-machinery] Watchers should be able to start watching from a specific resource version [Conformance]",
        from_a_version
    ),
    case!(
        "[sig-api-machinery] Watchers should observe add, update, and delete watch notifications on configmaps [Conformance]",
        selected
    ),
    case!(
        "[sig-api-machinery] Watchers should observe an object deletion if it stops meeting the requirements of the selector [Conformance]",
        leaves_the_selection
    ),
    case!(
        "[sig-api-machinery] Watchers should receive events on concurrent watches in same order [Conformance]",
        same_order
    ),
];

fn map(name: &str, set: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "set": set } } })
}

async fn write(maps: &Collection<'_>, name: &str, value: u32) -> Result<Value> {
    let data = json!({ "data": { "mutation": value.to_string() } });
    maps.patch(name, Patch::Merge, &data).await
}

async fn move_to(maps: &Collection<'_>, name: &str, set: &str) -> Result<Value> {
    let labels = json!({ "metadata": { "labels": { "set": set } } });
    maps.patch(name, Patch::Merge, &labels).await
}

/// The event of exactly this write.
fn exactly(object: &Value) -> Value {
    json!({
        "metadata": {
            "name": object["metadata"]["name"], "resourceVersion": object["metadata"]["resourceVersion"],
        },
        "data": object["data"],
    })
}

fn of(object: &Value) -> Value {
    json!({ "metadata": { "uid": object["metadata"]["uid"] } })
}

async fn selected(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let mut on_a = maps.watch_from_now(&[("labelSelector", "set=a")]).await?;
    let mut on_b = maps.watch_from_now(&[("labelSelector", "set=b")]).await?;
    let mut on_both = maps.watch_from_now(&[("labelSelector", "set in (a, b)")]).await?;
    let first = maps.create(&map("first", "a")).await?;
    let mut writes = vec![("ADDED", first.clone())];
    for value in [1, 2] {
        writes.push(("MODIFIED", write(&maps, "first", value).await?));
    }
    for (kind, object) in &writes {
        on_a.expect(kind, &exactly(object)).await?;
        on_both.expect(kind, &exactly(object)).await?;
    }
    maps.delete("first").await?;
    on_a.expect("DELETED", &of(&first)).await?;
    on_both.expect("DELETED", &of(&first)).await?;

    // Who selects `b` has seen nothing until now: its first event is this.
    let second = maps.create(&map("second", "b")).await?;
    on_b.expect("ADDED", &exactly(&second)).await?;
    on_both.expect("ADDED", &exactly(&second)).await?;
    maps.delete("second").await?;
    on_b.expect("DELETED", &of(&second)).await?;
    on_both.expect("DELETED", &of(&second)).await?;

    // And who selects `a` nothing since.
    let third = maps.create(&map("third", "a")).await?;
    on_a.expect("ADDED", &exactly(&third)).await?;
    on_both.expect("ADDED", &exactly(&third)).await.map(drop)
}

async fn from_a_version(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let made = maps.create(&map("changing", "versions")).await?;
    let first = write(&maps, "changing", 1).await?;
    let second = write(&maps, "changing", 2).await?;
    maps.delete("changing").await?;
    let start = version(&first)?.to_string();
    let options = [("labelSelector", "set=versions"), ("resourceVersion", &*start)];
    let mut events = maps.watch(&options).await?;
    events.expect("MODIFIED", &exactly(&second)).await?;
    events.expect("DELETED", &of(&made)).await.map(drop)
}

async fn resumes(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let select = ("labelSelector", "set=resumed");
    let mut events = maps.watch_from_now(&[select]).await?;
    let made = maps.create(&map("resumed", "resumed")).await?;
    let first = write(&maps, "resumed", 1).await?;
    events.expect("ADDED", &exactly(&made)).await?;
    let last = events.expect("MODIFIED", &exactly(&first)).await?;
    drop(events);
    let second = write(&maps, "resumed", 2).await?;
    let last = version(&last)?.to_string();
    let mut events = maps.watch(&[select, ("resourceVersion", &last)]).await?;
    maps.delete("resumed").await?;
    events.expect("MODIFIED", &exactly(&second)).await?;
    events.expect("DELETED", &of(&made)).await.map(drop)
}

async fn leaves_the_selection(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let mut events = maps.watch_from_now(&[("labelSelector", "set=here")]).await?;
    let made = maps.create(&map("moving", "here")).await?;
    let first = write(&maps, "moving", 1).await?;
    move_to(&maps, "moving", "elsewhere").await?;
    events.expect("ADDED", &exactly(&made)).await?;
    events.expect("MODIFIED", &exactly(&first)).await?;
    events.expect("DELETED", &of(&made)).await?;

    // What happens elsewhere is not told: the next event is the return.
    write(&maps, "moving", 2).await?;
    let returned = move_to(&maps, "moving", "here").await?;
    let third = write(&maps, "moving", 3).await?;
    maps.delete("moving").await?;
    events.expect("ADDED", &exactly(&returned)).await?;
    events.expect("MODIFIED", &exactly(&third)).await?;
    events.expect("DELETED", &of(&made)).await.map(drop)
}

/// How many watches there are in the end.
const WATCHES: usize = 40;

async fn same_order(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let start = version(&maps.list(&[]).await?)?;
    // Several writers at once, so that there is an order to get wrong.
    let writer = async |number: usize| -> Result<()> {
        let name = format!("writer-{number}");
        for _ in 0..WATCHES / 4 {
            maps.create(&map(&name, "order")).await?;
            write(&maps, &name, 1).await?;
            maps.delete(&name).await?;
        }
        Ok(())
    };
    let watcher = async || -> Result<()> {
        let (mut watches, mut last) = (Vec::new(), start);
        for _ in 0..WATCHES {
            let from = last.to_string();
            let options = [("labelSelector", "set=order"), ("resourceVersion", &*from)];
            watches.push(maps.watch(&options).await?);
            let mut seen = None;
            for watch in &mut watches {
                let event = watch.next().await?;
                let told = (event.kind, name(&event.object)?.to_owned(), version(&event.object)?);
                same(
                    "the next event of all watches",
                    &told,
                    seen.get_or_insert_with(|| told.clone()),
                )?;
                last = told.2;
            }
        }
        Ok(())
    };
    let writers = try_join_all((0..4).map(writer));
    futures_util::future::try_join(writers, watcher()).await.map(drop)
}
