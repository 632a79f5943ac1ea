//! Cluster IPs and node ports: taken inside the write that needs them, given back when that write
//! fails or the Service no longer has them. Rebuilt from the cache at start, kept current by
//! observing it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Resource as _;
use api::core::Service;
use api::core::service::{
    complete_families, needs_cluster_ip, needs_health_check_port, needs_node_port, set_cluster_ips,
};
use api::networking::ServiceCIDR;
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use bytes::Bytes;
use kvstore::{Compare, KeyRange, Op, Relation, Revision, Target};
use stdx::{Cidr, Family, Random};

use super::node_port_range::{self, NodePortRange};
use super::objects::ready_ranges;
use super::pool::Pool;
use super::ranges::Ranges;
use crate::cache::{Change, ROOT};
use crate::pipeline::hooks;

struct Pools {
    ranges: Ranges,
    /// What Services have, or are about to.
    of_services: BTreeSet<IpAddr>,
    /// What there is an IPAddress of, whoever's it is, or is about to be.
    of_objects: BTreeSet<IpAddr>,
    ports: Pool,
    /// As upstream keeps them, where it does.
    kept: Option<NodePortRange>,
}

impl Pools {
    fn is_taken(&self, address: IpAddr) -> bool {
        self.of_services.contains(&address) || self.of_objects.contains(&address)
    }

    fn take(&mut self, address: IpAddr) -> Result<(), String> {
        if !self.ranges.contain(address) {
            let ranges = self.ranges.of(Family::of(address));
            let ranges: Vec<String> = ranges.map(|it| it.to_string()).collect();
            return Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                ranges.join(",")
            ));
        }
        if self.is_taken(address) {
            return Err("provided IP is already allocated".to_owned());
        }
        self.of_services.insert(address);
        Ok(())
    }

    fn take_any(&mut self, family: Family, random: &Random) -> Option<IpAddr> {
        let address = self.ranges.draw(family, random, |it| self.is_taken(it))?;
        self.of_services.insert(address);
        Some(address)
    }
}

pub(super) struct Allocator {
    families: Vec<Family>,
    pools: Arc<Mutex<Pools>>,
    random: Random,
}

/// What one write took; given back unless the write happened.
#[must_use]
pub(super) struct Reservation {
    /// Everything up to this revision had been seen when it was taken.
    seen: u64,
    pools: Arc<Mutex<Pools>>,
    addresses: Vec<IpAddr>,
    ports: Vec<u128>,
}

impl admission::Reservation for Reservation {
    fn keep(&mut self) {
        self.addresses.clear();
        self.ports.clear();
    }
}

impl hooks::Reservation for Reservation {
    /// No Service has been written since.
    fn guard(&self) -> Option<Compare> {
        if self.addresses.is_empty() && self.ports.is_empty() {
            return None;
        }
        let services = format!("{ROOT}{}/", Service::FACTS.registry_prefix);
        let keys = KeyRange::prefix(services.as_bytes());
        let target = Target::ModRevision(Revision(self.seen + 1));
        Some(Compare { keys, relation: Relation::Less, target })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.addresses.is_empty() && self.ports.is_empty() {
            return;
        }
        let mut pools = lock(&self.pools);
        for address in &self.addresses {
            pools.of_services.remove(address);
        }
        for port in &self.ports {
            pools.ports.release(*port);
        }
    }
}

