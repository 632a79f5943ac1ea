//! Every amount that a pod can have is one that it counts for, or is known not to be. One that is new is
//! neither, and fails here until somebody has thought about it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Counted, now, read};
use crate::amounts;
use crate::core::pod_spec::fields::{self, with};

/// What comes of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Request,
    Limit,
    /// Beside what it is a part of: of what has no limit a part of one is none.
    Beside,
    /// While a container is resized.
    Resized,
    No,
}

/// Of one container, in a list of the spec.
const OF_CONTAINERS: &[(&str, Use)] = &[
    ("env.[].valueFrom.resourceFieldRef.divisor", Use::No),
    ("resources.limits.{}", Use::Limit),
    ("resources.requests.{}", Use::Request),
];
const OF_STATUSES: &[(&str, Use)] = &[
    ("allocatedResources.{}", Use::Resized),
    ("resources.limits.{}", Use::Resized),
    ("resources.requests.{}", Use::Resized),
];
const OF_PODS: &[(&str, Use)] = &[
    ("spec.overhead.{}", Use::Beside),
    ("spec.resources.limits.{}", Use::Limit),
    ("spec.resources.requests.{}", Use::Request),
    ("spec.volumes.[].downwardAPI.items.[].resourceFieldRef.divisor", Use::No),
    ("spec.volumes.[].emptyDir.sizeLimit", Use::No),
    // The claim that is made of it counts itself.
    ("spec.volumes.[].ephemeral.volumeClaimTemplate.spec.resources.limits.{}", Use::No),
    ("spec.volumes.[].ephemeral.volumeClaimTemplate.spec.resources.requests.{}", Use::No),
    ("spec.volumes.[].projected.sources.[].downwardAPI.items.[].resourceFieldRef.divisor", Use::No),
    ("status.allocatedResources.{}", Use::No),
    // They are of claims, which count themselves.
    ("status.nodeAllocatableResourceClaimStatuses.[].resources.{}", Use::No),
    ("status.resources.limits.{}", Use::No),
    ("status.resources.requests.{}", Use::No),
];

fn known() -> BTreeMap<String, Use> {
    let mut known: BTreeMap<String, Use> =
        OF_PODS.iter().map(|(path, it)| ((*path).to_owned(), *it)).collect();
    for (list, fields) in [
        ("spec.containers", OF_CONTAINERS),
        ("spec.initContainers", OF_CONTAINERS),
        ("spec.ephemeralContainers", OF_CONTAINERS),
        ("status.containerStatuses", OF_STATUSES),
        ("status.initContainerStatuses", OF_STATUSES),
        ("status.ephemeralContainerStatuses", OF_STATUSES),
    ] {
        // They may not ask for anything, and are given nothing.
        let is_ephemeral = list.contains("ephemeral");
        let fields = fields.iter().map(|(path, it)| {
            (format!("{list}.[].{path}"), if is_ephemeral { Use::No } else { *it })
        });
        known.extend(fields);
    }
    known
}

#[test]
fn no_amount_is_new() {
    let found = fields::all("io.k8s.api.core.v1.Pod", |_, schema| schema.format == "quantity");
    let known: BTreeSet<String> = known().into_keys().collect();
    assert_eq!(found, known, "do quotas count these?");
}

fn usage(pod: Value) -> String {
    let pod: Pod = read(pod);
    amounts::shown(&Counted::Pod(&pod).usage(now()))
}

#[test]
fn a_pod_counts_for_what_is_said_to_count() {
    for (path, used) in known() {
        let is_status = path.starts_with("status.");
        let mut pod = with(&path, json!("5"));
        pod["metadata"] = json!({"name": "web"});
        if is_status {
            // A container, and a sidecar: others are not resized.
            let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
            pod["spec"] = json!({
                "containers": [{"name": "c", "resources": resources}],
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": resources},
                ],
            });
        }
        for (list, name) in [("containerStatuses", "c"), ("initContainerStatuses", "s")] {
            let Some(status) = pod.pointer_mut(&format!("/status/{list}/0")) else { continue };
            status["name"] = json!(name);
            if status["resources"].is_null() {
                status["resources"] = json!({});
            }
        }
        let mut without = pod.clone();
        without["status"] = json!({});
        let expected = match used {
            Use::Request | Use::Beside => "count/pods=1,cpu=5,pods=1,requests.cpu=5".to_owned(),
            Use::Limit => "count/pods=1,limits.cpu=5,pods=1".to_owned(),
            Use::No if is_status => usage(without),
            Use::No => "count/pods=1,pods=1".to_owned(),
            Use::Resized => {
                let (before, now) = (usage(without), usage(pod.clone()));
                assert_ne!(now, before, "{path}");
                now
            }
        };
        assert_eq!(usage(pod), expected, "{path}");
    }
}
