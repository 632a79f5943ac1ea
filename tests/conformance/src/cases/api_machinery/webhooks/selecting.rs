//! Selecting by fields of a custom resource whose versions a webhook in a pod converts: v1 is
//! selected by `hostPort`, v2 by `host` and by `port`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::conversion::Converted;
use super::hook::Hook;
use crate::client::{Collection, Patch};
use crate::events::Events;
use crate::expect::{items, name, same};
use crate::scope::Scope;

/// What becomes of the versions of a definition in which anything goes.
fn versions() -> Vec<Value> {
    let fields = [("v1", &["hostPort"][..]), ("v2", &["host", "port"])];
    let version = |(version, fields): (&str, &[&str])| {
        let properties = fields.iter().map(|it| ((*it).to_owned(), json!({ "type": "string" })));
        let selectable: Vec<Value> =
            fields.iter().map(|it| json!({ "jsonPath": format!(".{it}") })).collect();
        json!({
            "name": version, "served": true, "storage": version == "v1",
            "schema": { "openAPIV3Schema": {
                "type": "object", "properties": properties.collect::<serde_json::Map<_, _>>(),
            } },
            "selectableFields": selectable,
        })
    };
    fields.into_iter().map(version).collect()
}

fn selected(selector: &str) -> [(&str, &str); 1] {
    [("fieldSelector", selector)]
}

async fn names(resource: &Collection<'_>, selector: &str) -> Result<BTreeSet<String>> {
    let list = resource.list(&selected(selector)).await?;
    items(&list)?.iter().map(|it| Ok(name(it)?.to_owned())).collect()
}

/// Somebody who watches, as a client or as an informer does.
struct Watcher<'a> {
    events: Events<'a>,
    /// Those that are in the selection at first: both, or the first alone.
    sees: &'static [&'static str],
}

impl<'a> Watcher<'a> {
    async fn start(
        resource: &Collection<'a>,
        selector: &str,
        sees: &'static [&'static str],
    ) -> Result<[Self; 2]> {
        let watch = resource.watch(&selected(selector)).await?;
        let mut informer = selected(selector).to_vec();
        informer.extend([
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ]);
        let informer = resource.watch(&informer).await?;
        Ok([watch, informer].map(|events| Self { events, sees }))
    }

    /// The next events are these, of all that it sees.
    async fn expect(&mut self, kind: &str) -> Result<()> {
        for name in self.sees {
            self.events.expect(kind, &json!({ "metadata": { "name": name } })).await?;
        }
        Ok(())
    }
}

pub(super) async fn selected_by_fields(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let changes = [json!({ "op": "replace", "path": "/spec/versions", "value": versions() })];
    let converted = Converted::create_with(scope, &hook, "selected", &changes).await?;
    let (v1, v2) = (converted.of(scope, "v1"), converted.of(scope, "v2"));
    let mut watchers = Vec::new();
    for (resource, selector, sees) in [
        (&v2, "host=host1", &["a", "b"][..]),
        (&v2, "host=host1,port=80", &["a"]),
        (&v1, "hostPort=host1:80", &["a"]),
    ] {
        watchers.extend(Watcher::start(resource, selector, sees).await?);
    }
    for (name, fields) in [
        ("a", json!({ "host": "host1", "port": "80" })),
        ("b", json!({ "host": "host1", "port": "8080" })),
        ("c", json!({ "host": "host2" })),
    ] {
        v2.create(&converted.instance("v2", name, fields)).await?;
    }
    for (resource, selector, expected) in [
        (&v2, "host=host1", &["a", "b"][..]),
        (&v2, "host=host1,port=80", &["a"]),
        (&v1, "hostPort=host1:80", &["a"]),
        (&v1, "hostPort=host1:8080", &["b"]),
    ] {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        same(selector, names(resource, selector).await?, expected)?;
    }
    for watcher in &mut watchers {
        watcher.expect("ADDED").await?;
    }
    // One goes, and one changes.
    v2.delete_all(&selected("host=host1,port=80")).await?;
    v2.patch("b", Patch::Merge, &json!({ "host": "host2" })).await?;
    for selector in ["host=host1", "host=host1,port=80"] {
        let left = names(&v2, selector).await?;
        ensure!(left.is_empty(), "{selector}: {left:?}");
    }
    for watcher in &mut watchers {
        watcher.expect("DELETED").await?;
    }
    Ok(())
}
