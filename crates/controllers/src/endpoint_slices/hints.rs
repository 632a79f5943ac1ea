//! Which zones and nodes an endpoint is meant for, by what the Service asks: close to the client,
//! or in proportion to what zones can compute. Pure.
//!
//! Worked example: zones `a` and `b` have as much CPU, and of 7 endpoints 5 are in `a` and 2 in
//! `b`. A zone needs at least 3 (3.5 / 1.2, rounded up), so that none of its endpoints has more
//! than 20 % too much to do. One of `a` is given to `b`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::node::NodeView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use apimachinery::quantity::Amount;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
const MODE: &str = "service.kubernetes.io/topology-mode";
/// What the annotation was called before; it counts first.
const MODE_BEFORE: &str = "service.kubernetes.io/topology-aware-hints";
/// Nodes that do not count, since ordinary pods are not there.
const NOT_COUNTED: &[&str] =
    &["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// How much more than its share an endpoint may have to do.
const OVERLOAD: f64 = 0.2;

/// What a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    Anywhere,
    SameZone,
    SameNode,
    /// By the CPU of zones.
    Auto,
}

pub(crate) fn routing(service: &Service) -> Routing {
    let annotations = service.metadata.annotations.as_ref();
    let annotation = |name| annotations.and_then(|it| it.get(name));
    let mode = annotation(MODE_BEFORE).or_else(|| annotation(MODE));
    if mode.is_some_and(|it| it == "Auto" || it == "auto") {
        return Routing::Auto;
    }
    match service.spec.as_ref().and_then(|it| it.traffic_distribution.as_deref()) {
        Some("PreferClose" | "PreferSameZone") => Routing::SameZone,
        Some("PreferSameNode") => Routing::SameNode,
        _ => Routing::Anywhere,
    }
}

/// What became of hints by CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    NotAsked,
    Given,
    /// And why.
    Impossible(String),
}

/// The share of all CPU that each zone has; absent when one node does not say, or all are in one
/// zone.
pub(crate) fn shares(nodes: &[Arc<NodeView>]) -> Option<BTreeMap<String, f64>> {
    let is_counted = |it: &&Arc<NodeView>| {
        it.is_ready() && !NOT_COUNTED.iter().any(|label| it.meta.labels.get(label).is_some())
    };
    let mut millis: BTreeMap<String, f64> = BTreeMap::new();
    for node in nodes.iter().filter(is_counted) {
        let zone = node.meta.labels.get(ZONE).filter(|it| !it.is_empty())?;
        let cpu = node.allocatable.get("cpu").and_then(|it| Amount::parse(it).ok())?;
        let cpu = Some(cpu.millis()).filter(|it| *it > 0)?;
        // Exact up to 2^53 thousandths of a CPU.
        *millis.entry(zone.to_owned()).or_default() += cpu as f64;
    }
    let total: f64 = millis.values().sum();
    millis.values_mut().for_each(|it| *it /= total);
    (millis.len() >= 2).then_some(millis)
}

/// Sets the hints of all endpoints of one family.
pub(crate) fn set(
    routing: Routing,
    shares: Option<&BTreeMap<String, f64>>,
    slices: &mut [&mut EndpointSlice],
) -> Verdict {
    let close = |slices: &mut [&mut EndpointSlice], with_node: bool| {
        for endpoint in endpoints(slices) {
            endpoint.hints = if is_ready(endpoint) { nearby(endpoint, with_node) } else { None };
        }
        Verdict::NotAsked
    };
    match routing {
        Routing::SameZone => close(slices, false),
        Routing::SameNode => close(slices, true),
        Routing::Anywhere => {
            endpoints(slices).for_each(|it| it.hints = None);
            Verdict::NotAsked
        }
        Routing::Auto => match by_share(shares, slices) {
            Ok(zones) => {
                let mut zones = zones.into_iter();
                for endpoint in endpoints(slices) {
                    let zone = if is_ready(endpoint) { zones.next() } else { None };
                    endpoint.hints = zone.map(|it| for_zone(&it));
                }
                Verdict::Given
            }
            Err(why) => {
                endpoints(slices).for_each(|it| it.hints = None);
                Verdict::Impossible(why)
            }
        },
    }
}

