//! What the parameters of LIST and WATCH mean, as tables: each row is a query and what comes of it.
//! The state is a, b and c, of which c was written last, at revision N; b was changed in between.

use std::fmt::Write as _;
use std::time::Duration;

use api::core::ConfigMap;
use apimachinery::ApiError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Api, ListOptions, WatchEventKind};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

struct Table {
    api: Api<ConfigMap>,
    /// The revision of the last write.
    n: u64,
    _server: Harness,
}

fn map(name: &str, label: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"l": label}},
    }))
    .expect("a map")
}

/// a at N-3, b at N-2 and again at N-1, c at N.
async fn table() -> Table {
    let server = harness::start(World::simulated(1)).await;
    let api = server.client.api::<ConfigMap>();
    api.create(map("a", "x")).await.expect("created");
    api.create(map("b", "x")).await.expect("created");
    api.update(map("b", "y")).await.expect("updated");
    let last = api.create(map("c", "y")).await.expect("created");
    Table { n: last.meta().resource_version, api, _server: server }
}

impl Table {
    /// `resourceVersion=N-1&limit=2`
    fn options(&self, query: &str) -> ListOptions {
        let mut options = ListOptions::default();
        for (name, value) in query.split('&').filter_map(|it| it.split_once('=')) {
            let text = match name {
                "resourceVersion" | "continue" => Some(self.fill_in(value)),
                _ => Some(value.to_owned()),
            };
            match name {
                "resourceVersion" => options.resource_version = text,
                "resourceVersionMatch" => options.resource_version_match = Some(value.to_owned()),
                "limit" => options.limit = value.parse().ok(),
                "continue" => options.continue_token = text,
                "labelSelector" => options.label_selector = text.map(|it| it.replace(':', "=")),
                "fieldSelector" => options.field_selector = text.map(|it| it.replace(':', "=")),
                "sendInitialEvents" => options.send_initial_events = Some(value == "true"),
                "allowWatchBookmarks" => options.allow_watch_bookmarks = value == "true",
                "timeoutSeconds" => options.timeout_seconds = value.parse().ok(),
                other => panic!("no parameter {other}"),
            }
        }
        options
    }

    /// `N-1` is a revision; `token(N-1,b)` goes on behind b at that revision.
    fn fill_in(&self, text: &str) -> String {
        if let Some(inner) = text.strip_prefix("token(").and_then(|it| it.strip_suffix(')')) {
            let (at, last) = inner.split_once(',').expect("token(revision,name)");
            let rv: i64 = self.fill_in(at).parse().expect("a revision");
            let token = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": format!("{last}\0")});
            return URL_SAFE_NO_PAD.encode(token.to_string());
        }
        match text.strip_prefix('N') {
            Some("") => self.n.to_string(),
            Some(offset) => {
                let offset: i64 = offset.parse().expect("N, N-1, N+1");
                self.n.checked_add_signed(offset).expect("a revision").to_string()
            }
            None => text.to_owned(),
        }
    }

    /// The other way around: `N`, `N-1`.
    fn name(&self, revision: u64) -> String {
        match i128::from(revision) - i128::from(self.n) {
            0 => "N".to_owned(),
            offset if offset.abs() < 50 => format!("N{offset:+}"),
            _ => revision.to_string(),
        }
    }

    fn token(&self, text: &str) -> String {
        let bytes = URL_SAFE_NO_PAD.decode(text).expect("base64");
        let token: Value = serde_json::from_slice(&bytes).expect("JSON");
        let start = token["start"].as_str().unwrap_or_default().trim_end_matches('\0').to_owned();
        match token["rv"].as_u64() {
            Some(rv) => format!("token({},{start})", self.name(rv)),
            None => format!("token({},{start})", token["rv"]),
        }
    }

    fn refusal(&self, error: &ApiError) -> String {
        let status = error.to_status();
        let mut text = format!("{} {}", error.code(), error.message());
        let current = self.name(self.n);
        text = text.replace(&format!("current: {}", self.n), &format!("current: {current}"));
        for cause in status.details.iter().flat_map(|it| it.causes.iter().flatten()) {
            let reason = cause.reason.as_deref().unwrap_or_default();
            if reason == "ResourceVersionTooLarge" {
                let _ = write!(text, " [{reason}]");
            }
        }
        if let Some(seconds) = error.retry_after_seconds() {
            let _ = write!(text, " [retry after {seconds}]");
        }
        if let Some(token) = status.metadata.continue_.as_deref() {
            let _ = write!(text, " [{}]", self.token(token));
        }
        text
    }

    async fn list(&self, query: &str) -> String {
        let list = match self.api.list("default", self.options(query)).await {
            Ok(list) => list,
            Err(error) => return self.refusal(&error),
        };
        let names: Vec<&str> = list.items.iter().map(|it| it.meta.key.name.as_str()).collect();
        let at = self.name(list.resource_version.parse().expect("a version"));
        let mut text = format!("{} at {at}", names.join(" "));
        if let Some(token) = &list.continue_token {
            let _ = write!(text, ", {}", self.token(token));
        }
        if let Some(remaining) = list.remaining {
            let _ = write!(text, ", {remaining} more");
        }
        text.trim_start().to_owned()
    }

