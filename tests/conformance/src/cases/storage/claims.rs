//! PersistentVolumes and PersistentVolumeClaims of each other's class, whether or not somebody binds
//! them meanwhile.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, items, name, newer, same, shows};
use crate::scope::{Scope, named, selector};

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-storage] PersistentVolumes CSI Conformance should apply changes to a pv/pvc status [Conformance]",
        status
    ),
    case!(
        "[sig-storage] PersistentVolumes CSI Conformance should run through the lifecycle of a PV and a PVC [Conformance]",
        lifecycle
    ),
];

/// Claims of the case's namespace and volumes of the cluster.
struct Storage<'a> {
    scope: &'a Scope,
    volumes: Collection<'a>,
    claims: Collection<'a>,
}

impl<'a> Storage<'a> {
    fn of(scope: &'a Scope) -> Self {
        let claims = scope.own("v1", "persistentvolumeclaims");
        Self { scope, volumes: scope.all("v1", "persistentvolumes"), claims }
    }

    /// A volume of a driver that does not exist, and a claim that fits it.
    async fn make(&self, name: &str) -> Result<(Value, Value)> {
        let name = self.scope.unique(name);
        let class = self.scope.unique("class");
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": named(self.scope, &name),
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "2Gi" }, "persistentVolumeReclaimPolicy": "Retain",
                "csi": { "driver": self.scope.unique("no-driver"), "volumeHandle": "conformance" },
            },
        });
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": named(self.scope, &name),
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "2Gi" } },
            },
        });
        Ok((self.volumes.create(&volume).await?, self.claims.create(&claim).await?))
    }

    /// Claims and volumes with the case's label.
    async fn count(&self, what: &str, expected: usize) -> Result<()> {
        let selector = selector(self.scope);
        count(&format!("volumes {what}"), &self.volumes.labeled(&selector).await?, expected)?;
        count(&format!("claims {what}"), &self.claims.labeled(&selector).await?, expected)
    }
}

/// Both have what holds them while they are used; what is deleted goes.
async fn lifecycle(scope: &Scope) -> Result<()> {
    let storage = Storage::of(scope);
    let (volume, claim) = storage.make("first").await?;
    shows(&volume["metadata"], &json!({ "finalizers": ["kubernetes.io/pv-protection"] }))?;
    shows(&claim["metadata"], &json!({ "finalizers": ["kubernetes.io/pvc-protection"] }))?;
    storage.count("that were made", 1).await?;
    for (objects, made) in [(&storage.volumes, &volume), (&storage.claims, &claim)] {
        let label = json!({ "metadata": { "labels": { "changed": "patched" } } });
        let patched = objects.patch(name(made)?, Patch::Strategic, &label).await?;
        shows(&patched, &label)?;
        newer(made, &patched)?;
        let read = objects.get(name(made)?).await?;
        same("uid", &read["metadata"]["uid"], &made["metadata"]["uid"])?;
    }
    // The claim first: a volume that is bound waits for it.
    for (objects, made) in [(&storage.claims, &claim), (&storage.volumes, &volume)] {
        objects.delete(name(made)?).await?;
        gone(scope, objects).await?;
    }
    storage.make("second").await?;
    for objects in [&storage.volumes, &storage.claims] {
        let replaced = objects
            .change(&scope.unique("second"), None, |it| {
                it["metadata"]["labels"]["changed"] = json!("replaced");
            })
            .await?;
        shows(&replaced, &json!({ "metadata": { "labels": { "changed": "replaced" } } }))?;
    }
    let all = scope.all("v1", "persistentvolumeclaims").labeled(&selector(scope)).await?;
    count("claims of all namespaces", &all, 1)?;
    for objects in [&storage.claims, &storage.volumes] {
        objects.delete_all(&[("labelSelector", &*selector(scope))]).await?;
        gone(scope, objects).await?;
    }
    Ok(())
}

/// All that the case made of this kind.
async fn gone(scope: &Scope, objects: &Collection<'_>) -> Result<()> {
    scope
        .until("what was deleted is gone", async || {
            let left = objects.labeled(&selector(scope)).await?;
            ensure!(items(&left)?.is_empty(), "still there: {left}");
            Ok(())
        })
        .await
}

/// Phases are read; conditions of claims and reasons of volumes are written.
async fn status(scope: &Scope) -> Result<()> {
    let storage = Storage::of(scope);
    let (volume, claim) = storage.make("one").await?;
    let (volume, claim) = (name(&volume)?, name(&claim)?);
    storage.count("that were made", 1).await?;
    let phase = storage.claims.get_part(claim, "status").await?["status"]["phase"].clone();
    ensure!(phase == "Pending" || phase == "Bound", "phase of the claim: saw {phase}");
    let phase = storage.volumes.get_part(volume, "status").await?["status"]["phase"].clone();
    let is_phase = ["Pending", "Available", "Bound"].iter().any(|it| phase == *it);
    ensure!(is_phase, "phase of the volume: saw {phase}");

    let condition = |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": "by the suite" });
    let patch = json!({ "status": { "conditions": [condition("StatusPatched", "Patched")] } });
    let patched = storage.claims.patch_part(claim, "status", Patch::Merge, &patch).await?;
    has_condition(&patched, "StatusPatched", "Patched")?;
    let patch = json!({ "status": { "reason": "Patched", "message": "by the suite" } });
    let patched = storage.volumes.patch_part(volume, "status", Patch::Merge, &patch).await?;
    shows(&patched, &patch)?;

    let replaced = storage
        .claims
        .change(claim, Some("status"), |it| {
            let conditions = it["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.unwrap_or_default();
            conditions.push(condition("StatusUpdated", "Updated"));
            it["status"]["conditions"] = json!(conditions);
        })
        .await?;
    has_condition(&replaced, "StatusUpdated", "Updated")?;
    let update = json!({ "reason": "Updated", "message": "once more" });
    let replaced = storage
        .volumes
        .change(volume, Some("status"), |it| {
            it["status"]["reason"] = update["reason"].clone();
            it["status"]["message"] = update["message"].clone();
        })
        .await?;
    shows(&replaced["status"], &update)
}

fn has_condition(claim: &Value, kind: &str, reason: &str) -> Result<()> {
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    let mut of_kind = conditions.filter(|it| it["type"] == kind);
    let found = of_kind.any(|it| it["reason"] == reason && it["message"] == "by the suite");
    ensure!(found, "expected the condition {kind} with {reason}, saw {claim}");
    Ok(())
}