fn lock(pools: &Mutex<Pools>) -> MutexGuard<'_, Pools> {
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Allocator {
    pub(super) fn new(
        cidrs: &[Cidr],
        ports: std::ops::RangeInclusive<u16>,
        random: Random,
    ) -> Self {
        let (first, last) = (u128::from(*ports.start()), u128::from(*ports.end()));
        // The first part is for those who ask for a certain one (KEP-3668).
        let static_ports = ((last - first + 1) / 32).clamp(16, 128);
        let pools = Pools {
            ranges: Ranges::new(cidrs),
            of_services: BTreeSet::new(),
            of_objects: BTreeSet::new(),
            ports: Pool::new(first, last, static_ports),
            kept: None,
        };
        let families = cidrs.iter().map(|it| it.family()).collect();
        Self { families, pools: Arc::new(Mutex::new(pools)), random }
    }

    /// Fills in what a Service is missing. `seen` is a revision that had been reached before the
    /// call.
    pub(super) fn reserve(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        seen: u64,
    ) -> Result<Reservation, ApiError> {
        let mut reservation = Reservation {
            seen,
            pools: self.pools.clone(),
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        let mut errors = complete_families(service, old, &self.families);
        if errors.is_empty() {
            self.reserve_addresses(service, old, &mut reservation, &mut errors);
            self.reserve_ports(service, old, &mut reservation, &mut errors);
        }
        if errors.is_empty() {
            return Ok(reservation);
        }
        let kind = GroupKind { group: String::new(), kind: "Service".to_owned() };
        let name = service.metadata.name.clone().unwrap_or_default();
        Err(ApiError::invalid(&kind, &name, &errors))
    }

    /// One address for each family; those that the Service had or names stay.
    fn reserve_addresses(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        reservation: &mut Reservation,
        errors: &mut FieldErrors,
    ) {
        if !needs_cluster_ip(service) {
            return;
        }
        let kept: Vec<IpAddr> = old.map(addresses).unwrap_or_default();
        let Some(spec) = &service.spec else { return };
        let mut texts = spec.cluster_ips.clone().unwrap_or_default();
        let named = texts.clone();
        let path = Path::new("spec").child("clusterIPs");
        let mut pools = lock(&self.pools);
        for (index, family) in spec.ip_families.iter().flatten().enumerate() {
            let wanted = texts.get(index).and_then(|it| it.parse::<IpAddr>().ok());
            // Validation says what is wrong with a text that is no address, and a Service may have
            // kept the address of a family that the cluster has no longer.
            let is_settled = wanted.is_some_and(|it| kept.contains(&it)) || {
                texts.get(index).is_some_and(|it| !it.is_empty()) && wanted.is_none()
            };
            let family = self.families.iter().find(|it| it.to_string() == *family);
            let Some(family) = family.filter(|_| !is_settled) else { continue };
            let taken = match wanted {
                Some(address) => pools.take(address).map(|()| address).map_err(|why| {
                    let why = format!("failed to allocate IP {address}: {why}");
                    errors.invalid(&path, named.clone(), &why);
                }),
                None => pools.take_any(*family, &self.random).ok_or_else(|| {
                    errors.internal(&path, "failed to allocate IP: range is full");
                }),
            };
            let Ok(address) = taken else { continue };
            reservation.addresses.push(address);
            if index >= texts.len() {
                texts.push(address.to_string());
            }
        }
        set_cluster_ips(service, texts);
    }

    fn reserve_ports(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        reservation: &mut Reservation,
        errors: &mut FieldErrors,
    ) {
        let needs_node_ports = needs_node_port(service);
        let needs_health_check = needs_health_check_port(service);
        let Some(spec) = service.spec.as_mut() else { return };
        let has_node_ports = matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"));
        let mut pools = lock(&self.pools);
        let mut draw = Draw { pool: &mut pools.ports, random: &self.random, reservation, errors };
        let kept = old.map(node_ports).unwrap_or_default();
        // What a Service of another type says of them is for validation to refuse.
        let ports = spec.ports.iter_mut().flatten().filter(|_| has_node_ports);
        for (index, port) in ports.enumerate() {
            let path = Path::new("spec").child("ports").index(index).child("nodePort");
            match number(port.node_port) {
                None if port.node_port.is_some_and(|it| it != 0) => {
                    draw.refuse(port.node_port.unwrap_or_default(), &path);
                }
                // The same number may serve TCP and UDP of one Service.
                Some(it) if kept.contains(&it) || draw.reservation.ports.contains(&it) => {}
                Some(it) => draw.take(it, &path),
                None if needs_node_ports => port.node_port = draw.take_any("nodePort", &path),
                None => {}
            }
        }
        if needs_health_check {
            let path = Path::new("spec").child("healthCheckNodePort");
            match number(spec.health_check_node_port) {
                None if spec.health_check_node_port.is_some_and(|it| it != 0) => {
                    draw.refuse(spec.health_check_node_port.unwrap_or_default(), &path);
                }
                wanted @ Some(_) if wanted == old.and_then(health_check_port) => {}
                Some(it) => draw.take(it, &path),
                None => {
                    spec.health_check_node_port = draw.take_any("healthCheckNodePort", &path);
                }
            }
        }
    }
}

/// Taking ports for one Service.
struct Draw<'a> {
    pool: &'a mut Pool,
    random: &'a Random,
    reservation: &'a mut Reservation,
    errors: &'a mut FieldErrors,
}

impl Draw<'_> {
    fn take(&mut self, wanted: u128, path: &Path) {
        if !self.pool.contains(wanted) {
            self.refuse(i32::try_from(wanted).unwrap_or_default(), path);
        } else if self.pool.take(wanted) {
            self.reservation.ports.push(wanted);
        } else {
            let wanted = i32::try_from(wanted).unwrap_or_default();
            self.errors.invalid(path, wanted, "provided port is already allocated");
        }
    }

    fn refuse(&mut self, wanted: i32, path: &Path) {
        let (first, last) = self.pool.bounds();
        let why = format!(
            "provided port is not in the valid range. The range of valid ports is {first}-{last}"
        );
        self.errors.invalid(path, wanted, &why);
    }

    fn take_any(&mut self, what: &str, path: &Path) -> Option<i32> {
        let Some(port) = self.pool.take_any(self.random) else {
            self.errors.internal(path, &format!("failed to allocate a {what}: range is full"));
            return None;
        };
        self.reservation.ports.push(port);
        i32::try_from(port).ok()
    }
}