    /// What a watch sends until it ends, which it does by itself.
    async fn watch(&self, query: &str) -> String {
        let mut options = self.options(query);
        options.timeout_seconds.get_or_insert(1);
        let mut stream = match self.api.watch("default", options).await {
            Ok(stream) => stream,
            Err(error) => return self.refusal(&error),
        };
        let mut said = Vec::new();
        while let Some(event) = stream.next().await {
            said.push(match event {
                Err(error) => format!("ERROR {}", self.refusal(&error)),
                Ok(event) => {
                    let at = self.name(event.object.meta.resource_version);
                    let name = &event.object.meta.key.name;
                    match event.kind {
                        WatchEventKind::Added => format!("+{name}@{at}"),
                        WatchEventKind::Modified => format!("~{name}@{at}"),
                        WatchEventKind::Deleted => format!("-{name}@{at}"),
                        WatchEventKind::Bookmark if event.is_initial_end => format!("end@{at}"),
                        WatchEventKind::Bookmark => format!("mark@{at}"),
                    }
                }
            });
        }
        if said.is_empty() { "nothing".to_owned() } else { said.join(" ") }
    }
}

const INVALID: &str = "422 ListOptions.meta.k8s.io \"\" is invalid: ";
const TOO_LARGE: &str = "504 Timeout: Too large resource version: 999999, current: N";

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "it is one table")]
async fn lists_are_of_the_state_that_is_asked_for() {
    let table = table().await;
    let forbidden = |why: &str| format!("{INVALID}resourceVersionMatch: Forbidden: {why}");
    let bad_token =
        |why: &str| format!("400 invalid continue token: continue key is not valid{why}");
    for (query, expected) in [
        // The latest.
        ("", "a b c at N".to_owned()),
        ("limit=2", "a b at N, token(N,b), 1 more".to_owned()),
        ("limit=3", "a b c at N".to_owned()),
        ("limit=1&labelSelector=l:y", "b at N, token(N,b)".to_owned()),
        ("limit=9&labelSelector=l:y", "b c at N".to_owned()),
        ("fieldSelector=metadata.name:b", "b at N".to_owned()),
        // Any, which is given whole.
        ("resourceVersion=0", "a b c at N".to_owned()),
        ("resourceVersion=0&limit=1", "a b c at N".to_owned()),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1", "a b c at N".to_owned()),
        // Not older than.
        ("resourceVersion=N-2", "a b c at N".to_owned()),
        ("resourceVersion=N-2&resourceVersionMatch=NotOlderThan", "a b c at N".to_owned()),
        (
            "resourceVersion=N-2&resourceVersionMatch=NotOlderThan&limit=1",
            "a at N, token(N,a), 2 more".to_owned(),
        ),
        // Exactly; with a limit also without saying so.
        ("resourceVersion=N-3&resourceVersionMatch=Exact", "a at N-3".to_owned()),
        ("resourceVersion=N-2&resourceVersionMatch=Exact", "a b at N-2".to_owned()),
        ("resourceVersion=N-2&limit=5", "a b at N-2".to_owned()),
        ("resourceVersion=N-2&limit=1", "a at N-2, token(N-2,a), 1 more".to_owned()),
        ("resourceVersion=N-4&limit=5", "at N-4".to_owned()),
        // Further pages.
        ("continue=token(N,a)&limit=1", "b at N, token(N,b), 1 more".to_owned()),
        ("continue=token(N-2,a)&limit=5", "b at N-2".to_owned()),
        ("continue=token(-1,a)&limit=1", "b at N, token(N,b), 1 more".to_owned()),
        ("continue=token(N,b)&resourceVersion=0", "c at N".to_owned()),
        (
            "continue=token(N,b)&resourceVersion=N",
            "400 specifying resource version is not allowed when using continue".to_owned(),
        ),
        (
            "continue=token(N,b)&resourceVersion=N&resourceVersionMatch=Exact",
            forbidden("resourceVersionMatch is forbidden when continue is provided"),
        ),
        ("continue=x", bad_token(": illegal base64 data at input byte 0")),
        ("continue=e30", bad_token(": server does not recognize this encoded version ")),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
            bad_token(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
            bad_token(": encoded start key empty (version meta.k8s.io/v1)"),
        ),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0",
            bad_token(": ../a"),
        ),
        // What has no meaning.
        (
            "resourceVersionMatch=Exact",
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "resourceVersion=N&resourceVersionMatch=Foo",
            format!(
                "{INVALID}resourceVersionMatch: Unsupported value: \"Foo\": supported values: \
                 \"Exact\", \"NotOlderThan\", \"\""
            ),
        ),
        (
            "sendInitialEvents=true",
            format!(
                "{INVALID}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
            ),
        ),
        (
            "resourceVersion=x",
            "400 invalid resource version: resourceVersion: Invalid value: \"x\": \
             strconv.ParseUint: parsing \"x\": invalid syntax"
                .to_owned(),
        ),
        // The future.
        (
            "resourceVersion=999999",
            format!("{TOO_LARGE} [ResourceVersionTooLarge] [retry after 1]"),
        ),
        (
            "resourceVersion=999999&resourceVersionMatch=Exact",
            format!("{TOO_LARGE} [ResourceVersionTooLarge]"),
        ),
    ] {
        assert_eq!(table.list(query).await, expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_start_where_they_are_asked_to() {
    let table = table().await;
    let all = "+a@N-3 +b@N-1 +c@N";
    let forbidden = "resourceVersionMatch: Forbidden: ";
    let needs = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let unless = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let other =
        "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    for (query, expected) in [
        // The state first.
        ("", all.to_owned()),
        ("resourceVersion=0", all.to_owned()),
        ("limit=1", all.to_owned()),
        ("allowWatchBookmarks=true", format!("{all} end@N")),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", all.to_owned()),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            format!("{all} end@N"),
        ),
        (
            "resourceVersion=N-2&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            format!("{all} end@N"),
        ),
        ("fieldSelector=metadata.name:b", "+b@N-1".to_owned()),
        // Changes alone.
        ("resourceVersion=N-3", "+b@N-2 ~b@N-1 +c@N".to_owned()),
        ("resourceVersion=N", "nothing".to_owned()),
        ("resourceVersion=999999", "nothing".to_owned()),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "nothing".to_owned()),
        (
            "resourceVersion=N-1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            "+c@N".to_owned(),
        ),
        // What stops or starts to match: the old object goes, at the revision of the change.
        ("resourceVersion=N-3&labelSelector=l:x", "+b@N-2 -b@N-1".to_owned()),
        ("resourceVersion=N-3&labelSelector=l:y", "+b@N-1 +c@N".to_owned()),
        // A bookmark two seconds before the end.
        ("resourceVersion=N&allowWatchBookmarks=true&timeoutSeconds=5", "mark@N".to_owned()),
        // And each minute.
        (
            "resourceVersion=N&allowWatchBookmarks=true&timeoutSeconds=150",
            "mark@N mark@N mark@N".to_owned(),
        ),
        // What has no meaning.
        ("sendInitialEvents=true", format!("{INVALID}{forbidden}{needs}")),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            format!("{INVALID}[{forbidden}{needs}, {other}]"),
        ),
        ("resourceVersionMatch=NotOlderThan", format!("{INVALID}{forbidden}{unless}")),
        ("resourceVersionMatch=Exact", format!("{INVALID}[{forbidden}{unless}, {other}]")),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            format!("{INVALID}{forbidden}resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "resourceVersion=x",
            "500 resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax"
                .to_owned(),
        ),
        // The future is told in the stream.
        (
            "resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            format!("ERROR {TOO_LARGE} [ResourceVersionTooLarge] [retry after 1]"),
        ),
    ] {
        assert_eq!(table.watch(query).await, expected, "{query}");
    }
}

