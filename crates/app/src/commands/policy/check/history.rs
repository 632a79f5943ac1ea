//! Writes of the past, as far back as the server's store remembers them, or what other servers tell:
//! a watch from the oldest revision that is taken, over the objects as they were then.

use std::collections::BTreeMap;
use std::time::Duration;

use admission::Operation;
use anyhow::{Context as _, Result};
use apimachinery::{ApiError, ObjectKey};
use bytes::Bytes;
use client::{ListOptions, WatchEvent, WatchEventKind};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use stdx::World;

use super::cluster::{Cluster, Pages};
use super::findings::{Findings, Write};
use super::judge::{Case, Concern, Judge};

/// How long the server keeps a watch open that has nothing more to tell.
const QUIET_SECONDS: u64 = 1;
/// Watches of one kind: each but the last brought something.
const WATCHES_MAX: usize = 1_000;
/// Of objects as they were, which updates are compared with.
const OLD_BYTES_MAX: usize = 256 << 20;

/// Judges what happened to one kind until `revision`, which is what was current.
pub(super) async fn check(
    cluster: &Cluster,
    judge: &dyn Judge,
    concern: &Concern,
    (since, revision): (Duration, u64),
    findings: &mut Findings,
) -> Result<()> {
    let resource = &concern.resource.resource;
    let reach = Reach::of(cluster, concern, findings).await;
    let Some(oldest) = reach.oldest(cluster, concern).await? else {
        findings.note(format!("the API tells no history of {resource}"));
        return Ok(());
    };
    let now = World::system().clock.now();
    let from = now.checked_sub(jiff::SignedDuration::try_from(since)?).unwrap_or(Timestamp::MIN);
    let (old, last) = (Old::default(), oldest);
    let mut past = Past { reach, old, last, first_time: None, from, n_writes: 0 };
    past.load(cluster, concern, oldest, findings).await?;
    for _ in 0..WATCHES_MAX {
        let before = past.last;
        past.follow(cluster, judge, concern, revision, findings).await?;
        if past.last == before || past.last >= revision {
            break;
        }
    }
    findings.note(past.told(resource, oldest));
    if past.old.is_full {
        findings.note(format!(
            "there are more {resource} than fit into {} MiB: for some writes the object before is not known",
            OLD_BYTES_MAX >> 20
        ));
    }
    Ok(())
}

/// Objects as they were before the next write.
#[derive(Default)]
struct Old {
    objects: BTreeMap<ObjectKey, Bytes>,
    n_bytes: usize,
    is_full: bool,
}

impl Old {
    fn put(&mut self, key: ObjectKey, bytes: Bytes) {
        if self.n_bytes + bytes.len() > OLD_BYTES_MAX {
            self.is_full = true;
            return;
        }
        self.n_bytes += bytes.len();
        self.objects.insert(key, bytes);
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Bytes> {
        let bytes = self.objects.remove(key)?;
        self.n_bytes -= bytes.len();
        Some(bytes)
    }
}

/// How far back is asked for.
#[derive(Clone, Copy)]
struct Reach {
    is_beyond_horizon: bool,
}

impl Reach {
    /// As far as the caller may. Servers that do not know the wish tell what they do.
    async fn of(cluster: &Cluster, concern: &Concern, findings: &mut Findings) -> Self {
        let beyond = Self { is_beyond_horizon: true };
        match beyond.ask(cluster, concern).await {
            Err(err) if err.code() == 403 && err.message().contains("/history") => {}
            _ => return beyond,
        }
        findings.note(
            "what is older than the API tells everybody takes the right to get the path /history"
                .to_owned(),
        );
        Self { is_beyond_horizon: false }
    }

    async fn open(
        self,
        cluster: &Cluster,
        concern: &Concern,
        from: u64,
    ) -> Result<client::WatchStream, ApiError> {
        let options = ListOptions {
            resource_version: Some(from.to_string()),
            timeout_seconds: Some(QUIET_SECONDS),
            allow_watch_bookmarks: true,
            is_beyond_horizon: self.is_beyond_horizon,
            ..ListOptions::default()
        };
        let api = cluster.client.dynamic(concern.resource.clone());
        api.watch(cluster.namespace_for(concern.kind.as_ref()), options).await
    }

    /// Whether a watch from the very beginning is refused, and why.
    async fn ask(self, cluster: &Cluster, concern: &Concern) -> Result<(), ApiError> {
        let mut events = self.open(cluster, concern, 1).await?;
        events.next().await.transpose().map(drop)
    }