fn endpoints<'a>(slices: &'a mut [&mut EndpointSlice]) -> impl Iterator<Item = &'a mut Endpoint> {
    slices.iter_mut().flat_map(|it| it.endpoints.iter_mut().flatten())
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|it| it.ready) == Some(true)
}

fn for_zone(zone: &str) -> EndpointHints {
    EndpointHints { for_zones: Some(vec![ForZone { name: zone.to_owned() }]), for_nodes: None }
}

fn nearby(endpoint: &Endpoint, with_node: bool) -> Option<EndpointHints> {
    let zone = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let node = endpoint.node_name.clone().filter(|_| with_node);
    let node = node.map(|name| vec![ForNode { name }]);
    let hints = EndpointHints { for_zones: zone, for_nodes: node };
    (hints != EndpointHints::default()).then_some(hints)
}

/// An endpoint that is ready: where it is, and whom it is meant for so far.
struct Placed {
    zone: String,
    hint: Option<String>,
}

/// How many endpoints a zone needs, and how many it would like.
struct Allocation {
    minimum: usize,
    desired: f64,
}

/// The zone of each endpoint that is ready, in order.
fn by_share(
    shares: Option<&BTreeMap<String, f64>>,
    slices: &mut [&mut EndpointSlice],
) -> Result<Vec<String>, String> {
    let placed: Vec<Option<Placed>> =
        endpoints(slices).filter(|it| is_ready(it)).map(|it| place(it)).collect();
    let allocations = allocate(shares, placed.len())?;
    let placed: Option<Vec<Placed>> = placed.into_iter().collect();
    let Some(placed) = placed else {
        return Err("One or more endpoints do not have a zone specified".to_owned());
    };
    Ok(keep(&placed, &allocations).unwrap_or_else(|| spread(&placed, &allocations)))
}

fn place(endpoint: &Endpoint) -> Option<Placed> {
    let zone = endpoint.zone.clone().filter(|it| !it.is_empty())?;
    let hints = endpoint.hints.as_ref().and_then(|it| it.for_zones.as_deref());
    let hint = match hints {
        Some([only]) => Some(only.name.clone()),
        _ => None,
    };
    Some(Placed { zone, hint })
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn allocate(
    shares: Option<&BTreeMap<String, f64>>,
    n_endpoints: usize,
) -> Result<BTreeMap<String, Allocation>, String> {
    let Some(shares) = shares else {
        return Err("Insufficient Node information: allocatable CPU or zone not specified on one \
                    or more nodes"
            .to_owned());
    };
    let numbers = format!("({n_endpoints} endpoints, {} zones)", shares.len());
    if shares.len() > n_endpoints {
        return Err(format!("Insufficient number of endpoints {numbers}"));
    }
    let allocation = |share: &f64| {
        let desired = share * count(n_endpoints);
        // A zone has fewer endpoints than there are.
        let minimum = (0..=n_endpoints).find(|it| count(*it) >= desired / (1.0 + OVERLOAD));
        let minimum = minimum.unwrap_or(n_endpoints);
        Allocation { minimum, desired: desired.max(count(minimum)) }
    };
    let all: BTreeMap<String, Allocation> =
        shares.iter().map(|(zone, share)| (zone.clone(), allocation(share))).collect();
    if all.values().map(|it| it.minimum).sum::<usize>() > n_endpoints {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding \
             overload threshold {numbers}"
        ));
    }
    Ok(all)
}

