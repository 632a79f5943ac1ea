//! What drivers of volumes say of themselves, and pods that name one.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{count, refused, same, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-storage] CSIInlineVolumes should run through the lifecycle of a CSIDriver [Conformance]",
        drivers
    ),
    case!(
        "[sig-storage] CSIInlineVolumes should support CSIVolumeSource in Pod API [Conformance]",
        inline_volumes
    ),
    case!(
        "[sig-storage] CSINodes CSI Conformance should run through the lifecycle of a csinode [Conformance]",
        nodes
    ),
    case!(
        "[sig-storage] CSIStorageCapacity should support CSIStorageCapacities API operations [Conformance]",
        capacities
    ),
];

const GROUP: &str = "storage.k8s.io/v1";

async fn drivers(scope: &Scope) -> Result<()> {
    let drivers = Operations {
        group_version: GROUP,
        resource: "csidrivers",
        kind: "CSIDriver",
        is_namespaced: false,
        object: json!({ "spec": {
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "storageCapacity": false,
        } }),
        change: json!({ "spec": { "storageCapacity": true } }),
        status: None,
        names: None,
    };
    drivers.check(scope).await
}

async fn nodes(scope: &Scope) -> Result<()> {
    let driver =
        json!({ "name": "conformance.example.com", "nodeID": "none", "topologyKeys": ["zone"] });
    let nodes = Operations {
        group_version: GROUP,
        resource: "csinodes",
        kind: "CSINode",
        is_namespaced: false,
        object: json!({ "spec": { "drivers": [driver] } }),
        change: json!({}),
        status: None,
        names: None,
    };
    nodes.check(scope).await
}

async fn capacities(scope: &Scope) -> Result<()> {
    let capacities = Operations {
        group_version: GROUP,
        resource: "csistoragecapacities",
        kind: "CSIStorageCapacity",
        is_namespaced: true,
        object: json!({ "storageClassName": "conformance.example.com", "capacity": "1Gi" }),
        change: json!({ "capacity": "2Gi" }),
        status: None,
        names: None,
    };
    capacities.check(scope).await
}

async fn inline_volumes(scope: &Scope) -> Result<()> {
    let driver = "conformance.example.com";
    let mut pod = pods::idle("pod");
    pod["spec"]["volumes"] = json!([
        { "name": "one", "csi": { "driver": driver } },
        { "name": "two", "csi": { "driver": driver, "fsType": "ext4", "readOnly": true } },
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        { "name": "one", "mountPath": "/mnt/one" }, { "name": "two", "mountPath": "/mnt/two" },
    ]);
    // The server adds what belongs to the account.
    pod["spec"]["automountServiceAccountToken"] = json!(false);
    let pods = scope.own("v1", "pods");
    let made = pods.create(&pod).await?;
    shows(&made, &pod)?;
    refused("the same pod again", pods.create(&pod).await, 409)?;
    same("uid", &pods.get("pod").await?["metadata"]["uid"], &made["metadata"]["uid"])?;
    count("pods", &pods.list(&[]).await?, 1)?;
    let patch = json!({ "metadata": { "annotations": { "patched": "yes" } } });
    shows(&pods.patch("pod", Patch::Merge, &patch).await?, &patch)?;
    pods.delete("pod").await?;
    match pods.get("pod").await {
        Ok(left) => ensure!(left["metadata"]["deletionTimestamp"].is_string(), "saw {left}"),
        outcome => drop(refused("reading what was deleted", outcome, 404)?),
    }
    Ok(())
}
