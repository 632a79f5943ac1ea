//! The EndpointSlices of a Service, with as few writes as possible. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::backends::{self, HEADLESS_LABEL};
use crate::owners;
use crate::slices::{self, Action, Group, MANAGED_BY, PortKey, SERVICE_NAME, count, group_of};

pub(crate) const CONTROLLER: &str = "endpointslice-controller.k8s.io";

pub(crate) struct Observed {
    pub service: Arc<Service>,
    /// The pods that the Service selects.
    pub pods: Vec<Arc<PodView>>,
    /// Slices of the Service that this controller manages.
    pub slices: Vec<Arc<EndpointSlice>>,
    pub endpoints_per_slice: usize,
}

pub(crate) fn plan(observed: &Observed) -> Vec<Action> {
    let mut groups: BTreeMap<Group, Existing> = BTreeMap::new();
    for (group, endpoint) in desired(observed) {
        groups.entry(group).or_default().wanted.push(endpoint);
    }
    for slice in observed.slices.iter().filter(|it| !owners::is_deleting(&it.metadata)) {
        groups.entry(group_of(slice)).or_default().slices.push(slice.clone());
    }
    let families = families(&observed.service);
    let mut actions = Vec::new();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for ((family, ports), existing) in groups {
        let packed = pack(observed, &family, &ports, existing);
        if packed.keeps_any {
            kept.insert(family);
        }
        actions.extend(packed.actions);
    }
    for family in families.into_iter().filter(|it| !kept.contains(it)) {
        placeholder(observed, family, &mut actions);
    }
    actions
}

#[derive(Default)]
struct Existing {
    wanted: Vec<Endpoint>,
    slices: Vec<Arc<EndpointSlice>>,
}

struct Packed {
    actions: Vec<Action>,
    /// Whether a slice with endpoints remains.
    keeps_any: bool,
}

/// Endpoints stay in the slice they are in; new ones fill slices that are written anyway, then one
/// that has room for all of the rest, then new slices.
fn pack(observed: &Observed, family: &str, ports: &[PortKey], existing: Existing) -> Packed {
    let keeps_any = !existing.wanted.is_empty();
    let max = observed.endpoints_per_slice;
    let mut wanted: BTreeMap<String, Endpoint> =
        existing.wanted.into_iter().map(|it| (endpoint_key(&it), it)).collect();
    let mut unchanged = Vec::new();
    let mut changed: Vec<EndpointSlice> = Vec::new();
    let labels = labels(&observed.service);
    for stored in &existing.slices {
        let before = stored.endpoints.as_deref().unwrap_or_default();
        let kept: Vec<Endpoint> =
            before.iter().filter_map(|it| wanted.remove(&endpoint_key(it))).collect();
        let is_same = kept == before && stored.metadata.labels.as_ref() == Some(&labels);
        let slice = EndpointSlice {
            metadata: ObjectMeta { labels: Some(labels.clone()), ..stored.metadata.clone() },
            address_type: stored.address_type.clone(),
            endpoints: Some(kept),
            ports: stored.ports.clone(),
        };
        if is_same {
            unchanged.push(slice);
        } else {
            changed.push(slice);
        }
    }
    let mut rest: Vec<Endpoint> = wanted.into_values().collect();
    for slice in &mut changed {
        fill(slice, &mut rest, max);
    }
    let fits = |it: &EndpointSlice| count(it) + rest.len() <= max;
    let best = (0..unchanged.len())
        .filter(|it| !rest.is_empty() && rest.len() < max && fits(&unchanged[*it]))
        .max_by_key(|it| count(&unchanged[*it]));
    if let Some(best) = best {
        let mut slice = unchanged.remove(best);
        fill(&mut slice, &mut rest, max);
        changed.push(slice);
    }
    let mut actions = settle(&existing.slices, unchanged, changed);
    while !rest.is_empty() {
        let mut slice = new_slice(&observed.service, family, ports);
        fill(&mut slice, &mut rest, max);
        actions.push(Action::Create(Box::new(slice)));
    }
    Packed { actions, keeps_any }
}

