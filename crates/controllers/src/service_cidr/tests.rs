//! A range, other ranges and addresses in, writes out.

use std::sync::Arc;

use api::networking::{IPAddress, ServiceCIDR};
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Action, Observed, Plan, plan};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// The range that is looked at, and what is around it.
#[derive(Clone, Debug)]
struct Model {
    range: Value,
    others: Vec<&'static str>,
    addresses: Vec<String>,
    now: i64,
}

impl Model {
    fn new(cidr: &str) -> Self {
        let range = json!({
            "metadata": {"name": "more", "uid": "r"},
            "spec": {"cidrs": [cidr]}, "status": {"conditions": []},
        });
        Self { range, others: Vec::new(), addresses: Vec::new(), now: 0 }
    }

    fn deleted(mut self) -> Self {
        self.range["metadata"]["deletionTimestamp"] = json!(at(self.now).to_string());
        self
    }

    fn plan(&self) -> Plan {
        let range: ServiceCIDR = serde_json::from_value(self.range.clone()).unwrap();
        let other = |(n, cidr): (usize, &&str)| -> ServiceCIDR {
            let range = json!({
                "metadata": {"name": format!("other-{n}")}, "spec": {"cidrs": [cidr]},
            });
            serde_json::from_value(range).unwrap()
        };
        let address = |it: &String| -> IPAddress {
            let (name, manager) = it.split_once(" by ").unwrap_or((it, "ipallocator.k8s.io"));
            let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
            serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "labels": {"ipaddress.kubernetes.io/managed-by": manager},
                },
                "spec": {"parentRef": parent},
            }))
            .unwrap()
        };
        let range = Arc::new(range);
        let others = self.others.iter().enumerate().map(other).map(Arc::new);
        plan(&Observed {
            ranges: others.chain([range.clone()]).collect(),
            range,
            addresses: self.addresses.iter().map(address).map(Arc::new).collect(),
            now: at(self.now),
        })
    }

    fn apply(&mut self, action: Action) -> String {
        match action {
            Action::Protect(finalizers) => {
                let told = format!("finalizers [{}]", finalizers.join(","));
                self.range["metadata"]["finalizers"] = json!(finalizers);
                told
            }
            Action::SetReady(condition) => {
                let told = format!("Ready={} {}", condition.status, condition.reason);
                self.range["status"]["conditions"] =
                    json!([serde_json::to_value(condition).unwrap()]);
                told.trim_end().to_owned()
            }
        }
    }

    /// What happens until nothing is left to do, or to wait for a time.
    fn run(&mut self) -> String {
        let mut told = Vec::new();
        for _ in 0..4 {
            let plan = self.plan();
            told.extend(plan.wait.map(|it| format!("wait {}s", it.as_secs())));
            if plan.actions.is_empty() {
                break;
            }
            for action in plan.actions {
                told.push(self.apply(action));
            }
        }
        told.join(", ")
    }

    fn message(&self) -> &str {
        self.range["status"]["conditions"][0]["message"].as_str().unwrap()
    }
}

const PROTECTED: &str = "finalizers [networking.k8s.io/service-cidr-finalizer], Ready=True";

#[test]
fn a_new_range_is_protected_and_ready() {
    let mut model = Model::new("10.97.0.0/28");
    assert_eq!(model.run(), PROTECTED);
    assert_eq!(model.message(), "Kubernetes Service CIDR is ready");
    assert_eq!(model.run(), "");
    // What others keep it for stays.
    let mut model = Model::new("10.97.0.0/28");
    model.range["metadata"]["finalizers"] = json!(["example.com/x"]);
    let told = "finalizers [example.com/x,networking.k8s.io/service-cidr-finalizer], Ready=True";
    assert_eq!(model.run(), told);
}

#[test]
fn a_range_goes_a_while_after_its_deletion() {
    let mut model = Model::new("10.97.0.0/28");
    model.run();
    model = model.deleted();
    assert_eq!(model.run(), "wait 10s");
    model.now = 9;
    assert_eq!(model.run(), "wait 1s");
    model.now = 10;
    assert_eq!(model.run(), "finalizers []");
    assert_eq!(model.run(), "");
}

#[test]
fn a_range_stays_while_a_service_has_an_address_of_it_alone() {
    let mut model = Model::new("10.97.0.0/28");
    model.run();
    model.addresses = ["10.96.0.1", "10.97.0.3", "10.97.0.4"].map(str::to_owned).into();
    model = model.deleted();
    model.now = 60;
    assert_eq!(model.run(), "Ready=False Terminating");
    let words = "There are still IPAddresses referencing the ServiceCIDR, please remove them or \
                 create a new ServiceCIDR";
    assert_eq!(model.message(), format!("{words}: 10.97.0.3 of services default/web"));
    // What was said stays true: nothing is written.
    model.addresses.remove(2);
    assert_eq!(model.run(), "");
    model.addresses = vec!["10.97.0.4".to_owned()];
    assert_eq!(model.run(), "Ready=False Terminating");
    assert!(model.message().ends_with("10.97.0.4 of services default/web"));
    model.addresses = vec!["10.97.0.5 by example.com".to_owned()];
    assert_eq!(model.run(), "finalizers []");
}

#[test]
fn a_range_that_others_cover_may_go() {
    for (others, expected) in [
        (vec!["10.97.0.0/16"], "finalizers []"),
        (vec!["10.97.0.0/28"], "finalizers []"),
        // Not all of it, but what is in use.
        (vec!["10.97.0.0/29"], "finalizers []"),
        (vec!["10.97.0.8/29"], "Ready=False Terminating"),
    ] {
        let mut model = Model::new("10.97.0.0/28");
        model.run();
        model.addresses = vec!["10.97.0.3".to_owned()];
        model.others = others.clone();
        model = model.deleted();
        model.now = 60;
        assert_eq!(model.run(), expected, "{others:?}");
    }
}

#[test]
fn ranges_that_cannot_be_read_keep_nothing() {
    let mut model = Model::new("nonsense");
    assert_eq!(model.run(), PROTECTED);
    model.addresses = vec!["10.97.0.3".to_owned()];
    model = model.deleted();
    model.now = 60;
    assert_eq!(model.run(), "finalizers []");
}

proptest! {
    #[test]
    fn every_range_comes_to_rest(
        is_deleted in any::<bool>(),
        addresses in prop::collection::vec("10\\.97\\.0\\.[0-9]{1,2}", 0..6),
        others in prop::collection::vec(
            prop::sample::select(vec!["10.97.0.0/26", "10.97.0.0/30", "10.0.0.0/8", "fd00::/64"]),
            0..3,
        ),
        now in 0..30i64,
    ) {
        let mut model = Model { addresses, others, ..Model::new("10.97.0.0/26") };
        if is_deleted {
            model.run();
            model = model.deleted();
        }
        model.now = now;
        let rested = converges(
            |model: &Model| model.plan().actions,
            |model, action| _ = model.apply(action),
            model,
            2,
        );
        prop_assert!(rested.is_ok(), "{rested:?}");
    }
}