    /// The oldest revision that a watch can begin from: servers name it when they refuse an older
    /// one.
    async fn oldest(self, cluster: &Cluster, concern: &Concern) -> Result<Option<u64>> {
        match self.ask(cluster, concern).await {
            Ok(()) => Ok(Some(1)),
            Err(refused) if refused.is_expired() => Ok(named_in(refused.message())),
            Err(refused) => Err(refused).context("asking how far back the API tells"),
        }
    }
}

struct Past {
    reach: Reach,
    old: Old,
    /// The revision that was seen last.
    last: u64,
    first_time: Option<Timestamp>,
    /// Writes before are not judged.
    from: Timestamp,
    n_writes: usize,
}

impl Past {
    /// How everything was at the beginning, if the API still tells that.
    async fn load(
        &mut self,
        cluster: &Cluster,
        concern: &Concern,
        oldest: u64,
        findings: &mut Findings,
    ) -> Result<()> {
        let mut pages = Pages::new(cluster, concern).at(oldest, self.reach.is_beyond_horizon);
        loop {
            match pages.next().await {
                Ok(Some(items)) => {
                    let items = items.into_iter().map(|it| (it.meta.key.clone(), it.bytes.clone()));
                    items.for_each(|(key, bytes)| self.old.put(key, bytes));
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    findings.note(format!(
                        "how {} were when their history begins is not known: of the first write \
                         of each, oldObject is missing",
                        concern.resource.resource
                    ));
                    return Ok(());
                }
            }
        }
    }

    /// Until the server has nothing more to tell, or what comes is news.
    async fn follow(
        &mut self,
        cluster: &Cluster,
        judge: &dyn Judge,
        concern: &Concern,
        revision: u64,
        findings: &mut Findings,
    ) -> Result<()> {
        let mut events = match self.reach.open(cluster, concern, self.last).await {
            Ok(events) => events,
            Err(err) => return Err(err).context("watching the past"),
        };
        while let Some(event) = events.next().await {
            let event = event.context("watching the past")?;
            let at = event.object.meta.resource_version;
            if at > revision {
                return Ok(());
            }
            self.last = self.last.max(at);
            if event.kind != WatchEventKind::Bookmark {
                self.judge(judge, concern, &event, findings).await?;
            }
            if self.last >= revision {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn judge(
        &mut self,
        judge: &dyn Judge,
        concern: &Concern,
        event: &WatchEvent,
        findings: &mut Findings,
    ) -> Result<()> {
        let (key, bytes) = (&event.object.meta.key, &event.object.bytes);
        let old = self.old.take(key);
        let time = time_of(bytes);
        if event.kind != WatchEventKind::Deleted {
            self.old.put(key.clone(), bytes.clone());
        }
        if time.is_some_and(|it| it < self.from) {
            return Ok(());
        }
        self.first_time = self.first_time.or(time);
        self.n_writes += 1;
        let (operation, object, old) = match event.kind {
            WatchEventKind::Added => (Operation::Create, Some(bytes), None),
            WatchEventKind::Deleted => (Operation::Delete, None, Some(bytes)),
            WatchEventKind::Modified | WatchEventKind::Bookmark => {
                (Operation::Update, Some(bytes), old.as_ref())
            }
        };
        let case =
            Case { concern, operation, namespace: &key.namespace, name: &key.name, object, old };
        let verdicts = judge.judge(case).await?;
        let write = Write {
            operation: operation.text(),
            resource_version: event.object.meta.resource_version.to_string(),
            time: time.map(|it| it.to_string()),
        };
        let kind = &concern.kind.names().kind;
        findings.add((kind, &key.namespace, &key.name), Some(&write), verdicts);
        Ok(())
    }

    fn told(&self, resource: &str, oldest: u64) -> String {
        let begin = match self.first_time {
            Some(time) => format!("the first write that was judged is of {time}"),
            None => "nothing was written since".to_owned(),
        };
        format!("the API tells the history of {resource} from revision {oldest} on: {begin}")
    }
}

/// `too old resource version: 1 (734)`
pub(super) fn named_in(message: &str) -> Option<u64> {
    let (_, after) = message.rsplit_once('(')?;
    after.split_once(')')?.0.trim().parse().ok()
}

/// When an object was last written, as far as it says.
pub(super) fn time_of(bytes: &[u8]) -> Option<Timestamp> {
    let object: Value = serde_json::from_slice(bytes).ok()?;
    let metadata = &object["metadata"];
    let managed = metadata["managedFields"].as_array().into_iter().flatten();
    let managed = managed.map(|it| &it["time"]);
    let own = [&metadata["creationTimestamp"], &metadata["deletionTimestamp"]];
    let times = managed.chain(own).filter_map(Value::as_str);
    times.filter_map(|it| it.parse().ok()).max()
}
