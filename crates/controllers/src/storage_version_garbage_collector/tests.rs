//! A StorageVersion and who lives in, what is left of it out.

use api::apiserverinternal::StorageVersion;
use api::coordination::lease::Lease;
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::by_server;
use super::plan::{Action, is_identity, plan};

const BEFORE: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// Servers, and what each writes.
fn version(servers: &[(&str, &str)], common: Option<&str>) -> StorageVersion {
    let server = |(id, writes): &(&str, &str)| json!({"apiServerID": id, "encodingVersion": writes, "decodableVersions": [writes]});
    let condition = json!({
        "type": "AllEncodingVersionsEqual", "status": if common.is_some() { "True" } else { "False" },
        "reason": "R", "message": "M", "lastTransitionTime": BEFORE,
    });
    serde_json::from_value(json!({
        "metadata": {"name": "apps.deployments", "generation": 2},
        "spec": {},
        "status": {
            "storageVersions": servers.iter().map(server).collect::<Vec<_>>(),
            "commonEncodingVersion": common, "conditions": [condition],
        },
    }))
    .unwrap()
}

/// Servers, common version, condition and since when of what is left.
fn check(version: &StorageVersion, living: &[&str], expected: Option<Value>) {
    let planned = plan(version, |it| living.contains(&it), now());
    let left = planned.map(|it| match it {
        Action::Delete => json!("delete"),
        Action::Write(it) => {
            let status = it.status.clone().unwrap();
            let condition = status.conditions.as_ref().unwrap()[0].clone();
            let since = condition.last_transition_time.unwrap().0.to_string();
            json!([by_server(&it), status.common_encoding_version, condition.status, since])
        }
    });
    assert_eq!(left, expected, "{living:?}");
}

#[test]
fn servers_that_are_gone_are_taken_out() {
    let both = version(&[("a", "apps/v1"), ("b", "apps/v1")], Some("apps/v1"));
    check(&both, &["a", "b", "c"], None);
    check(&both, &["b"], Some(json!([["b"], "apps/v1", "True", BEFORE])));
    check(&both, &[], Some(json!("delete")));
    check(&version(&[], None), &[], None);
}

#[test]
fn those_who_are_left_may_agree() {
    let three = [("a", "v1"), ("b", "v2"), ("c", "v2")];
    let ten_minutes_later = now().to_string();
    let agreed = json!([["b", "c"], "v2", "True", ten_minutes_later]);
    check(&version(&three, None), &["b", "c"], Some(agreed));
    check(&version(&three, None), &["a", "b"], Some(json!([["a", "b"], null, "False", BEFORE])));
    // Another version is another agreement.
    let other = json!([["b"], "v2", "True", ten_minutes_later]);
    check(&version(&three, Some("v1")), &["b"], Some(other));
}

#[test]
fn only_servers_have_identities() {
    let lease = |labels: Value| -> Lease {
        serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}})).unwrap()
    };
    assert!(is_identity(&lease(json!({"apiserver.kubernetes.io/identity": "kube-apiserver"}))));
    assert!(!is_identity(&lease(json!({"apiserver.kubernetes.io/identity": "other"}))));
    assert!(!is_identity(&lease(json!(null))));
}

proptest! {
    #[test]
    fn it_comes_to_rest(servers in prop::collection::btree_map("[a-e]", "v[12]", 0..5), living in "[a-e]*") {
        let servers: Vec<(&str, &str)> = servers.iter().map(|(id, it)| (&**id, &**it)).collect();
        let planned = |it: &Option<StorageVersion>| -> Vec<Action> {
            it.iter().filter_map(|it| plan(it, |id| living.contains(id), now())).collect()
        };
        let apply = |state: &mut Option<StorageVersion>, action| *state = match action {
            Action::Delete => None,
            Action::Write(it) => Some(*it),
        };
        let left = converges(planned, apply, Some(version(&servers, None)), 2).unwrap();
        let servers = left.iter().flat_map(by_server).collect::<Vec<_>>();
        prop_assert!(servers.iter().all(|it| living.contains(it)));
    }
}
