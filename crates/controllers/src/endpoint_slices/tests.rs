//! Pods and slices of a Service in, writes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::hints::{Verdict, shares};
use super::plan::{Observed, Plan, plan};
use crate::slices::Action;

fn service(families: &[&str]) -> Arc<Service> {
    let service = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {
            "clusterIP": "10.0.0.9", "ipFamilies": families,
            "ports": [{"name": "web", "port": 80, "targetPort": 8080}],
        },
    });
    Arc::new(serde_json::from_value(service).unwrap())
}

fn pod(number: usize, is_ready: bool, is_deleting: bool) -> Arc<PodView> {
    let mut pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}")},
        "spec": {"containers": [], "nodeName": "n"},
        "status": {
            "phase": "Running",
            "podIPs": [
                {"ip": format!("10.1.{}.{}", number / 200, number % 200)},
                {"ip": format!("fd01::{number:x}")},
            ],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
        },
    });
    if is_deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
}

fn pods(numbers: impl IntoIterator<Item = usize>) -> Vec<Arc<PodView>> {
    numbers.into_iter().map(|it| pod(it, true, false)).collect()
}

/// A Service, its slices, and the writes made so far.
struct Model {
    families: &'static [&'static str],
    slices: BTreeMap<String, Arc<EndpointSlice>>,
    next: usize,
}

impl Model {
    fn new() -> Self {
        Self { families: &["IPv4"], slices: BTreeMap::new(), next: 0 }
    }

    fn observed(&self, pods: Vec<Arc<PodView>>) -> Observed {
        let slices = self.slices.values().cloned().collect();
        let service = service(self.families);
        let zones = [("n".to_owned(), String::new())].into();
        Observed {
            service,
            pods,
            zones,
            slices,
            endpoints_per_slice: 3,
            trigger: None,
            shares: None,
        }
    }

    /// The slices by family and addresses: `IPv4: 10.1.0.0,10.1.0.1`.
    fn show(&self) -> Vec<String> {
        let show = |it: &Arc<EndpointSlice>| {
            let endpoints = it.endpoints.iter().flatten();
            let addresses: Vec<_> = endpoints.flat_map(|it| it.addresses.clone()).collect();
            format!("{}: {}", it.address_type, addresses.join(",")).trim_end().to_owned()
        };
        let mut lines: Vec<_> = self.slices.values().map(show).collect();
        lines.sort();
        lines
    }

    /// Plans, carries out, and tells: `create 3, update 2, delete`.
    fn step(&mut self, pods: Vec<Arc<PodView>>) -> String {
        let words: Vec<String> =
            plan(&self.observed(pods)).actions.into_iter().map(|it| self.apply(it)).collect();
        words.join(", ")
    }

    fn apply(&mut self, action: Action) -> String {
        let size = |it: &EndpointSlice| it.endpoints.as_ref().map_or(0, Vec::len);
        match action {
            Action::Create(mut slice) => {
                self.next += 1;
                let (name, told) =
                    (format!("web-{}", self.next), format!("create {}", size(&slice)));
                slice.metadata.name = Some(name.clone());
                self.slices.insert(name, Arc::new(*slice));
                told
            }
            Action::Update(slice) => {
                let told = format!("update {}", size(&slice));
                self.slices.insert(slice.metadata.name.clone().unwrap(), Arc::new(*slice));
                told
            }
            Action::Delete(slice) => {
                self.slices.remove(slice.metadata.name.as_ref().unwrap());
                "delete".to_owned()
            }
        }
    }
}

