//! Cluster IPs and node ports: taken inside the write that needs them, given back when that write
//! fails or the Service no longer has them. Rebuilt from the cache at start, kept current by
//! observing it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Resource as _;
use api::core::Service;
use api::core::service::{complete_families, needs_health_check_port, needs_node_port};
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use kvstore::{Compare, KeyRange, Relation, Revision, Target};
use stdx::Random;

use super::pool::Pool;
use crate::cache::{Change, ROOT};
use crate::config::ServiceCidr;
use crate::pipeline::hooks;

struct Pools {
    addresses: Pool,
    ports: Pool,
}

pub(super) struct Allocator {
    cidr: ServiceCidr,
    pools: Arc<Mutex<Pools>>,
    random: Random,
}

/// What one write took; given back unless the write happened.
#[must_use]
pub(super) struct Reservation {
    /// Everything up to this revision had been seen when it was taken.
    seen: u64,
    pools: Arc<Mutex<Pools>>,
    addresses: Vec<u32>,
    ports: Vec<u32>,
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
            pools.addresses.release(*address);
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
        cidr: ServiceCidr,
        ports: std::ops::RangeInclusive<u16>,
        random: Random,
    ) -> Self {
        let (first, last) = cidr.hosts();
        let n_ports = u32::from(*ports.end()) - u32::from(*ports.start()) + 1;
        // The first part of each range is for those who ask for a certain one (KEP-3070, KEP-3668).
        let static_addresses = ((last - first + 1) / 16).clamp(16, 256);
        let static_ports = (n_ports / 32).clamp(16, 128);
        let pools = Pools {
            addresses: Pool::new(first, last, static_addresses),
            ports: Pool::new(u32::from(*ports.start()), u32::from(*ports.end()), static_ports),
        };
        Self { cidr, pools: Arc::new(Mutex::new(pools)), random }
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
        let mut errors = FieldErrors::new();
        self.reserve_address(service, old, &mut reservation, &mut errors);
        self.reserve_ports(service, old, &mut reservation, &mut errors);
        if errors.is_empty() {
            return Ok(reservation);
        }
        let kind = GroupKind { group: String::new(), kind: "Service".to_owned() };
        let name = service.metadata.name.clone().unwrap_or_default();
        Err(ApiError::invalid(&kind, &name, &errors))
    }

    fn reserve_address(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        reservation: &mut Reservation,
        errors: &mut FieldErrors,
    ) {
        let kept: Vec<u32> = old.map(addresses).unwrap_or_default();
        let Some(spec) = service.spec.as_mut() else { return };
        if spec.type_.as_deref() == Some("ExternalName") {
            return;
        }
        let mut pools = lock(&self.pools);
        match spec.cluster_ip.as_deref().unwrap_or_default() {
            "None" => {
                spec.cluster_ips.get_or_insert_with(|| vec!["None".to_owned()]);
            }
            "" => match pools.addresses.take_any(&self.random) {
                Some(address) => {
                    reservation.addresses.push(address);
                    let text = Ipv4Addr::from(address).to_string();
                    spec.cluster_ip = Some(text.clone());
                    spec.cluster_ips = Some(vec![text]);
                }
                None => errors.internal(
                    &Path::new("spec").child("clusterIPs"),
                    "failed to allocate IP: range is full",
                ),
            },
            text => {
                let path = Path::new("spec").child("clusterIPs");
                match text.parse::<IpAddr>() {
                    Ok(IpAddr::V4(address)) if kept.contains(&u32::from(address)) => {}
                    Ok(IpAddr::V4(address)) if !pools.addresses.contains(u32::from(address)) => {
                        let why = format!(
                            "failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. \
                             The range of valid IPs is {}",
                            self.cidr
                        );
                        errors.invalid(&path, vec![text.to_owned()], &why);
                    }
                    Ok(IpAddr::V4(address)) => {
                        if pools.addresses.take(u32::from(address)) {
                            reservation.addresses.push(u32::from(address));
                        } else {
                            let why = format!(
                                "failed to allocate IP {address}: provided IP is already allocated"
                            );
                            errors.invalid(&path, vec![text.to_owned()], &why);
                        }
                    }
                    Ok(IpAddr::V6(_)) => {
                        errors.invalid(&path, vec![text.to_owned()], "must be a valid IPv4 address")
                    }
                    // Validation says what is wrong with it.
                    Err(_) => {}
                }
                spec.cluster_ips.get_or_insert_with(|| vec![text.to_owned()]);
            }
        }
        complete_families(service, "IPv4");
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
    fn take(&mut self, wanted: u32, path: &Path) {
        if !self.pool.contains(wanted) {
            self.refuse(i32::try_from(wanted).unwrap_or_default(), path);
        } else if self.pool.take(wanted) {
            self.reservation.ports.push(wanted);
        } else {
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
fn number(port: Option<i32>) -> Option<u32> {
    port.and_then(|it| u16::try_from(it).ok()).map(u32::from).filter(|it| *it != 0)
}

fn addresses(service: &Service) -> Vec<u32> {
    let spec = service.spec.as_ref();
    let texts = spec.and_then(|it| it.cluster_ips.clone()).unwrap_or_default();
    let first = spec.and_then(|it| it.cluster_ip.clone());
    let mut addresses: Vec<u32> = texts
        .iter()
        .chain(first.iter())
        .filter_map(|it| it.parse::<Ipv4Addr>().ok())
        .map(u32::from)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn node_ports(service: &Service) -> Vec<u32> {
    let ports = service.spec.as_ref().and_then(|it| it.ports.as_ref());
    ports.into_iter().flatten().filter_map(|it| number(it.node_port)).collect()
}

fn health_check_port(service: &Service) -> Option<u32> {
    number(service.spec.as_ref()?.health_check_node_port)
}

/// All that a Service holds.
fn ports(service: &Service) -> Vec<u32> {
    node_ports(service).into_iter().chain(health_check_port(service)).collect()
}

impl Allocator {
    /// What Services hold is taken, what they held is free.
    pub(super) fn follow(&self, change: &Change) {
        let typed = |it: &Arc<api::Stored>| Service::decode(&it.bytes).ok();
        let new = change.object.as_ref().and_then(typed);
        let old = change.previous.as_ref().and_then(typed);
        let held = |of: fn(&Service) -> Vec<u32>| {
            (new.as_ref().map(of).unwrap_or_default(), old.as_ref().map(of).unwrap_or_default())
        };
        let mut pools = lock(&self.pools);
        let (new_addresses, old_addresses) = held(addresses);
        pools.addresses.follow(&new_addresses, &old_addresses);
        let (new_ports, old_ports) = held(ports);
        pools.ports.follow(&new_ports, &old_ports);
    }
}
