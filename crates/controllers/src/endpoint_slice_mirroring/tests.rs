//! Endpoints, their Service and the copies in, writes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::endpoints::Endpoints;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Observed, Plan, plan};
use crate::slices::Action;

/// `ip,ip,!ip:port` each: addresses, those that are not ready, and the port.
fn endpoints(subsets: &[&str]) -> Value {
    let subsets: Vec<Value> = subsets
        .iter()
        .map(|it| {
            let (addresses, port) = it.rsplit_once(':').unwrap();
            let ips = |is_ready: bool| -> Vec<Value> {
                let all = addresses.split(',').filter(|it| it.starts_with('!') != is_ready);
                all.map(|it| json!({"ip": it.trim_start_matches('!')})).collect()
            };
            json!({
                "addresses": ips(true), "notReadyAddresses": ips(false),
                "ports": [{"port": port.parse::<i32>().unwrap()}],
            })
        })
        .collect();
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "e1", "labels": {"app": "web"}},
        "subsets": subsets,
    })
}

fn service(selector: Value) -> Option<Arc<Service>> {
    let service = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    });
    serde_json::from_value(service).unwrap()
}

/// Copies, by name.
struct Model {
    endpoints: Option<Value>,
    service: Option<Arc<Service>>,
    max_per_subset: usize,
    slices: BTreeMap<String, Arc<EndpointSlice>>,
    next: usize,
}

impl Model {
    fn new(subsets: &[&str]) -> Self {
        Self {
            endpoints: Some(endpoints(subsets)),
            service: service(Value::Null),
            max_per_subset: 5,
            slices: BTreeMap::new(),
            next: 0,
        }
    }

    fn plan(&self) -> Plan {
        let read = |it: &Value| serde_json::from_value::<Endpoints>(it.clone()).unwrap();
        plan(&Observed {
            endpoints: self.endpoints.as_ref().map(read).map(Arc::new),
            service: self.service.clone(),
            slices: self.slices.values().cloned().collect(),
            max_per_subset: self.max_per_subset,
        })
    }

    fn apply(&mut self, action: Action) -> String {
        match action {
            Action::Create(mut slice) => {
                self.next += 1;
                let name =
                    format!("{}{}", slice.metadata.generate_name.clone().unwrap(), self.next);
                slice.metadata.name = Some(name.clone());
                self.slices.insert(name.clone(), Arc::new(*slice));
                format!("create {name}")
            }
            Action::Update(slice) => {
                let name = slice.metadata.name.clone().unwrap();
                self.slices.insert(name.clone(), Arc::new(*slice));
                format!("update {name}")
            }
            Action::Delete(slice) => {
                let name = slice.metadata.name.clone().unwrap();
                self.slices.remove(&name);
                format!("delete {name}")
            }
        }
    }

    fn step(&mut self) -> String {
        let told: Vec<String> = self.plan().actions.into_iter().map(|it| self.apply(it)).collect();
        told.join(", ")
    }

    /// `IPv4 10.1.0.1,!10.1.0.2:80`
    fn show(&self) -> Vec<String> {
        let show = |slice: &Arc<EndpointSlice>| {
            let endpoints = slice.endpoints.iter().flatten().map(|it| {
                let is_ready = it.conditions.as_ref().and_then(|it| it.ready) == Some(true);
                format!("{}{}", if is_ready { "" } else { "!" }, it.addresses.join("+"))
            });
            let endpoints = endpoints.collect::<Vec<_>>().join(",");
            let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
            format!("{} {endpoints}:{port}", slice.address_type)
        };
        self.slices.values().map(show).collect()
    }
}

#[test]
fn each_family_and_set_of_ports_is_one_slice() {
    let mut model = Model::new(&["10.1.0.1,!10.1.0.2,fd00::1:80", "10.1.0.3:81"]);
    assert_eq!(model.step(), "create web-1, create web-2, create web-3");
    let shown = ["IPv4 10.1.0.1,!10.1.0.2:80", "IPv4 10.1.0.3:81", "IPv6 fd00::1:80"];
    assert_eq!(model.show(), shown);
    assert_eq!(model.step(), "");
    let slice = &model.slices["web-1"];
    let labels = slice.metadata.labels.clone().unwrap();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        labels,
        [
            "app=web",
            "endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name=web",
        ]
    );
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.kind, &*owner.uid, owner.controller), ("Endpoints", "e1", Some(true)));
}

