//! A write by node-1 in, refusal out.

use std::sync::Arc;

use api::Resource;
use api::coordination::Lease;
use api::core::{Node, Pod};
use apimachinery::User;
use serde_json::{Value, json};

use super::NodeRestriction;
use crate::attributes::Operation::{self, Create, Delete, Update};
use crate::chain::Plugin as _;
use crate::plugins::fixture::{Case, Objects, decode, now};

fn check<T: Resource>(
    (operation, resource): (Operation, &str),
    object: Option<&Value>,
    old: Option<&Value>,
    expected: &str,
) {
    let user = User::new("system:node:node-1", &["system:nodes"]);
    let meta = &object.or(old).unwrap()["metadata"];
    let (namespace, name) =
        (meta["namespace"].as_str().unwrap_or(""), meta["name"].as_str().unwrap());
    let case = Case { operation, resource, namespace, name, user: &user };
    let mut new = object.map(decode::<T>);
    let old = old.map(decode::<T>);
    let mut attributes = case.attributes(
        new.as_mut().map(|it| it as &mut dyn api::ApiObject),
        old.as_ref().map(|it| it as &dyn api::ApiObject),
    );
    let plugin = NodeRestriction::new(Arc::new(Objects::default()));
    let outcome = now(plugin.admit(&mut attributes));
    let said = outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned());
    assert!(said.contains(expected), "{said} has no {expected}");
}

fn pod(node: &str, annotations: &Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
        "spec": {"nodeName": node, "containers": []}})
}

#[test]
fn pods_are_written_by_the_node_they_run_on() {
    let (own, other) = (pod("node-1", &json!({})), pod("node-2", &json!({})));
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    check::<Pod>((Create, "/pods"), Some(&own), None, "can only create mirror pods");
    check::<Pod>((Create, "/pods"), Some(&pod("node-1", &mirror)), None, "ok");
    check::<Pod>((Create, "/pods"), Some(&pod("node-2", &mirror)), None, "set to itself");
    check::<Pod>((Delete, "/pods"), None, Some(&own), "ok");
    check::<Pod>((Delete, "/pods"), None, Some(&other), "can only delete pods");
    check::<Pod>((Update, "/pods/status"), Some(&own), Some(&own), "ok");
    check::<Pod>(
        (Update, "/pods/status"),
        Some(&other),
        Some(&other),
        "can only update pod status",
    );
}

#[test]
fn a_node_writes_its_own_node_but_not_its_taints() {
    let node = |name: &str, taints: &Value| json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    let (own, other) = (node("node-1", &json!([])), node("node-2", &json!([])));
    let tainted = node("node-1", &json!([{"key": "a", "effect": "NoSchedule"}]));
    check::<Node>((Create, "/nodes"), Some(&own), None, "ok");
    check::<Node>((Create, "/nodes"), Some(&tainted), None, "ok");
    check::<Node>((Create, "/nodes"), Some(&other), None, "not allowed to modify node \"node-2\"");
    check::<Node>((Update, "/nodes/status"), Some(&own), Some(&own), "ok");
    check::<Node>((Update, "/nodes"), Some(&own), Some(&tainted), "not allowed to modify taints");
    let labelled = json!({"metadata": {"name": "node-1", "labels": {"node-restriction.kubernetes.io/a": "b"}}});
    check::<Node>(
        (Create, "/nodes"),
        Some(&labelled),
        None,
        "not allowed to set the following labels",
    );
}

#[test]
fn a_node_writes_its_own_lease() {
    let lease =
        |namespace: &str, name: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    let at = (Update, "coordination.k8s.io/leases");
    check::<Lease>(at, Some(&lease("kube-node-lease", "node-1")), None, "ok");
    check::<Lease>(at, Some(&lease("kube-node-lease", "node-2")), None, "same name");
    check::<Lease>(
        at,
        Some(&lease("kube-system", "node-1")),
        None,
        "\"kube-node-lease\" system namespace",
    );
}