#[test]
fn slices_that_are_written_say_when_the_change_happened() {
    const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";
    let mut model = Model::new();
    let mut step = |pods: Vec<Arc<PodView>>, trigger: Option<&str>| {
        let trigger = trigger.map(|it| it.parse().unwrap());
        let planned = plan(&Observed { trigger, ..model.observed(pods) });
        planned.actions.into_iter().for_each(|it| _ = model.apply(it));
        let one = |it: &Arc<EndpointSlice>| {
            it.metadata.annotations.as_ref().and_then(|it| it.get(ANNOTATION)).cloned()
        };
        model.slices.values().map(one).collect::<Vec<_>>()
    };
    let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z");
    assert_eq!(step(pods(0..3), Some(one)), [Some(one.to_owned())]);
    // Nothing else has changed: nothing is written.
    assert_eq!(step(pods(0..3), Some(two)), [Some(one.to_owned())]);
    assert_eq!(step(pods(0..4), Some(two)), [Some(one.to_owned()), Some(two.to_owned())]);
    assert_eq!(step(pods(0..5), None), [Some(one.to_owned()), None]);
}

#[test]
fn slices_fill_up_before_new_ones_are_made() {
    let mut model = Model::new();
    assert_eq!(model.step(pods(0..4)), "create 3, create 1");
    assert_eq!(model.step(pods(0..4)), "");
    assert_eq!(model.step(pods(0..5)), "update 2");
    assert_eq!(model.step(pods(0..7)), "create 2");
}

#[test]
fn one_pod_gone_is_one_write() {
    let mut model = Model::new();
    model.step(pods(0..6));
    assert_eq!(model.step(pods(1..6)), "update 2");
    assert_eq!(model.step(pods(3..6)), "delete");
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let mut model = Model::new();
    assert_eq!(model.step(Vec::new()), "create 0");
    assert_eq!(model.step(Vec::new()), "");
    model.step(pods(0..2));
    assert_eq!(model.slices.len(), 1);
    model.step(Vec::new());
    assert_eq!(model.slices.len(), 1);
    assert_eq!(model.step(Vec::new()), "");
}

#[test]
fn a_terminating_pod_serves_but_is_not_ready() {
    let mut model = Model::new();
    model.step(vec![pod(0, true, true)]);
    let slice = model.slices.values().next().unwrap();
    let conditions = slice.endpoints.as_ref().unwrap()[0].conditions.clone().unwrap();
    let found = (conditions.ready, conditions.serving, conditions.terminating);
    assert_eq!(found, (Some(false), Some(true), Some(true)));
}

#[test]
fn a_service_has_slices_of_each_of_its_families() {
    let mut model = Model { families: &["IPv6", "IPv4"], ..Model::new() };
    model.step(pods(0..2));
    assert_eq!(model.show(), ["IPv4: 10.1.0.0,10.1.0.1", "IPv6: fd01::0,fd01::1"]);
    assert_eq!(model.step(pods(0..2)), "");
    // A family that it has no longer leaves none, and one that it gets has its own.
    model.families = &["IPv6"];
    assert_eq!(model.step(pods(0..2)), "delete");
    assert_eq!(model.show(), ["IPv6: fd01::0,fd01::1"]);
    model.families = &["IPv6", "IPv4"];
    assert_eq!(model.step(pods(0..2)), "create 2");
    model.step(Vec::new());
    assert_eq!(model.show(), ["IPv4:", "IPv6:"]);
    assert_eq!(model.step(Vec::new()), "");
}

proptest! {
    #[test]
    fn every_change_settles_after_one_round(
        rounds in prop::collection::vec(prop::collection::btree_set(0..20usize, 0..15), 1..6),
    ) {
        let mut model = Model::new();
        for numbers in rounds {
            let rested = converges(
                |model: &Model| plan(&model.observed(pods(numbers.clone()))).actions,
                |model, action| _ = model.apply(action),
                model,
                1,
            );
            model = rested.unwrap();
            let shown: usize =
                model.slices.values().map(|it| it.endpoints.as_ref().map_or(0, Vec::len)).sum();
            prop_assert_eq!(shown, numbers.len());
            prop_assert!(
                model.slices.values().all(|it| it.endpoints.as_ref().is_none_or(|it| it.len() <= 3))
            );
        }
    }
}

