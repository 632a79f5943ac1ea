//! What is said of a migration, and of the definition of the resource that it is of, in upstream's
//! words. Pure.

use api::apiextensions::CustomResourceDefinition;
use api::storagemigration::StorageVersionMigration;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::plan::{FAILED, RUNNING, SUCCEEDED, holds};
use crate::conditions;

const SUCCESS_REASON: &str = "StorageVersionMigrationSucceeded";
const FAILURE_REASON: &str = "StorageVersionMigrationFailed";
const MIGRATING: &str = "StorageMigrating";

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) left: u64,
    pub(super) total: u64,
}

fn running_message(progress: Progress, trouble: Option<&str>) -> String {
    let progress = match progress {
        Progress { total: 0, .. } => String::new(),
        Progress { left: 0, total } => format!(", {total} objects verified migrated"),
        Progress { left, total } => format!(", {left}/{total} objects not yet migrated"),
    };
    let trouble = trouble.map(|it| format!("; transient error: {it}")).unwrap_or_default();
    format!("The migration is running{progress}{trouble}")
}

struct Said<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: String,
}

fn saying(
    migration: &StorageVersionMigration,
    said: impl IntoIterator<Item = Said<'static>>,
    now: Timestamp,
) -> StorageVersionMigration {
    let mut migration = migration.clone();
    let generation = migration.metadata.generation;
    let all = migration.status.get_or_insert_default().conditions.get_or_insert_default();
    for Said { kind, status, reason, message } in said {
        let condition = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: conditions::time(now),
            // Only of what has come to rest, as upstream.
            observed_generation: generation.filter(|_| status == "False"),
        };
        conditions::set_shared(all, condition);
    }
    migration
}

fn is_running(progress: Progress, trouble: Option<&str>) -> Said<'static> {
    let message = running_message(progress, trouble);
    Said { kind: RUNNING, status: "True", reason: "MigrationRunning", message }
}

pub(super) fn begun(it: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    saying(it, [is_running(Progress::default(), None)], now)
}

pub(super) fn checkpointed(it: &StorageVersionMigration, version: &str) -> StorageVersionMigration {
    let mut migration = it.clone();
    migration.status.get_or_insert_default().resource_version = Some(version.to_owned());
    migration
}

/// It goes on later.
pub(super) fn delayed(
    it: &StorageVersionMigration,
    progress: Progress,
    trouble: &str,
    now: Timestamp,
) -> StorageVersionMigration {
    saying(it, [is_running(progress, Some(trouble))], now)
}

pub(super) fn succeeded(
    it: &StorageVersionMigration,
    progress: Progress,
    now: Timestamp,
) -> StorageVersionMigration {
    let message = "Migration completed".to_owned();
    let success = Said { kind: SUCCEEDED, status: "True", reason: SUCCESS_REASON, message };
    saying(it, [is_running(progress, None), success], now)
}

/// `progress` where objects were written before.
pub(super) fn failed(
    it: &StorageVersionMigration,
    progress: Option<Progress>,
    why: &str,
    now: Timestamp,
) -> StorageVersionMigration {
    let running = progress.map(|it| is_running(it, None));
    let not_yet = progress.map(|it| format!("{}/{} not yet migrated. ", it.left, it.total));
    let message = not_yet.unwrap_or_default() + why;
    let failure = Said { kind: FAILED, status: "True", reason: FAILURE_REASON, message };
    saying(it, running.into_iter().chain([failure]), now)
}

pub(super) fn closed(it: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    let message = "Migration completed".to_owned();
    saying(
        it,
        [Said { kind: RUNNING, status: "False", reason: "MigrationCompleted", message }],
        now,
    )
}

/// A configuration of the definition's status, to be applied at the version that was looked at:
/// what it says of stored versions is true of that alone. They are always said: what an owner says
/// no longer is taken away.
fn configuration(
    definition: &CustomResourceDefinition,
    (status, reason, message): (&str, &str, &str),
    stored_versions: &[String],
    now: Timestamp,
) -> Value {
    let meta = &definition.metadata;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": meta.name, "resourceVersion": meta.resource_version},
        "status": {"conditions": [{
            "type": MIGRATING,
            "status": status,
            "lastTransitionTime": conditions::time(now),
            "reason": reason,
            "message": message,
            "observedGeneration": meta.generation.unwrap_or_default(),
        }], "storedVersions": stored_versions},
    })
}

fn stored_versions(definition: &CustomResourceDefinition) -> &[String] {
    let status = definition.status.as_ref();
    status.and_then(|it| it.stored_versions.as_deref()).unwrap_or_default()
}

pub(super) fn definition_migrating(
    definition: &CustomResourceDefinition,
    migration: &str,
    now: Timestamp,
) -> Value {
    let message = format!("Migration {migration} is running");
    let stored = stored_versions(definition);
    configuration(definition, ("True", "MigrationRunning", &message), stored, now)
}

/// With the one version that is stored now, if the definition is what it was when all began.
pub(super) fn definition_migrated(
    definition: &CustomResourceDefinition,
    migration: &StorageVersionMigration,
    now: Timestamp,
) -> Value {
    let all = definition.status.as_ref().and_then(|it| it.conditions.as_ref());
    let begun = all.into_iter().flatten().find(|it| it.type_ == MIGRATING);
    let is_as_begun = begun.is_some_and(|it| {
        it.observed_generation.unwrap_or_default()
            == definition.metadata.generation.unwrap_or_default()
    });
    let has_succeeded = holds(migration, SUCCEEDED);
    let (reason, message) = match (has_succeeded, is_as_begun) {
        (true, true) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a \
             generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    // Upstream forgets versions after a failure too, and with them objects that are still in them.
    let stored = definition.spec.versions.iter().find(|it| it.storage);
    let stored = stored.filter(|_| has_succeeded && is_as_begun).map(|it| vec![it.name.clone()]);
    let stored = stored.unwrap_or_else(|| stored_versions(definition).to_vec());
    configuration(definition, ("False", reason, message), &stored, now)
}
