//! Ten thousand policies on a server: what a write costs with them, counted. A number that grows with
//! the policies that a write does not concern is a mistake.

use std::sync::Arc;

use admission::policy::counts::{Counts, take};
use api::Dynamic;
use apimachinery::GroupVersionResource;
use client::{PatchKind, WriteOptions};
use kvstore::memory::Memory;
use kvstore::{Op, Store as _, Txn};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

const POLICIES: usize = 10_000;
/// Those that are for config maps.
const CONCERNED: usize = 10;
const GROUP: &str = "admissionregistration.k8s.io";

/// The first ones are for config maps, all others for what nobody has.
fn policy(index: usize) -> Value {
    let (group, resource) = match index < CONCERNED {
        true => ("", "configmaps".to_owned()),
        false => ("example.com", format!("things{}", index % 1_000)),
    };
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": format!("p{index:05}"), "uid": format!("p{index}")},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": [group], "apiVersions": ["*"], "operations": ["*"],
                    "resources": [resource], "scope": "*",
                }],
            },
            // One of them fails for most config maps.
            "validations": [{"expression": match index {
                3 => "object.data['mode'] != 'bad'".to_owned(),
                _ => format!("!has(object.data) || object.data.size() < {}", index + 100),
            }}],
        },
    })
}

fn binding(index: usize) -> Value {
    let name = format!("p{index:05}");
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "uid": format!("b{index}")},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}

/// A server over a store that has them all.
async fn start() -> Harness {
    let store = Arc::new(Memory::new());
    for index in 0..POLICIES {
        let ops = [("policies", policy(index)), ("policybindings", binding(index))];
        let ops = ops.map(|(plural, object)| {
            let key = format!("/registry/validatingadmission{plural}/p{index:05}");
            Op::put(key, object.to_string())
        });
        store.txn(Txn::when(Vec::new(), ops.into())).await.expect("written");
    }
    harness::start_over(World::simulated(1), store).await
}

struct Cluster {
    harness: Harness,
}

impl Cluster {
    /// What a write costs, and how it ends.
    async fn create(&self, kind: &str, name: &str, data: Value) -> (Counts, Result<(), String>) {
        let plural = format!("{}s", kind.to_lowercase());
        let api = self.harness.client.dynamic(GroupVersionResource::new("", "v1", &plural));
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            "data": data,
        });
        take();
        let outcome = api.create(Dynamic::from_value(object).expect("an object")).await;
        (take(), outcome.map(drop).map_err(|it| it.to_string()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_costs_what_the_policies_for_it_cost() {
    let cluster = Cluster { harness: start().await };
    let nothing = Counts::default();
    // Where requests find them they are put once.
    let (counts, outcome) = cluster.create("Secret", "first", json!({})).await;
    assert_eq!((counts, outcome), (Counts { sorted: POLICIES, ..nothing }, Ok(())));
    let (counts, outcome) = cluster.create("Secret", "second", json!({})).await;
    assert_eq!((counts, outcome), (nothing, Ok(())));
    // Those that are for it are compiled when they are needed, and once.
    let good = json!({"mode": "good"});
    let (counts, outcome) = cluster.create("ConfigMap", "first", good.clone()).await;
    let expected = Counts { sorted: 0, found: CONCERNED, compiled: CONCERNED };
    assert_eq!((counts, outcome), (expected, Ok(())));
    let (counts, outcome) = cluster.create("ConfigMap", "second", good).await;
    assert_eq!((counts, outcome), (Counts { found: CONCERNED, ..nothing }, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn one_policy_of_many_that_changes_or_fails_is_the_only_one_to_be_dealt_with() {
    let cluster = Cluster { harness: start().await };
    let (_, outcome) = cluster.create("ConfigMap", "bad", json!({"mode": "bad"})).await;
    let refused = outcome.expect_err("one of them says no");
    assert!(
        refused.contains("ValidatingAdmissionPolicy 'p00003' with binding 'p00003'"),
        "{refused}"
    );
    // It fails closed, by its name, and stops nobody else's objects.
    let (_, outcome) = cluster.create("ConfigMap", "odd", json!({})).await;
    let refused = outcome.expect_err("it cannot be evaluated");
    assert!(refused.contains("'p00003'") && refused.contains("no such key"), "{refused}");
    let (counts, outcome) = cluster.create("Secret", "other", json!({})).await;
    assert_eq!((counts, outcome), (Counts::default(), Ok(())));

    let policies = GroupVersionResource::new(GROUP, "v1", "validatingadmissionpolicies");
    let policies = cluster.harness.client.dynamic(policies);
    let patch = json!({"spec": {"failurePolicy": "Ignore"}}).to_string();
    let options = WriteOptions::default();
    take();
    policies.patch("", "p00003", PatchKind::Merge, patch.into(), options).await.expect("patched");
    assert_eq!(take(), Counts::default(), "nothing is sorted before somebody asks");
    let (counts, outcome) = cluster.create("ConfigMap", "odd", json!({})).await;
    let expected = Counts { sorted: POLICIES, found: CONCERNED, compiled: 1 };
    assert_eq!((counts, outcome), (expected, Ok(())));
}