fn settle(
    stored: &[Arc<EndpointSlice>],
    unchanged: Vec<EndpointSlice>,
    changed: Vec<EndpointSlice>,
) -> Vec<Action> {
    let find = |slice: &EndpointSlice| {
        stored.iter().find(|it| it.metadata.name == slice.metadata.name).cloned()
    };
    let empty_ones = unchanged.iter().filter(|it| count(it) == 0).filter_map(find);
    let mut actions: Vec<Action> = empty_ones.map(Action::Delete).collect();
    for slice in changed {
        if count(&slice) == 0 {
            actions.extend(find(&slice).map(Action::Delete));
        } else {
            actions.push(Action::Update(Box::new(slice)));
        }
    }
    actions
}

/// A Service without endpoints has one empty slice per family, so that a watcher can tell "none"
/// from "not known yet". An existing slice is emptied rather than replaced.
fn placeholder(observed: &Observed, family: String, actions: &mut Vec<Action>) {
    let is_first =
        |it: &Action| matches!(it, Action::Delete(slice) if slice.address_type == family);
    let wanted = new_slice(&observed.service, &family, &[]);
    let Some(position) = actions.iter().position(is_first) else {
        actions.push(Action::Create(Box::new(wanted)));
        return;
    };
    let Action::Delete(stored) = actions.remove(position) else {
        return;
    };
    let emptied = EndpointSlice {
        metadata: ObjectMeta { labels: wanted.metadata.labels, ..stored.metadata.clone() },
        address_type: family,
        endpoints: Some(Vec::new()),
        ports: wanted.ports,
    };
    let is_same = stored.metadata == emptied.metadata
        && stored.endpoints.as_ref().is_none_or(Vec::is_empty)
        && stored.ports.as_ref().is_none_or(Vec::is_empty);
    if !is_same {
        actions.push(Action::Update(Box::new(emptied)));
    }
}

fn fill(slice: &mut EndpointSlice, rest: &mut Vec<Endpoint>, max: usize) {
    let endpoints = slice.endpoints.get_or_insert_default();
    let room = max.saturating_sub(endpoints.len()).min(rest.len());
    endpoints.extend(rest.drain(..room));
}

fn families(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|it| it.ip_families.clone());
    families.filter(|it| !it.is_empty()).unwrap_or_else(|| vec!["IPv4".to_owned()])
}

fn desired(observed: &Observed) -> Vec<(Group, Endpoint)> {
    let service = &observed.service;
    let mut desired = Vec::new();
    for family in families(service) {
        for pod in observed.pods.iter().filter(|it| !it.is_terminal()) {
            let Some(address) = backends::address(pod, &family) else {
                continue;
            };
            let mut ports: Vec<PortKey> = backends::ports(service)
                .iter()
                .filter_map(|it| {
                    let number = backends::port_in(pod, it)?;
                    let protocol = backends::protocol(it.protocol.as_deref()).to_owned();
                    let name = it.name.clone().unwrap_or_default();
                    Some((name, number, protocol, it.app_protocol.clone()))
                })
                .collect();
            ports.sort();
            desired.push(((family.clone(), ports), endpoint(service, pod, address)));
        }
    }
    desired
}

fn endpoint(service: &Service, pod: &PodView, address: &str) -> Endpoint {
    let (is_terminating, is_serving) = (pod.is_deleting(), pod.is_ready);
    let is_ready = backends::publishes_not_ready(service) || (is_serving && !is_terminating);
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(is_ready),
            serving: Some(is_serving),
            terminating: Some(is_terminating),
        }),
        hostname: backends::hostname(pod, service),
        node_name: pod.node().map(str::to_owned),
        target_ref: Some(backends::target(pod)),
        ..Endpoint::default()
    }
}

/// The same endpoint in another state has the same key.
fn endpoint_key(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|it| it.uid.as_deref()).unwrap_or_default();
    format!("{}/{uid}", endpoint.addresses.join(","))
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS_LABEL);
    if backends::is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), owners::name(&service.metadata).to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

fn new_slice(service: &Service, family: &str, ports: &[PortKey]) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owners::name(&service.metadata))),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![owners::controller_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(slices::ports(ports)),
    }
}
