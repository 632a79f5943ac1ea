//! The Endpoints of a Service, from the pods that it selects. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::core::endpoints::Endpoints;
use api::core::pod::PodView;
use api::core::service::Service;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::backends::{self, HEADLESS_LABEL, triggers};

const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

pub(crate) struct Observed {
    pub service: Arc<Service>,
    /// The pods that the Service selects.
    pub pods: Vec<Arc<PodView>>,
    pub endpoints: Option<Arc<Endpoints>>,
    /// When the change happened that they may be written for.
    pub trigger: Option<Timestamp>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Create(Box<Endpoints>),
    Update(Box<Endpoints>),
}

/// Whether this controller wrote them.
pub(crate) fn is_ours(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.and_then(|it| it.get(MANAGED_BY.0)).is_some_and(|it| it == MANAGED_BY.1)
}

pub(crate) fn plan(observed: &Observed) -> Option<Action> {
    let (subsets, is_cut) = subsets(&observed.service, &observed.pods);
    let mut wanted = match &observed.endpoints {
        Some(stored) => Endpoints::clone(stored),
        None => Endpoints {
            metadata: ObjectMeta {
                name: observed.service.metadata.name.clone(),
                namespace: observed.service.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            subsets: None,
        },
    };
    wanted.subsets = (!subsets.is_empty()).then_some(subsets);
    wanted.metadata.labels = Some(labels(&observed.service));
    let mut annotations = wanted.metadata.annotations.take().unwrap_or_default();
    if is_cut {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    wanted.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    triggers::annotate(&mut wanted.metadata.annotations, observed.trigger);
    match &observed.endpoints {
        None => Some(Action::Create(Box::new(wanted))),
        Some(stored) if is_same(stored, &wanted) => None,
        Some(_) => Some(Action::Update(Box::new(wanted))),
    }
}

/// Absent and empty are the same. That there was a change is nothing to write alone.
fn is_same(stored: &Endpoints, wanted: &Endpoints) -> bool {
    let (one, two) = (&stored.metadata, &wanted.metadata);
    stored.subsets.as_deref().unwrap_or_default() == wanted.subsets.as_deref().unwrap_or_default()
        && one.labels.iter().flatten().eq(two.labels.iter().flatten())
        && triggers::are_same(one.annotations.as_ref(), two.annotations.as_ref())
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS_LABEL);
    if backends::is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    labels
}

type PortKey = (String, i32, String, Option<String>);

/// Addresses with the same ports share a subset. At most `CAPACITY` addresses, ready ones first.
fn subsets(service: &Service, pods: &[Arc<PodView>]) -> (Vec<EndpointSubset>, bool) {
    let includes_unready = backends::publishes_not_ready(service);
    let family = service
        .spec
        .as_ref()
        .and_then(|it| it.ip_families.as_ref()?.first().cloned())
        .unwrap_or_else(|| "IPv4".to_owned());
    let mut entries = Vec::new();
    for pod in pods {
        let is_gone = pod.is_terminal() || (pod.is_deleting() && !includes_unready);
        let Some(ip) = backends::address(pod, &family).filter(|_| !is_gone) else {
            continue;
        };
        let ports: BTreeSet<PortKey> =
            backends::ports(service).iter().filter_map(|it| port_key(pod, it)).collect();
        if ports.is_empty()
            && !(backends::is_headless(service) && backends::ports(service).is_empty())
        {
            continue;
        }
        let address = EndpointAddress {
            ip: ip.to_owned(),
            hostname: backends::hostname(pod, service),
            node_name: pod.node().map(str::to_owned),
            target_ref: Some(backends::target(pod)),
        };
        entries.push((includes_unready || pod.is_ready, ports, address));
    }
    entries.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.2.ip.cmp(&two.2.ip)));
    let is_cut = entries.len() > CAPACITY;
    entries.truncate(CAPACITY);
    (grouped(entries), is_cut)
}

fn port_key(pod: &PodView, port: &k8s_openapi::api::core::v1::ServicePort) -> Option<PortKey> {
    let number = backends::port_in(pod, port)?;
    let protocol = backends::protocol(port.protocol.as_deref()).to_owned();
    Some((port.name.clone().unwrap_or_default(), number, protocol, port.app_protocol.clone()))
}

fn grouped(entries: Vec<(bool, BTreeSet<PortKey>, EndpointAddress)>) -> Vec<EndpointSubset> {
    let mut groups: BTreeMap<BTreeSet<PortKey>, EndpointSubset> = BTreeMap::new();
    for (is_ready, ports, address) in entries {
        let subset = groups.entry(ports).or_default();
        let list = if is_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    groups
        .into_iter()
        .map(|(ports, subset)| EndpointSubset {
            ports: (!ports.is_empty()).then(|| in_order(ports)),
            ..subset
        })
        .collect()
}

/// In upstream's order, which is that of a hash: whichever of the two controllers writes, the
/// object stays the same.
fn in_order(ports: BTreeSet<PortKey>) -> Vec<EndpointPort> {
    let mut ports: Vec<PortKey> = ports.into_iter().collect();
    ports.sort_by_cached_key(hash);
    ports.into_iter().map(port).collect()
}

/// FNV-1a in 128 bits of the port as Go prints it with its types.
fn hash((name, port, protocol, app_protocol): &PortKey) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
    let printed = format!(
        "(v1.EndpointPort){{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} \
         AppProtocol:(*string){app_protocol}}}"
    );
    printed.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

fn port((name, port, protocol, app_protocol): PortKey) -> EndpointPort {
    EndpointPort {
        name: Some(name).filter(|it| !it.is_empty()),
        port,
        protocol: Some(protocol),
        app_protocol,
    }
}