/// As they are, with new ones meant for their own zones, if every zone then has what it needs: so
/// that slices are not written for the sake of a better balance.
fn keep(placed: &[Placed], allocations: &BTreeMap<String, Allocation>) -> Option<Vec<String>> {
    let mut n_by_zone: BTreeMap<&str, usize> = BTreeMap::new();
    let mut zones = Vec::with_capacity(placed.len());
    for it in placed {
        let candidates = it.hint.iter().chain([&it.zone]);
        let zone = candidates.into_iter().find(|it| allocations.contains_key(*it))?;
        *n_by_zone.entry(zone).or_default() += 1;
        zones.push(zone.clone());
    }
    let has_enough = |(zone, it): (&String, &Allocation)| {
        n_by_zone.get(zone.as_str()).copied().unwrap_or(0) >= it.minimum
    };
    allocations.iter().all(has_enough).then_some(zones)
}

/// As many as possible in their own zones, and the others where they are missing most. Who is meant
/// for a zone already stays there, so that doing it again changes nothing.
fn spread(placed: &[Placed], allocations: &BTreeMap<String, Allocation>) -> Vec<String> {
    let mut staying: BTreeMap<String, usize> = BTreeMap::new();
    for it in placed {
        *staying.entry(it.zone.clone()).or_default() += 1;
    }
    let (mut giving, mut taking) = moves(&staying, allocations);
    for (zone, n) in &giving {
        *staying.entry(zone.clone()).or_default() -= n;
    }
    let mut zones: Vec<Option<String>> = vec![None; placed.len()];
    for (it, chosen) in placed.iter().zip(&mut zones) {
        let Some(hint) = &it.hint else { continue };
        let is_kept = if *hint == it.zone {
            take(&mut staying, hint)
        } else {
            let may = giving.get(&it.zone).is_some_and(|it| *it > 0);
            may && take(&mut taking, hint) && take(&mut giving, &it.zone)
        };
        *chosen = is_kept.then(|| hint.clone());
    }
    let mut result = Vec::with_capacity(placed.len());
    for (it, chosen) in placed.iter().zip(zones) {
        result.push(chosen.unwrap_or_else(|| {
            if take(&mut staying, &it.zone) {
                return it.zone.clone();
            }
            let found = taking.iter().find(|(_, n)| **n > 0).map(|(zone, _)| zone.clone());
            let zone = found.unwrap_or_else(|| it.zone.clone());
            take(&mut taking, &zone);
            zone
        }));
    }
    result
}

fn take(quota: &mut BTreeMap<String, usize>, zone: &str) -> bool {
    match quota.get_mut(zone) {
        Some(n) if *n > 0 => {
            *n -= 1;
            true
        }
        _ => false,
    }
}

type Quota = BTreeMap<String, usize>;

/// How many endpoints each zone gives away, and how many each gets. As many of the one as of the
/// other.
fn moves(have: &Quota, allocations: &BTreeMap<String, Allocation>) -> (Quota, Quota) {
    let desired = |zone: &String| allocations.get(zone).map_or(0.0, |it| it.desired);
    let mut surplus: BTreeMap<String, f64> =
        have.iter().map(|(zone, n)| (zone.clone(), count(*n) - desired(zone))).collect();
    for zone in allocations.keys() {
        surplus.entry(zone.clone()).or_insert_with(|| -desired(zone));
    }
    let (mut giving, mut taking) = (Quota::new(), Quota::new());
    loop {
        let most = surplus.iter().max_by(|one, two| one.1.total_cmp(two.1));
        let least = surplus.iter().min_by(|one, two| one.1.total_cmp(two.1));
        let (Some((from, more)), Some((to, less))) = (most, least) else { break };
        let (more, less) = (*more, -less);
        // Not for less than half an endpoint, and not for less than one on both sides.
        if more < 0.5 || less < 0.5 || (more < 1.0 && less < 1.0) {
            break;
        }
        let (from, to) = (from.clone(), to.clone());
        *giving.entry(from.clone()).or_default() += 1;
        *taking.entry(to.clone()).or_default() += 1;
        surplus.entry(from).and_modify(|it| *it -= 1.0);
        surplus.entry(to).and_modify(|it| *it += 1.0);
    }
    (giving, taking)
}
