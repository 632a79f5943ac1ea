//! Migrations of one resource in, what is next and what is said of them out.

use std::sync::Arc;

use api::apiextensions::CustomResourceDefinition;
use api::storagemigration::StorageVersionMigration;
use apimachinery::{ApiError, GroupResource, GroupVersionResource, Reason, Scope};
use client::Discovered;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{self, Action, Verdict, judge, patience, plan, refusal};
use super::status::{self, Progress};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// `a Running Failed` or `b@7 Running`, made in this order.
fn migrations(lines: &[&str]) -> Vec<Arc<StorageVersionMigration>> {
    let one = |(index, line): (usize, &&str)| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let (name, version) = name.split_once('@').unwrap_or((name, ""));
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions: Vec<Value> = words.map(condition).collect();
        let version = (!version.is_empty()).then_some(version);
        let made = format!("2026-01-01T00:0{index}:00Z");
        let migration = json!({
            "metadata": {"name": name, "creationTimestamp": made, "generation": 1},
            "spec": {"resource": {"group": "example.com", "resource": "fruits"}},
            "status": {"conditions": conditions, "resourceVersion": version},
        });
        Arc::new(serde_json::from_value(migration).unwrap())
    };
    lines.iter().enumerate().map(one).collect()
}

fn name(migration: &StorageVersionMigration) -> String {
    migration.metadata.name.clone().unwrap_or_default()
}

fn check(lines: &[&str], expected: &[&str]) {
    let planned = plan(&migrations(lines)).into_iter().map(|it| match it {
        Action::Close(it) => format!("close {}", name(&it)),
        Action::Begin(it) => format!("begin {}", name(&it)),
        Action::Checkpoint(it) => format!("checkpoint {}", name(&it)),
        Action::Migrate(it, version) => format!("migrate {} up to {version}", name(&it)),
    });
    assert_eq!(planned.collect::<Vec<_>>(), expected, "{lines:?}");
}

#[test]
fn one_migration_of_a_resource_runs_at_a_time() {
    check(&[], &[]);
    check(&["b", "a"], &["begin b"]);
    check(&["a Running", "b"], &["checkpoint a"]);
    check(&["a", "b@7 Running"], &["migrate b up to 7"]);
    check(&["a@7 Running Succeeded", "b", "c"], &["close a", "begin b"]);
    check(&["a Failed", "b@7 Succeeded", "c"], &["begin c"]);
    check(&["a Running Failed", "b Running"], &["close a", "checkpoint b"]);
}

#[test]
fn a_resource_is_waited_for_a_minute() {
    let migration = &migrations(&["a"])[0];
    let at = |seconds| {
        migration.metadata.creation_timestamp.clone().unwrap().0
            + SignedDuration::from_secs(seconds)
    };
    assert_eq!(patience(migration, at(59)).map(|it| it.as_secs()), Some(1));
    assert_eq!(patience(migration, at(60)), None);
}

