//! What the migrations of one resource need next: one of them runs at a time. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::storagemigration::StorageVersionMigration;
use apimachinery::{ApiError, GroupResource};
use client::Discovered;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// What a migration does to each object, and to all of them.
const VERBS: [&str; 3] = ["update", "patch", "list"];
/// A resource may be asked for before its definition is there.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// It has ended: the next one may run.
    Close(Arc<StorageVersionMigration>),
    Begin(Arc<StorageVersionMigration>),
    /// Objects that are written after this are right by themselves.
    Checkpoint(Arc<StorageVersionMigration>),
    /// Objects up to its version are to be written again.
    Migrate(Arc<StorageVersionMigration>, u64),
}

pub(super) fn resource_of(migration: &StorageVersionMigration) -> Option<GroupResource> {
    let resource = &migration.spec.as_ref()?.resource;
    Some(GroupResource::new(resource.group.as_str(), resource.resource.as_str()))
}

/// `migrations` are all of one resource.
pub(super) fn plan(migrations: &[Arc<StorageVersionMigration>]) -> Vec<Action> {
    let all = migrations.iter().cloned();
    let (running, others): (Vec<_>, Vec<_>) = all.partition(|it| holds(it, RUNNING));
    let (ended, running): (Vec<_>, Vec<_>) = running.into_iter().partition(|it| is_ended(it));
    let mut actions: Vec<_> = ended.into_iter().map(Action::Close).collect();
    if running.is_empty() {
        let age = |it: &Arc<StorageVersionMigration>| {
            (it.metadata.creation_timestamp.clone(), it.metadata.name.clone())
        };
        let next = others.into_iter().filter(|it| !is_ended(it)).min_by_key(age);
        actions.extend(next.map(Action::Begin));
    }
    actions.extend(running.into_iter().map(|it| match checkpoint(&it) {
        Some(version) => Action::Migrate(it, version),
        None => Action::Checkpoint(it),
    }));
    actions
}

fn checkpoint(migration: &StorageVersionMigration) -> Option<u64> {
    migration.status.as_ref()?.resource_version.as_deref()?.parse().ok()
}

pub(super) fn conditions(migration: &StorageVersionMigration) -> &[Condition] {
    migration.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default()
}

pub(super) fn holds(migration: &StorageVersionMigration, kind: &str) -> bool {
    conditions(migration).iter().any(|it| it.type_ == kind && it.status == "True")
}

pub(super) fn is_ended(migration: &StorageVersionMigration) -> bool {
    holds(migration, SUCCEEDED) || holds(migration, FAILED)
}

/// How long a resource that is not served is waited for still; `None`: no longer.
pub(super) fn patience(migration: &StorageVersionMigration, now: Timestamp) -> Option<Duration> {
    let created = migration.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let left = crate::pods::remaining(created, PATIENCE, now);
    (!left.is_zero()).then_some(left)
}

/// Why objects of the resource cannot be written again, in upstream's words.
pub(super) fn refusal(resource: &Discovered) -> Option<String> {
    let has = |verb: &&str| resource.verbs.iter().any(|it| it == verb);
    if VERBS.iter().all(has) {
        return None;
    }
    let it = &resource.resource;
    let version = match it.group.as_str() {
        "" => format!("/{}", it.version),
        group => format!("{group}/{}", it.version),
    };
    let name = format!("{version}, Resource={}", it.resource);
    Some(format!("resource {name:?} does not support discovery operations: [{}]", VERBS.join(" ")))
}

/// What an answer to the write of one object means.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It was written by somebody since, or is gone.
    Done,
    /// The same may go well later.
    Later,
    Hopeless,
}

pub(super) fn judge(err: &ApiError) -> Verdict {
    if err.is_conflict() || err.is_not_found() {
        return Verdict::Done;
    }
    if err.is_retryable() { Verdict::Later } else { Verdict::Hopeless }
}
