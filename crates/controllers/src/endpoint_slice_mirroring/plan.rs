//! The slices that show the same addresses as Endpoints made by hand: one slice for each family
//! and set of ports. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api::core::endpoints::Endpoints;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::slices::{self, Action, Efficiency, Group, MANAGED_BY, PortKey, SERVICE_NAME};
use crate::{backends, owners};

pub(crate) const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Endpoints that are a lock have no addresses to copy.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Of the Endpoints themselves, and of no use on a copy.
const NOT_COPIED: &[&str] = &[
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
];

pub(crate) struct Observed {
    pub endpoints: Option<Arc<Endpoints>>,
    pub service: Option<Arc<Service>>,
    /// The copies.
    pub slices: Vec<Arc<EndpointSlice>>,
    pub max_per_subset: usize,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    /// Absent: these Endpoints are not copied.
    pub mirrored: Option<Mirrored>,
}

/// What is copied, and what is not.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Mirrored {
    pub n_added: usize,
    pub n_updated: usize,
    pub n_removed: usize,
    /// Addresses that are none.
    pub n_invalid: usize,
    /// Those, and what is above the bound of a subset.
    pub n_skipped: usize,
    pub groups: Vec<Efficiency>,
}

impl Mirrored {
    /// Reason and message of each.
    pub(crate) fn complaints(&self, max_per_subset: usize) -> Vec<(&'static str, String)> {
        let mut complaints = Vec::new();
        if self.n_invalid > 0 {
            let message = format!(
                "Skipped {} invalid IP addresses when mirroring to EndpointSlices",
                self.n_invalid
            );
            complaints.push(("InvalidIPAddress", message));
        }
        if self.n_skipped > self.n_invalid {
            let message = format!(
                "A max of {max_per_subset} addresses can be mirrored to EndpointSlices per \
                 Endpoints subset. {} addresses were skipped",
                self.n_skipped
            );
            complaints.push(("TooManyAddressesToMirror", message));
        }
        complaints
    }
}

/// Whether these Endpoints are for a controller to copy, as far as they say themselves.
pub(crate) fn is_mirrored(endpoints: &Endpoints) -> bool {
    let (labels, annotations) = (&endpoints.metadata.labels, &endpoints.metadata.annotations);
    let is_skipped = labels.as_ref().and_then(|it| it.get(SKIP)).is_some_and(|it| it == "true");
    let is_lock = annotations.as_ref().is_some_and(|it| it.contains_key(LEADER));
    !is_skipped && !is_lock
}

/// A selector, even of a Service that has no endpoints of its own, means that somebody else makes
/// its slices.
pub(crate) fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
    selector.is_some_and(|it| !it.is_empty())
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let present = observed.slices.iter().filter(|it| !owners::is_deleting(&it.metadata));
    let is_standing = observed.service.as_ref().is_some_and(|it| !has_selector(it));
    let endpoints = observed.endpoints.as_ref().filter(|it| is_standing && is_mirrored(it));
    let Some(endpoints) = endpoints else {
        let actions = present.cloned().map(Action::Delete).collect();
        return Plan { actions, mirrored: None };
    };
    let mut mirrored = Mirrored::default();
    let mut groups: BTreeMap<Group, Pair> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        add_subset(subset, observed.max_per_subset, &mut groups, &mut mirrored);
    }
    for slice in present {
        groups.entry(slices::group_of(slice)).or_default().slices.push(slice.clone());
    }
    let mut actions = Vec::new();
    for ((family, ports), pair) in groups {
        let n_endpoints = pair.wanted.len().min(observed.max_per_subset);
        let copy = Copy { endpoints, family: &family, ports: &ports, max: observed.max_per_subset };
        actions.extend(settle(&copy, pair, &mut mirrored));
        let slices = usize::from(n_endpoints > 0);
        mirrored.groups.push(Efficiency { endpoints: n_endpoints, slices });
    }
    let mut actions = slices::recycle(actions, |_| true);
    if owners::is_deleting(&endpoints.metadata) {
        actions.retain(|it| !matches!(it, Action::Create(_)));
    }
    Plan { actions, mirrored: Some(mirrored) }
}

/// What should be in the slices of a group, by key, and what they are.
#[derive(Default)]
struct Pair {
    wanted: BTreeMap<String, Endpoint>,
    slices: Vec<Arc<EndpointSlice>>,
}

