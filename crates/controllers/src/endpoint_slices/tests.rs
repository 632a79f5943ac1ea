//! Pods and slices of a Service in, writes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::pod::{Pod, PodView};
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{Observed, plan};
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
        Observed { service, pods, slices, endpoints_per_slice: 3 }
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
            plan(&self.observed(pods)).into_iter().map(|it| self.apply(it)).collect();
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
                |model: &Model| plan(&model.observed(pods(numbers.clone()))),
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