/// Nothing is compacted here: the store remembers everything.
#[tokio::test(start_paused = true)]
async fn what_is_older_than_five_minutes_is_gone_whatever_the_store_remembers() {
    let table = table().await;
    let exact = "resourceVersion=N-2&resourceVersionMatch=Exact";
    let page = "continue=token(N-2,a)&limit=1";
    let watch = "resourceVersion=N-3";
    // At most two intervals are kept; within one, all is there.
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(table.list(exact).await, "a b at N-2");
    assert_eq!(table.list(page).await, "b at N-2");
    assert_eq!(table.watch(watch).await, "+b@N-2 ~b@N-1 +c@N");
    table.api.create(map("d", "x")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(320)).await;
    let gone = "410 The resourceVersion for the provided list is too old.";
    assert_eq!(table.list(exact).await, gone);
    let inconsistent = "410 The provided continue parameter is too old to display a consistent list result. \
                        You can start a new list without the continue parameter, or use the continue token \
                        in this response to retrieve the remainder of the results. Continuing with the \
                        provided token results in an inconsistent list - objects that were created, \
                        modified, or deleted between the time the first chunk was returned and now may \
                        show up in the list. [token(-1,a)]";
    assert_eq!(table.list(page).await, inconsistent);
    assert_eq!(
        table.list("continue=token(-1,a)&limit=2").await,
        "b c at N+1, token(N+1,c), 1 more"
    );
    let told = format!("too old resource version: {} ({})", table.n - 3, table.n + 1);
    assert_eq!(table.watch(watch).await, format!("ERROR 410 {told}"));
    // What did not change since is no gap.
    assert_eq!(table.watch("resourceVersion=N+1").await, "nothing");
}