/// A port that is set: zero is none, and what can be no port is none either.
fn number(port: Option<i32>) -> Option<u128> {
    port.and_then(|it| u16::try_from(it).ok()).map(u128::from).filter(|it| *it != 0)
}

pub(super) fn addresses(service: &Service) -> Vec<IpAddr> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let texts = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut addresses: Vec<IpAddr> = texts.filter_map(|it| it.parse().ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn node_ports(service: &Service) -> Vec<u128> {
    let ports = service.spec.as_ref().and_then(|it| it.ports.as_ref());
    ports.into_iter().flatten().filter_map(|it| number(it.node_port)).collect()
}

fn health_check_port(service: &Service) -> Option<u128> {
    number(service.spec.as_ref()?.health_check_node_port)
}

/// All that a Service holds.
fn ports(service: &Service) -> Vec<u128> {
    node_ports(service).into_iter().chain(health_check_port(service)).collect()
}

impl Allocator {
    /// What Services hold is taken, what they held is free.
    pub(super) fn follow(&self, change: &Change) {
        let typed = |it: &Arc<api::Stored>| Service::decode(&it.bytes).ok();
        let new = change.object.as_ref().and_then(typed);
        let old = change.previous.as_ref().and_then(typed);
        let mut pools = lock(&self.pools);
        let addresses = |it: &Option<Service>| it.as_ref().map(addresses).unwrap_or_default();
        for address in addresses(&old) {
            pools.of_services.remove(&address);
        }
        pools.of_services.extend(addresses(&new));
        let ports = |it: &Option<Service>| it.as_ref().map(ports).unwrap_or_default();
        pools.ports.follow(&ports(&new), &ports(&old));
    }

    /// What upstream has given out of its range is taken, also while no Service has it yet.
    pub(super) fn follow_kept(&self, value: Option<(&Bytes, u64)>) {
        let kept = value.and_then(|(value, revision)| NodePortRange::decode(value, revision));
        if kept.is_none() && value.is_some() {
            tracing::error!(key = node_port_range::KEY, "what upstream keeps cannot be read");
        }
        let mut pools = lock(&self.pools);
        pools.ports.set_elsewhere(kept.as_ref().map(|it| it.ports.clone()).unwrap_or_default());
        pools.kept = kept;
    }

    /// What is written to upstream's range together with a Service, if it has one: over the state
    /// that was seen of it, so that nobody's change is lost.
    pub(super) fn beside(
        &self,
        old: Option<&Service>,
        new: Option<&Service>,
    ) -> Option<(Option<Compare>, Op)> {
        let pools = lock(&self.pools);
        let kept = pools.kept.as_ref()?;
        let had = old.map(ports).unwrap_or_default();
        let has = new.map(ports).unwrap_or_default();
        let come: Vec<u128> = has.iter().filter(|it| !had.contains(it)).copied().collect();
        let go: Vec<u128> = had.iter().filter(|it| !has.contains(it)).copied().collect();
        if come.is_empty() && go.is_empty() {
            return None;
        }
        let key = format!("{ROOT}{}", node_port_range::KEY);
        let same = Compare::mod_revision(key.as_bytes(), Revision(kept.revision));
        Some((Some(same), Op::put(key, kept.encode_with(&come, &go))))
    }

    /// What there is an IPAddress of is taken, whoever's it is.
    pub(super) fn follow_object(&self, change: &Change) {
        let Ok(address) = change.latest().meta.key.name.parse() else { return };
        let mut pools = lock(&self.pools);
        match change.object {
            Some(_) => pools.of_objects.insert(address),
            None => pools.of_objects.remove(&address),
        };
    }

    /// Ranges come and go.
    pub(super) fn follow_range(&self, change: &Change) {
        let range = change.object.as_ref().and_then(|it| ServiceCIDR::decode(&it.bytes).ok());
        let cidrs = range.as_ref().map(ready_ranges).unwrap_or_default();
        lock(&self.pools).ranges.set(&change.latest().meta.key.name, cidrs);
    }

    /// For an IPAddress that somebody makes: no Service gets the address meanwhile. `None` if one
    /// has it.
    pub(super) fn reserve_object(&self, address: IpAddr) -> Option<ObjectReservation> {
        let mut pools = lock(&self.pools);
        if pools.is_taken(address) {
            return None;
        }
        pools.of_objects.insert(address);
        Some(ObjectReservation { pools: self.pools.clone(), address: Some(address) })
    }
}

/// The address of an IPAddress that is being made; given back unless that happened.
#[must_use]
pub(super) struct ObjectReservation {
    pools: Arc<Mutex<Pools>>,
    address: Option<IpAddr>,
}

impl admission::Reservation for ObjectReservation {
    fn keep(&mut self) {
        self.address = None;
    }
}

impl hooks::Reservation for ObjectReservation {
    /// Its name is the address: there is no other.
    fn guard(&self) -> Option<Compare> {
        None
    }
}

impl Drop for ObjectReservation {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            lock(&self.pools).of_objects.remove(&address);
        }
    }
}
