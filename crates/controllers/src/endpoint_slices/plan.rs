//! The EndpointSlices of a Service, with as few writes as possible. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::hints::{self, Routing, Verdict};
use crate::backends::{self, HEADLESS_LABEL, triggers};
use crate::owners;
use crate::slices::{
    self, Action, Efficiency, Group, MANAGED_BY, PortKey, SERVICE_NAME, count, group_of,
};

pub(crate) const CONTROLLER: &str = slices::OF_SELECTORS;

pub(crate) struct Observed {
    pub service: Arc<Service>,
    /// The pods that the Service selects.
    pub pods: Vec<Arc<PodView>>,
    /// The zones of the pods' nodes, empty where they have none; nodes that are not known are not
    /// here.
    pub zones: BTreeMap<String, String>,
    /// Slices of the Service that this controller manages.
    pub slices: Vec<Arc<EndpointSlice>>,
    pub endpoints_per_slice: usize,
    /// When the change happened that they may be written for.
    pub trigger: Option<Timestamp>,
    /// The zones' shares of all CPU; looked at only when the Service asks for them.
    pub shares: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    pub n_added: usize,
    pub n_removed: usize,
    pub groups: Vec<Efficiency>,
    pub routing: Routing,
    /// What became of hints, by family.
    pub hints: BTreeMap<String, Verdict>,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let service = &observed.service;
    let mut groups: BTreeMap<Group, Existing> = BTreeMap::new();
    for (group, endpoint) in desired(observed) {
        groups.entry(group).or_default().wanted.push(endpoint);
    }
    let mut packing = Packing::default();
    for slice in observed.slices.iter().filter(|it| !owners::is_deleting(&it.metadata)) {
        if is_owned(slice, service) {
            groups.entry(group_of(slice)).or_default().slices.push(slice.clone());
        } else {
            // Of a Service of that name that is gone.
            packing.deleted.push(slice.clone());
        }
    }
    for ((family, ports), existing) in groups {
        packing.pack(observed, &family, &ports, existing);
    }
    let routing = hints::routing(service);
    let mut verdicts = BTreeMap::new();
    for family in families(service) {
        let of_family = packing.slots.iter_mut().filter(|it| it.slice.address_type == family);
        let mut slices: Vec<&mut EndpointSlice> = of_family.map(|it| &mut it.slice).collect();
        if slices.is_empty() {
            packing.hold_place(service, &family);
        } else {
            let verdict = hints::set(routing, observed.shares.as_ref(), &mut slices);
            verdicts.insert(family, verdict);
        }
    }
    let Packing { n_added, n_removed, groups, .. } = packing;
    let actions = settle(packing.slots, packing.deleted, observed.trigger);
    let actions = slices::recycle(actions, |it| is_owned(it, service));
    Plan { actions, n_added, n_removed, groups, routing, hints: verdicts }
}

fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let mut owners = slice.metadata.owner_references.iter().flatten();
    owners.any(|it| it.kind == "Service" && it.uid == owners::uid(&service.metadata))
}

#[derive(Default)]
struct Existing {
    wanted: Vec<Endpoint>,
    slices: Vec<Arc<EndpointSlice>>,
}

/// A slice that is to be, and what it is now.
struct Slot {
    stored: Option<Arc<EndpointSlice>>,
    slice: EndpointSlice,
}

#[derive(Default)]
struct Packing {
    slots: Vec<Slot>,
    deleted: Vec<Arc<EndpointSlice>>,
    n_added: usize,
    n_removed: usize,
    groups: Vec<Efficiency>,
}

