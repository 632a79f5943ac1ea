//! Cluster IPs and node ports: taken inside the write that needs them, given back when that write
//! fails or the Service no longer has them. Rebuilt from the cache at start, kept current by
//! observing it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Resource as _;
use api::core::Service;
use api::core::service::{
    complete_families, needs_cluster_ip, needs_health_check_port, needs_node_port, set_cluster_ips,
};
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use kvstore::{Compare, KeyRange, Relation, Revision, Target};
use stdx::{Cidr, Family, Random};

use super::pool::Pool;
use crate::cache::{Change, ROOT};
use crate::pipeline::hooks;

struct Pools {
    /// One for each family of the cluster's Services, the first one first.
    addresses: Vec<AddressPool>,
    ports: Pool,
}

impl Pools {
    fn of(&mut self, family: Family) -> Option<&mut AddressPool> {
        self.addresses.iter_mut().find(|it| it.cidr.family() == family)
    }
}

/// The addresses of a range, by their position in it.
struct AddressPool {
    cidr: Cidr,
    pool: Pool,
}

impl AddressPool {
    fn new(cidr: Cidr) -> Self {
        let (first, last) = host_positions(cidr);
        // The first part of each range is for those who ask for a certain one (KEP-3070).
        let n_static = ((last - first).saturating_add(1) / 16).clamp(16, 256);
        Self { cidr, pool: Pool::new(first, last, n_static) }
    }

    /// Positions that no Service can have, those of other ranges among them, are left out.
    fn positions(&self, addresses: &[IpAddr]) -> Vec<u128> {
        addresses.iter().filter_map(|it| self.cidr.position(*it)).collect()
    }

    fn take(&mut self, address: IpAddr) -> Result<(), String> {
        match self.cidr.position(address).filter(|it| self.pool.contains(*it)) {
            None => Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                self.cidr
            )),
            Some(position) if self.pool.take(position) => Ok(()),
            Some(_) => Err("provided IP is already allocated".to_owned()),
        }
    }

    fn take_any(&mut self, random: &Random) -> Option<IpAddr> {
        self.pool.take_any(random).and_then(|it| self.cidr.nth(it))
    }

    fn release(&mut self, address: IpAddr) {
        if let Some(position) = self.cidr.position(address) {
            self.pool.release(position);
        }
    }
}

/// The first and last that Services can have: not the network's own, and of IPv4 not the one for
/// broadcasts. A range that has no others is for whoever asks.
fn host_positions(cidr: Cidr) -> (u128, u128) {
    let last = cidr.position(cidr.last()).unwrap_or_default();
    match cidr.family() {
        _ if last < 2 => (0, last),
        Family::V4 => (1, last - 1),
        Family::V6 => (1, last),
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
    fn keep(mut self: Box<Self>) {
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
            if let Some(pool) = pools.of(Family::of(*address)) {
                pool.release(*address);
            }
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
            addresses: cidrs.iter().copied().map(AddressPool::new).collect(),
            ports: Pool::new(first, last, static_ports),
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
            let pool =
                pools.addresses.iter_mut().find(|it| it.cidr.family().to_string() == *family);
            let Some(pool) = pool.filter(|_| !is_settled) else { continue };
            let taken = match wanted {
                Some(address) => pool.take(address).map(|()| address).map_err(|why| {
                    let why = format!("failed to allocate IP {address}: {why}");
                    errors.invalid(&path, named.clone(), &why);
                }),
                None => pool.take_any(&self.random).ok_or_else(|| {
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
        let mut pools = lock(&self.pools);
        let mut draw = Draw { pool: &mut pools.ports, random: &self.random, reservation, errors };
        let kept = old.map(node_ports).unwrap_or_default();
        for (index, port) in spec.ports.iter_mut().flatten().enumerate() {
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

fn addresses(service: &Service) -> Vec<IpAddr> {
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
        let (new_addresses, old_addresses) = (addresses(&new), addresses(&old));
        for pool in &mut pools.addresses {
            let (new, old) = (pool.positions(&new_addresses), pool.positions(&old_addresses));
            pool.pool.follow(&new, &old);
        }
        let ports = |it: &Option<Service>| it.as_ref().map(ports).unwrap_or_default();
        pools.ports.follow(&ports(&new), &ports(&old));
    }
}
