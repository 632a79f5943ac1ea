//! Values that kube-apiserver v1.36.4 wrote to its etcd, byte for byte, with the objects that it
//! served of them. What it shows as empty may be absent here; nothing else may differ.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::GroupVersionResource;
use apiserver::Encoding;
use base64::Engine as _;
use client::{DynamicApi, PatchKind, WriteOptions};
use kvstore::memory::Memory;
use kvstore::{Op, Store as _, Txn};
use serde_json::{Value, json};

use super::{parse, place, start};
use crate::harness::Harness;

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("upstream_values.json")).expect("a list")
}

async fn filled() -> Arc<Memory> {
    let memory = Arc::new(Memory::new());
    for entry in recorded() {
        let (key, value) = (entry["key"].as_str(), entry["value"].as_str());
        let value = base64::engine::general_purpose::STANDARD.decode(value.expect("a value"));
        let put = Op::put(key.expect("a key").to_owned(), value.expect("base64"));
        memory.txn(Txn::of(vec![put])).await.expect("written");
    }
    memory
}

fn objects(server: &Harness, entry: &Value) -> DynamicApi {
    let api_version = entry["object"]["apiVersion"].as_str().expect("a version");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = entry["resource"].as_str().expect("a resource");
    server.client.dynamic(GroupVersionResource::new(group, version, resource))
}

/// Where they differ, as paths.
fn differences(found: &Value, expected: &Value, path: &str, all: &mut Vec<String>) {
    let is_empty = |it: &Value| *it == json!(null) || *it == json!({}) || *it == json!("");
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for name in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}.{name}");
                match (found.get(name), expected.get(name)) {
                    (Some(found), Some(expected)) => differences(found, expected, &path, all),
                    (None, Some(expected)) if is_empty(expected) => {}
                    _ => all.push(path),
                }
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                differences(found, expected, &format!("{path}[{index}]"), all);
            }
        }
        // 100 and 100.0 are the same to JSON.
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => {}
        _ if found == expected => {}
        _ => all.push(format!("{path}: {found} and not {expected}")),
    }
}

fn check(found: &Value, expected: &Value) {
    let mut found = found.clone();
    found["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let mut all = Vec::new();
    differences(&found, expected, "", &mut all);
    assert!(all.is_empty(), "{}: {all:#?}", expected["kind"]);
}

/// Kinds that came after the recording was made.
const NOT_RECORDED: &[&str] = &[
    "apiservices",
    "certificatesigningrequests",
    "clustertrustbundles",
    "controllerrevisions",
    "cronjobs",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "daemonsets",
    "deviceclasses",
    "devicetaintrules",
    "flowschemas",
    "horizontalpodautoscalers",
    "ingressclasses",
    "ingresses",
    "ipaddresses",
    "jobs",
    "leasecandidates",
    "limitranges",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "networkpolicies",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podcertificaterequests",
    "poddisruptionbudgets",
    "podgroups",
    "podtemplates",
    "priorityclasses",
    "prioritylevelconfigurations",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcepoolstatusrequests",
    "resourcequotas",
    "resourceslices",
    "runtimeclasses",
    "servicecidrs",
    "statefulsets",
    "storageclasses",
    "storageversionmigrations",
    "storageversions",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
    "volumeattributesclasses",
    "workloads",
];

#[tokio::test(start_paused = true)]
async fn what_upstream_wrote_is_served_as_upstream_serves_it() {
    let server = start(&filled().await, 1, Encoding::Protobuf).await;
    let entries = recorded();
    let has = |kind: &dyn api::Kind| {
        entries.iter().any(|it| it["resource"] == kind.names().plural.as_str())
    };
    for kind in api::kinds().iter().filter(|it| !it.registry_prefix().is_empty()) {
        let plural = kind.names().plural.as_str();
        let is_due = !NOT_RECORDED.contains(&plural);
        assert_eq!(has(kind.as_ref()), is_due, "what is recorded of {plural}");
    }
    for entry in &entries {
        let (namespace, name) = place(&entry["object"]);
        let found = objects(&server, entry).get(namespace, name).await;
        let found = found.unwrap_or_else(|err| panic!("{}: {err}", entry["key"]));
        check(&parse(&found.bytes), &entry["object"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_it_is_lost_when_it_is_written_here() {
    let memory = filled().await;
    let writer = start(&memory, 1, Encoding::Protobuf).await;
    for entry in recorded() {
        let (namespace, name) = place(&entry["object"]);
        let api = objects(&writer, &entry);
        let label = json!({"metadata": {"labels": {"touched": "here"}}}).to_string();
        let options = WriteOptions::default();
        let patched = api.patch(namespace, name, PatchKind::Merge, label.into(), options).await;
        let patched = patched.unwrap_or_else(|err| panic!("{}: {err}", entry["key"]));
        // Read from the store by one that did not write it.
        let mut found = parse(&patched.bytes);
        let reader = start(&memory, 2, Encoding::Protobuf).await;
        let read = objects(&reader, &entry).get(namespace, name).await.expect("found");
        assert_eq!(parse(&read.bytes), found);
        let mut expected = entry["object"].clone();
        for metadata in [&mut found["metadata"], &mut expected["metadata"]] {
            let metadata = metadata.as_object_mut().expect("metadata");
            for name in ["labels", "managedFields", "generation"] {
                metadata.remove(name);
            }
        }
        check(&found, &expected);
        reader.tasks.shutdown(std::time::Duration::from_secs(5)).await.expect("stopped");
    }
}