#[test]
fn a_change_is_one_write_and_other_ports_take_the_place_of_the_old() {
    let mut model = Model::new(&["10.1.0.1:80"]);
    model.step();
    model.endpoints = Some(endpoints(&["10.1.0.2:80"]));
    assert_eq!(model.step(), "update web-1");
    assert_eq!(model.show(), ["IPv4 10.1.0.2:80"]);
    model.endpoints = Some(endpoints(&["10.1.0.2:8080"]));
    assert_eq!(model.step(), "update web-1");
    assert_eq!(model.show(), ["IPv4 10.1.0.2:8080"]);
    model.endpoints.as_mut().unwrap()["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!((model.step(), model.step()), ("update web-1".to_owned(), String::new()));
    // Another object of that name: the copies are its own.
    model.endpoints.as_mut().unwrap()["metadata"]["uid"] = json!("e2");
    assert_eq!((model.step(), model.step()), ("update web-1".to_owned(), String::new()));
}

#[test]
fn annotations_are_copied_but_those_of_the_endpoints_themselves() {
    let mut model = Model::new(&["10.1.0.1:80"]);
    model.endpoints.as_mut().unwrap()["metadata"]["annotations"] = json!({
        "note": "x",
        "endpoints.kubernetes.io/last-change-trigger-time": "now",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    model.step();
    let annotations = model.slices["web-1"].metadata.annotations.clone().unwrap();
    assert_eq!(annotations.into_iter().collect::<Vec<_>>(), [("note".to_owned(), "x".to_owned())]);
}

#[test]
fn what_is_not_for_us_has_no_copies() {
    let changes: [fn(&mut Model); 6] = [
        |it| it.endpoints = None,
        |it| it.service = None,
        |it| it.service = service(json!({"app": "web"})),
        |it| {
            it.endpoints.as_mut().unwrap()["metadata"]["labels"] =
                json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
        },
        |it| {
            it.endpoints.as_mut().unwrap()["metadata"]["annotations"] =
                json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
        },
        |it| it.endpoints.as_mut().unwrap()["subsets"] = json!([]),
    ];
    for change in changes {
        let mut model = Model::new(&["10.1.0.1:80", "10.1.0.1:81"]);
        model.step();
        change(&mut model);
        assert_eq!(model.step(), "delete web-1, delete web-2");
        assert_eq!(model.step(), "");
    }
}

#[test]
fn endpoints_on_their_way_out_get_no_new_copies() {
    let mut model = Model::new(&["10.1.0.1:80"]);
    let meta = &mut model.endpoints.as_mut().unwrap()["metadata"];
    meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(model.step(), "");
}

fn complaints(subsets: &[&str]) -> Vec<String> {
    let mirrored = Model::new(subsets).plan().mirrored.unwrap();
    let all = mirrored.complaints(5).into_iter();
    all.map(|(reason, message)| format!("{reason}: {message}")).collect()
}

#[test]
fn what_is_left_out_is_said() {
    assert!(complaints(&["10.1.0.1,010.001.000.002,::ffff:10.1.0.3:80"]).is_empty());
    let invalid =
        "InvalidIPAddress: Skipped 2 invalid IP addresses when mirroring to EndpointSlices";
    assert_eq!(complaints(&["10.1.0.1,nonsense,10.1.0.:80"]), [invalid]);
    let many = "TooManyAddressesToMirror: A max of 5 addresses can be mirrored to EndpointSlices per \
                Endpoints subset. 2 addresses were skipped";
    let seven = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,!10.0.0.7:80";
    assert_eq!(complaints(&[seven]), [many]);
}

#[test]
fn old_forms_of_addresses_are_written_as_they_should_be() {
    let mut model = Model::new(&["010.001.000.002,::ffff:10.1.0.3:80"]);
    model.step();
    assert_eq!(model.show(), ["IPv4 10.1.0.2,10.1.0.3:80"]);
}

proptest! {
    #[test]
    fn copies_come_to_rest_within_their_bounds(
        rounds in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(0..9u8, 1..8), 80..83u16), 0..4),
            1..4,
        ),
    ) {
        let mut model = Model::new(&[]);
        for subsets in rounds {
            let texts: Vec<String> = subsets
                .iter()
                .map(|(ips, port)| {
                    let ips: Vec<String> = ips.iter().map(|it| format!("10.0.0.{it}")).collect();
                    format!("{}:{port}", ips.join(","))
                })
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            model.endpoints = Some(endpoints(&texts));
            model = converges(
                |model: &Model| model.plan().actions,
                |model, action| _ = model.apply(action),
                model,
                1,
            )
            .unwrap();
            let ports: std::collections::BTreeSet<u16> = subsets.iter().map(|it| it.1).collect();
            prop_assert_eq!(model.slices.len(), ports.len());
            let counts = model.slices.values().map(|it| it.endpoints.as_ref().map_or(0, Vec::len));
            prop_assert!(counts.into_iter().all(|it| (1..=5).contains(&it)));
        }
    }
}
