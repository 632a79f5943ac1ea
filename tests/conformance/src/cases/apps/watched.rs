//! What cases of workloads share that watch a whole life, and write conditions beside a controller.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::client::{Collection, Patch};
use crate::events::Events;
use crate::expect::shows;
use crate::scope::Scope;

/// The objects of a kind that have a label, in the case's namespace.
pub(super) struct Watched<'a> {
    pub(super) group_version: &'a str,
    pub(super) resource: &'a str,
    pub(super) label: &'a str,
}

impl Watched<'_> {
    pub(super) async fn open<'a>(&self, scope: &'a Scope) -> Result<Events<'a>> {
        let objects = scope.own(self.group_version, self.resource);
        objects.watch_from_now(&[("labelSelector", self.label)]).await
    }
}

/// Writes conditions of its own into the status, by a replacement and by a patch: they are there
/// afterwards, whoever else writes the status.
pub(super) async fn conditions(objects: &Collection<'_>, name: &str) -> Result<()> {
    let read = objects.get_part(name, "status").await?;
    ensure!(read["status"].is_object(), "expected a status, saw {read}");
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "E2E", "message": "Set by a case" });
    let replaced = objects
        .change(name, Some("status"), |it| {
            let conditions = &mut it["status"]["conditions"];
            if conditions.is_null() {
                *conditions = json!([]);
            }
            conditions.as_array_mut().into_iter().for_each(|it| it.push(condition("StatusUpdate")));
        })
        .await?;
    has(&replaced, &condition("StatusUpdate"))?;
    let patch = json!({ "status": { "conditions": [condition("StatusPatched")] } });
    let patched = objects.patch_part(name, "status", Patch::Strategic, &patch).await?;
    has(&patched, &condition("StatusPatched"))?;
    has(&patched, &condition("StatusUpdate"))
}

fn has(object: &Value, condition: &Value) -> Result<()> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let is_there = conditions.into_iter().any(|it| shows(it, condition).is_ok());
    ensure!(is_there, "expected {condition} in {}", object["status"]);
    Ok(())
}
