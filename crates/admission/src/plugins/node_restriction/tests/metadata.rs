//! Every field of the metadata of every object that a node may update. CVE-2025-5187 was one of
//! these fields.

use serde_json::{Value, json};

use super::{check, pod, with};
use crate::attributes::Operation::Update;
use api::core::{Node, Pod};

/// What becomes of a change of the field by a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The server puts back what was stored, whoever writes.
    NotTaken,
    /// Anybody who may write the object may change it, nodes too.
    Taken,
    /// Refused with this text on the node, and this on the status of a pod.
    Refused { node: &'static str, pod: &'static str },
}

use Change::{NotTaken, Refused, Taken};

fn rows() -> Vec<(&'static str, Value, Change)> {
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}]);
    let label = json!({"node-role.kubernetes.io/control-plane": ""});
    vec![
        ("annotations", json!({"a": "b"}), Taken),
        ("creationTimestamp", json!("2020-01-01T00:00:00Z"), NotTaken),
        ("deletionGracePeriodSeconds", json!(1), NotTaken),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z"), NotTaken),
        ("finalizers", json!(["a.b/c"]), Taken),
        ("generateName", json!("x"), Taken),
        ("generation", json!(7), NotTaken),
        (
            "labels",
            label,
            Refused {
                node: "is not allowed to modify labels",
                pod: "cannot update labels through pod status",
            },
        ),
        ("managedFields", json!([{"manager": "x"}]), NotTaken),
        ("name", json!("x"), NotTaken),
        ("namespace", json!("x"), NotTaken),
        // Through its status a pod keeps its owners, whoever writes.
        (
            "ownerReferences",
            owner,
            Refused { node: "is not allowed to modify ownerReferences", pod: "ok" },
        ),
        ("resourceVersion", json!("7"), NotTaken),
        ("selfLink", json!("/x"), NotTaken),
        ("uid", json!("x"), NotTaken),
    ]
}

#[test]
fn every_field_of_the_metadata_has_a_row() {
    let schema = api::schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").resolve();
    let fields: Vec<&str> = schema.properties.keys().map(String::as_str).collect();
    let rows = rows();
    let known: Vec<&str> = rows.iter().map(|it| it.0).collect();
    assert_eq!(fields, known);
}

#[test]
fn a_node_changes_no_metadata_that_decides_what_it_gets() {
    let node = json!({"metadata": {"name": "node-1"}});
    for (field, value, change) in rows() {
        let expected = match change {
            Refused { node, pod } => (node, pod),
            Taken | NotTaken => ("ok", "ok"),
        };
        // What is not taken has been put back before the plugin looks.
        if change == NotTaken {
            continue;
        }
        let pointer = format!("/metadata/{field}");
        let changed = with(&node, &pointer, &value);
        for resource in ["/nodes", "/nodes/status"] {
            check::<Node>((Update, resource), Some(&changed), Some(&node), expected.0);
            check::<Node>((Update, resource), Some(&node), Some(&changed), expected.0);
        }
        let own = pod("node-1");
        let changed = with(&own, &pointer, &value);
        check::<Pod>((Update, "/pods/status"), Some(&changed), Some(&own), expected.1);
        check::<Pod>((Update, "/pods/status"), Some(&own), Some(&changed), expected.1);
    }
}