impl Packing {
    /// Endpoints stay in the slice they are in; new ones fill slices that are written anyway, the
    /// fullest first, then one that has room for all of the rest, then new slices.
    fn pack(&mut self, observed: &Observed, family: &str, ports: &[PortKey], existing: Existing) {
        let max = observed.endpoints_per_slice;
        let mut wanted: BTreeMap<String, Endpoint> =
            existing.wanted.into_iter().map(|it| (endpoint_key(&it), it)).collect();
        let n_endpoints = wanted.len();
        let labels = labels(&observed.service);
        let (mut unchanged, mut changed) = (Vec::new(), Vec::new());
        for stored in existing.slices {
            let slot = keep(stored, &labels, &mut wanted);
            self.n_removed += slot.stored.as_ref().map_or(0, |it| count(it)) - count(&slot.slice);
            if slot.is_same() { unchanged.push(slot) } else { changed.push(slot) }
        }
        self.n_added += wanted.len();
        let mut rest: Vec<Endpoint> = wanted.into_values().collect();
        changed.sort_by_key(|it| std::cmp::Reverse(count(&it.slice)));
        for slot in &mut changed {
            fill(&mut slot.slice, &mut rest, max);
        }
        let fits = |it: &Slot| count(&it.slice) + rest.len() <= max;
        let best = (0..unchanged.len())
            .filter(|it| !rest.is_empty() && rest.len() < max && fits(&unchanged[*it]))
            .max_by_key(|it| count(&unchanged[*it].slice));
        if let Some(best) = best {
            fill(&mut unchanged[best].slice, &mut rest, max);
        }
        while !rest.is_empty() {
            let mut slice = new_slice(&observed.service, family, ports);
            fill(&mut slice, &mut rest, max);
            changed.push(Slot { stored: None, slice });
        }
        let all = unchanged.into_iter().chain(changed);
        let (kept, empty): (Vec<Slot>, Vec<Slot>) = all.partition(|it| count(&it.slice) > 0);
        if n_endpoints > 0 {
            self.groups.push(Efficiency { endpoints: n_endpoints, slices: kept.len() });
        }
        self.slots.extend(kept);
        self.deleted.extend(empty.into_iter().filter_map(|it| it.stored));
    }

    /// A Service without endpoints has one empty slice per family, so that a watcher can tell
    /// "none" from "not known yet".
    fn hold_place(&mut self, service: &Service, family: &str) {
        self.groups.push(Efficiency { endpoints: 0, slices: 1 });
        let slice = new_slice(service, family, &[]);
        let is_place = |it: &Arc<EndpointSlice>| {
            let has_ports = it.ports.as_ref().is_some_and(|it| !it.is_empty());
            it.address_type == family
                && count(it) == 0
                && !has_ports
                && it.metadata.labels == slice.metadata.labels
                && is_owned(it, service)
        };
        match self.deleted.iter().position(is_place) {
            Some(position) => _ = self.deleted.remove(position),
            None => self.slots.push(Slot { stored: None, slice }),
        }
    }
}

/// What of a stored slice stays: endpoints that are still wanted, as they should be, with the hints
/// that they have.
fn keep(
    stored: Arc<EndpointSlice>,
    labels: &BTreeMap<String, String>,
    wanted: &mut BTreeMap<String, Endpoint>,
) -> Slot {
    let before = stored.endpoints.as_deref().unwrap_or_default();
    let kept = before.iter().filter_map(|it| {
        let wanted = wanted.remove(&endpoint_key(it))?;
        Some(Endpoint { hints: it.hints.clone(), ..wanted })
    });
    let slice = EndpointSlice {
        endpoints: Some(kept.collect()),
        metadata: ObjectMeta { labels: Some(labels.clone()), ..stored.metadata.clone() },
        address_type: stored.address_type.clone(),
        ports: stored.ports.clone(),
    };
    Slot { stored: Some(stored), slice }
}

impl Slot {
    fn is_same(&self) -> bool {
        let endpoints = |it: &EndpointSlice| it.endpoints.clone().unwrap_or_default();
        self.stored.as_ref().is_some_and(|stored| {
            endpoints(stored) == endpoints(&self.slice)
                && stored.metadata.labels == self.slice.metadata.labels
        })
    }
}

fn settle(
    slots: Vec<Slot>,
    deleted: Vec<Arc<EndpointSlice>>,
    trigger: Option<Timestamp>,
) -> Vec<Action> {
    let mut actions: Vec<Action> = deleted.into_iter().map(Action::Delete).collect();
    for mut slot in slots.into_iter().filter(|it| !it.is_same()) {
        triggers::annotate(&mut slot.slice.metadata.annotations, trigger);
        actions.push(match slot.stored {
            None => Action::Create(Box::new(slot.slice)),
            Some(_) => Action::Update(Box::new(slot.slice)),
        });
    }
    actions
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
            let zone = pod.node().and_then(|it| observed.zones.get(it));
            // A pod of a node that is gone answers nobody.
            if zone.is_none() && !backends::publishes_not_ready(service) {
                continue;
            }
            let zone = zone.filter(|it| !it.is_empty()).cloned();
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
            let endpoint = Endpoint { zone, ..endpoint(service, pod, address) };
            desired.push(((family.clone(), ports), endpoint));
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
    // In the order of the Service, as upstream's; in a group they are sorted, to be compared.
    let mut ports = ports.to_vec();
    let of_service = backends::ports(service);
    ports.sort_by_key(|(name, ..)| {
        of_service.iter().position(|it| it.name.as_deref().unwrap_or_default() == name)
    });
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
        ports: Some(slices::ports(&ports)),
    }
}