/// Pods of a Service that asks for `routing`, on nodes named for their zones: `a`, `b`, ... have
/// one, `-` has none.
struct Zoned {
    service: Arc<Service>,
    pods: Vec<Arc<PodView>>,
    cpus: Vec<(&'static str, i64)>,
    slices: BTreeMap<String, Arc<EndpointSlice>>,
    next: usize,
}

fn zoned(routing: &str, places: &str, cpus: &[(&'static str, i64)]) -> Zoned {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80}]},
    });
    match routing {
        "" => {}
        "Auto" => {
            service["metadata"]["annotations"] =
                json!({"service.kubernetes.io/topology-mode": "Auto"});
        }
        _ => service["spec"]["trafficDistribution"] = json!(routing),
    }
    let service = Arc::new(serde_json::from_value(service).unwrap());
    let pods = place(places);
    Zoned { service, pods, cpus: cpus.to_vec(), slices: BTreeMap::new(), next: 0 }
}

fn place(places: &str) -> Vec<Arc<PodView>> {
    let place = |(n, node): (usize, char)| {
        let mut pod = PodView::clone(&pod(n, !node.is_uppercase(), false));
        pod.node_name = api::Interned::new(&node.to_ascii_lowercase().to_string());
        Arc::new(pod)
    };
    places.chars().enumerate().map(place).collect()
}

impl Zoned {
    fn plan(&self) -> Plan {
        let node = |(zone, cpu): &(&str, i64)| {
            let node = json!({
                "metadata": {"name": zone, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {
                    "allocatable": {"cpu": cpu.to_string()},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            });
            Arc::new(NodeView::from(&serde_json::from_value::<Node>(node).unwrap()))
        };
        let nodes: Vec<Arc<NodeView>> = self.cpus.iter().map(node).collect();
        let zones = ('a'..='f').map(|it| (it.to_string(), it.to_string()));
        plan(&Observed {
            service: self.service.clone(),
            pods: self.pods.clone(),
            zones: zones.chain([("-".to_owned(), String::new())]).collect(),
            slices: self.slices.values().cloned().collect(),
            endpoints_per_slice: 3,
            trigger: None,
            shares: shares(&nodes),
        })
    }

    fn apply(&mut self, action: Action) {
        let mut model = Model {
            families: &["IPv4"],
            slices: std::mem::take(&mut self.slices),
            next: self.next,
        };
        model.apply(action);
        (self.slices, self.next) = (model.slices, model.next);
    }

    fn settle(&mut self) -> Plan {
        let plan = self.plan();
        plan.actions.iter().cloned().for_each(|it| self.apply(it));
        assert_eq!(self.plan().actions, [], "one round is enough");
        plan
    }

    /// Whom each pod is meant for: `a>b` in zone a for zone b, `/n` for a node.
    fn hints(&self) -> String {
        let mut all: Vec<(String, String)> = Vec::new();
        for endpoint in self.slices.values().flat_map(|it| it.endpoints.iter().flatten()) {
            let hints = endpoint.hints.clone().unwrap_or_default();
            let zones: String =
                hints.for_zones.iter().flatten().map(|it| it.name.clone()).collect();
            let nodes: String =
                hints.for_nodes.iter().flatten().map(|it| format!("/{}", it.name)).collect();
            let zone = endpoint.zone.as_deref().unwrap_or("-");
            all.push((endpoint.addresses[0].clone(), format!("{zone}>{zones}{nodes}")));
        }
        all.sort();
        all.into_iter().map(|(_, it)| it).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn close_endpoints_are_for_their_own_zone_or_node() {
    for (routing, expected) in [
        ("", "a> b> ->"),
        ("PreferClose", "a>a b>b ->"),
        ("PreferSameZone", "a>a b>b ->"),
        ("PreferSameNode", "a>a/a b>b/b ->/-"),
    ] {
        let mut model = zoned(routing, "ab-", &[]);
        model.settle();
        assert_eq!(model.hints(), expected, "{routing}");
    }
    // One that is not ready is for nobody.
    let mut model = zoned("PreferSameZone", "aB", &[]);
    model.settle();
    assert_eq!(model.hints(), "a>a b>");
    // And no hint stays when nobody asks any more.
    model.service = zoned("", "", &[]).service;
    assert_eq!(model.plan().actions.len(), 1);
    model.settle();
    assert_eq!(model.hints(), "a> b>");
}

#[test]
fn a_pod_of_a_node_that_is_gone_has_no_endpoint() {
    let mut model = zoned("", "ax", &[]);
    model.settle();
    assert_eq!(model.hints(), "a>");
}

const EVEN: &[(&str, i64)] = &[("a", 4), ("b", 4)];

#[test]
fn zones_get_endpoints_by_their_share_of_cpu() {
    let mut model = zoned("Auto", "aaaaabb", EVEN);
    assert_eq!(model.settle().hints["IPv4"], Verdict::Given);
    assert_eq!(model.hints(), "a>a a>a a>a a>a a>b b>b b>b");
    // What is good enough is left alone.
    let mut model = zoned("Auto", "aaaabbb", EVEN);
    model.settle();
    assert_eq!(model.hints(), "a>a a>a a>a a>a b>b b>b b>b");
    let mut model = zoned("Auto", "aaaa", &[("a", 3), ("b", 1)]);
    model.settle();
    assert_eq!(model.hints(), "a>a a>a a>a a>b");
}

#[test]
fn one_more_endpoint_is_one_write() {
    let mut model = zoned("Auto", "aaaabbbb", EVEN);
    model.settle();
    model.pods = place("aaaabbbba");
    assert_eq!(model.plan().actions.len(), 1);
    model.settle();
    assert_eq!(model.hints(), "a>a a>a a>a a>a b>b b>b b>b b>b a>a");
}

#[test]
fn hints_that_cannot_be_given_are_taken_away_and_the_reason_said() {
    let why = |places: &str, cpus: &[(&'static str, i64)]| {
        let mut model = zoned("Auto", places, cpus);
        let plan = model.settle();
        assert!(!model.hints().replace('>', "").contains(['>', '/']), "{}", model.hints());
        match &plan.hints["IPv4"] {
            Verdict::Impossible(why) => why.clone(),
            other => format!("{other:?}"),
        }
    };
    let unknown = "Insufficient Node information: allocatable CPU or zone not specified on one or \
                   more nodes";
    assert_eq!(why("aabb", &[]), unknown);
    assert_eq!(why("aabb", &[("a", 4)]), unknown);
    assert_eq!(why("aabb", &[("a", 4), ("b", 0)]), unknown);
    assert_eq!(why("a", EVEN), "Insufficient number of endpoints (1 endpoints, 2 zones)");
    assert_eq!(
        why("aab", EVEN),
        "Unable to allocate minimum required endpoints to each zone without exceeding overload \
         threshold (3 endpoints, 2 zones)"
    );
    assert_eq!(why("aab-", EVEN), "One or more endpoints do not have a zone specified");
}

proptest! {
    #[test]
    fn hints_come_to_rest_and_no_zone_is_overloaded(
        rounds in prop::collection::vec("[a-d]{1,14}", 1..4),
        cpus in prop::collection::vec(1..9i64, 4),
        routing in prop::sample::select(vec!["Auto", "PreferSameZone", "PreferSameNode", ""]),
    ) {
        let zones = ["a", "b", "c", "d"];
        let cpus: Vec<(&'static str, i64)> = zones.into_iter().zip(cpus).collect();
        let mut model = zoned(routing, "", &cpus);
        for places in rounds {
            model.pods = place(&places);
            let plan = model.settle();
            let hints = model.hints();
            if plan.hints.get("IPv4") == Some(&Verdict::Given) {
                let total: i64 = cpus.iter().map(|it| it.1).sum();
                for (zone, cpu) in &cpus {
                    let n = hints.split(' ').filter(|it| it.ends_with(&format!(">{zone}"))).count();
                    // Half an endpoint is not moved.
                    let share = places.len() as f64 * *cpu as f64 / total as f64;
                    prop_assert!(n as f64 >= share / 1.2 - 1.0, "{zone}: {n} of {share}: {hints}");
                }
            }
        }
    }
}