#[test]
fn what_cannot_be_patched_is_refused_in_upstream_s_words() {
    let resource = |verbs: &[&str], group: &str| Discovered {
        resource: GroupVersionResource::new(group, "v1", "bindings"),
        kind: "Binding".to_owned(),
        scope: Scope::Namespaced,
        verbs: verbs.iter().map(|it| (*it).to_owned()).collect(),
    };
    assert_eq!(refusal(&resource(&["get", "list", "patch", "update"], "")), None);
    let said = refusal(&resource(&["create"], "")).unwrap();
    let all = r#"resource "/v1, Resource=bindings" does not support discovery operations: [update patch list]"#;
    assert_eq!(said, all);
    let said = refusal(&resource(&["list", "update"], "example.com")).unwrap();
    assert!(said.starts_with(r#"resource "example.com/v1, Resource=bindings" does"#), "{said}");
}

#[test]
fn who_was_quicker_has_done_it() {
    let fruits = GroupResource::new("example.com", "fruits");
    assert_eq!(judge(&ApiError::modified(&fruits, "apple")), Verdict::Done);
    assert_eq!(judge(&ApiError::not_found(&fruits, "apple")), Verdict::Done);
    assert_eq!(judge(&ApiError::new(Reason::TooManyRequests, "later")), Verdict::Later);
    assert_eq!(judge(&ApiError::new(Reason::Invalid, "no")), Verdict::Hopeless);
}

/// Type, status and message of each condition.
fn said(migration: &StorageVersionMigration) -> Vec<String> {
    let line = |it: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{} {} {}: {}", it.type_, it.status, it.reason, it.message)
    };
    plan::conditions(migration).iter().map(line).collect()
}

#[test]
fn conditions_have_upstream_s_words() {
    let begun = status::begun(&migrations(&["a"])[0], now());
    assert_eq!(said(&begun), ["Running True MigrationRunning: The migration is running"]);
    let half = Progress { left: 3, total: 7 };
    let delayed = status::delayed(&begun, half, "too many", now());
    assert_eq!(
        said(&delayed),
        [
            "Running True MigrationRunning: The migration is running, 3/7 objects not yet migrated; transient error: too many"
        ]
    );
    let done = status::succeeded(&delayed, Progress { left: 0, total: 7 }, now());
    assert_eq!(
        said(&done),
        [
            "Running True MigrationRunning: The migration is running, 7 objects verified migrated",
            "Succeeded True StorageVersionMigrationSucceeded: Migration completed",
        ]
    );
    let closed = status::closed(&done, now());
    assert_eq!(said(&closed)[0], "Running False MigrationCompleted: Migration completed");
    let failed =
        status::failed(&begun, Some(half), "migration encountered unhandled error: no", now());
    assert_eq!(
        said(&failed)[1],
        "Failed True StorageVersionMigrationFailed: 3/7 not yet migrated. migration encountered unhandled error: no"
    );
    let failed = status::failed(&begun, None, "resource does not exist in discovery", now());
    assert_eq!(
        said(&failed)[1],
        "Failed True StorageVersionMigrationFailed: resource does not exist in discovery"
    );
}

fn definition(generation: i64, begun_at: i64) -> CustomResourceDefinition {
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
        })
    };
    serde_json::from_value(json!({
        "metadata": {"name": "fruits.example.com", "generation": generation, "resourceVersion": "9"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "fruits", "kind": "Fruit"},
            "versions": [version("v1", false), version("v2", true)],
        },
        "status": {
            "storedVersions": ["v1", "v2"],
            "conditions": [{
                "type": "StorageMigrating", "status": "True", "observedGeneration": begun_at,
            }],
        },
    }))
    .unwrap()
}

#[test]
fn a_definition_forgets_versions_that_nothing_is_stored_in() {
    let done = &migrations(&["a@7 Running Succeeded"])[0];
    let check = |definition: &CustomResourceDefinition, migration, stored: Value, message: &str| {
        let applied = status::definition_migrated(definition, migration, now());
        assert_eq!(applied["status"]["storedVersions"], stored);
        assert_eq!(applied["status"]["conditions"][0]["message"], message);
        assert_eq!(applied["metadata"]["resourceVersion"], "9");
    };
    let both = json!(["v1", "v2"]);
    let all = "The migration has succeeded and the stored versions have been updated";
    check(&definition(3, 3), done, json!(["v2"]), all);
    let changed = "The migration has succeeded but the stored versions have not been updated due \
                   to a generation mismatch";
    check(&definition(4, 3), done, both.clone(), changed);
    let failed = &migrations(&["a@7 Running Failed"])[0];
    check(&definition(3, 3), failed, both.clone(), "The migration has failed");
    let begun = status::definition_migrating(&definition(3, 0), "a", now());
    assert_eq!(begun["status"]["storedVersions"], both);
    assert_eq!(begun["status"]["conditions"][0]["message"], "Migration a is running");
}

/// As a cluster would: an action is its outcome, good or bad.
fn carry_out(state: &mut [Arc<StorageVersionMigration>], action: Action, goes_well: bool) {
    let progress = Progress { left: 0, total: 1 };
    let after = match &action {
        Action::Close(it) => status::closed(it, now()),
        Action::Begin(it) => status::begun(it, now()),
        Action::Checkpoint(it) if goes_well => status::checkpointed(it, "7"),
        Action::Migrate(it, _) if goes_well => status::succeeded(it, progress, now()),
        Action::Checkpoint(it) | Action::Migrate(it, _) => status::failed(it, None, "no", now()),
    };
    let place = state.iter_mut().find(|it| it.metadata.name == after.metadata.name).unwrap();
    *place = Arc::new(after);
}

proptest! {
    #[test]
    fn all_migrations_come_to_an_end(
        states in prop::collection::vec(0..5_usize, 0..6), goes_well: bool,
    ) {
        const STATES: [&str; 5] =
            ["", " Running", "@7 Running", "@7 Running Succeeded", " Failed"];
        let line = |(index, state): (usize, usize)| format!("m{index}{}", STATES[state]);
        let states: Vec<String> = states.into_iter().enumerate().map(line).collect();
        let lines: Vec<&str> = states.iter().map(String::as_str).collect();
        let apply = |state: &mut Vec<_>, action| carry_out(state, action, goes_well);
        let state = converges(|it: &Vec<_>| plan(it), apply, migrations(&lines), 40).unwrap();
        for migration in &state {
            prop_assert!(plan::is_ended(migration) && !plan::holds(migration, plan::RUNNING));
        }
    }
}