fn add_subset(
    subset: &EndpointSubset,
    max: usize,
    groups: &mut BTreeMap<Group, Pair>,
    mirrored: &mut Mirrored,
) {
    let mut ports: Vec<PortKey> = subset
        .ports
        .iter()
        .flatten()
        .map(|it| {
            let protocol = backends::protocol(it.protocol.as_deref()).to_owned();
            let name = it.name.clone().unwrap_or_default();
            (name, it.port, protocol, it.app_protocol.clone())
        })
        .collect();
    ports.sort();
    let ready = subset.addresses.iter().flatten().map(|it| (it, true));
    let all = ready.chain(subset.not_ready_addresses.iter().flatten().map(|it| (it, false)));
    let mut n_added = 0;
    for (address, is_ready) in all {
        if n_added >= max {
            mirrored.n_skipped += 1;
            continue;
        }
        let Some(ip) = parse(&address.ip) else {
            mirrored.n_invalid += 1;
            mirrored.n_skipped += 1;
            continue;
        };
        n_added += 1;
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        let pair = groups.entry((family.to_owned(), ports.clone())).or_default();
        let endpoint = endpoint(address, ip, is_ready);
        pair.wanted.insert(key_of(&endpoint), endpoint);
    }
}

/// Old objects have numbers with leading zeros, which are read as decimal, and IPv4 in the clothes
/// of IPv6, which is IPv4.
fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = text.split('.').map(|it| {
        let is_number = !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        let digits = it.trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        is_number.then(|| digits.parse::<u8>().ok()).flatten()
    });
    let mut next = || octets.next().flatten();
    let ip = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    octets.next().is_none().then_some(IpAddr::V4(ip))
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(is_ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone().filter(|it| !it.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

/// The same endpoint in another state has the same key.
fn key_of(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|it| it.uid.as_deref()).unwrap_or_default();
    format!("{}/{uid}", endpoint.addresses.join(","))
}

/// One slice that is to be.
struct Copy<'a> {
    endpoints: &'a Endpoints,
    family: &'a str,
    ports: &'a [PortKey],
    max: usize,
}

/// The first slice stays and takes what the group wants; others go.
fn settle(copy: &Copy<'_>, mut pair: Pair, mirrored: &mut Mirrored) -> Vec<Action> {
    let mut slices = pair.slices.into_iter();
    let first = slices.next();
    let mut actions: Vec<Action> = slices.map(Action::Delete).collect();
    if pair.wanted.is_empty() {
        mirrored.n_removed += first.as_ref().map_or(0, |it| slices::count(it));
        actions.extend(first.map(Action::Delete));
        return actions;
    }
    let before = first.as_ref().and_then(|it| it.endpoints.as_deref()).unwrap_or_default();
    let mut content = Vec::new();
    for stored in before {
        let Some(wanted) = pair.wanted.remove(&key_of(stored)) else {
            mirrored.n_removed += 1;
            continue;
        };
        if content.len() >= copy.max {
            mirrored.n_removed += 1;
            continue;
        }
        mirrored.n_updated += usize::from(wanted != *stored);
        content.push(wanted);
    }
    let room = copy.max - content.len();
    let n_kept = content.len();
    content.extend(pair.wanted.into_values().take(room));
    mirrored.n_added += content.len() - n_kept;
    let is_same = content == before;
    let wanted = slice(copy, first.as_deref(), content);
    match first {
        None => actions.push(Action::Create(Box::new(wanted))),
        Some(stored) if is_same && is_same_meta(&stored.metadata, &wanted.metadata) => {}
        Some(_) => actions.push(Action::Update(Box::new(wanted))),
    }
    actions
}

fn is_same_meta(stored: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    stored.labels.iter().flatten().eq(wanted.labels.iter().flatten())
        && stored.annotations.iter().flatten().eq(wanted.annotations.iter().flatten())
        && stored.owner_references == wanted.owner_references
}

fn slice(copy: &Copy<'_>, stored: Option<&EndpointSlice>, content: Vec<Endpoint>) -> EndpointSlice {
    let meta = &copy.endpoints.metadata;
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), owners::name(meta).to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    let base = stored.map(|it| it.metadata.clone()).unwrap_or_else(|| ObjectMeta {
        generate_name: Some(format!("{}-", owners::name(meta))),
        namespace: meta.namespace.clone(),
        ..ObjectMeta::default()
    });
    EndpointSlice {
        metadata: ObjectMeta {
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![owners::controller_reference(copy.endpoints)]),
            ..base
        },
        address_type: copy.family.to_owned(),
        endpoints: Some(content),
        ports: Some(slices::ports(copy.ports)),
    }
}
