//! Tells the worker which portals there are, and the kernel to send packets to them. The rules are
//! those of mode nftables, in a table of their own, with portals in place of endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use apimachinery::ObjectKey;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use linux::netlink::nftables::Nftables;
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::RouteSocket;
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use packets::{ENDPOINTS_MAX, Listening, Part, Place, Worker};
use stdx::Family;
use tokio::io::unix::AsyncFd;

use super::guard::{self, Guard};
use super::portals::{self, Door, Scope};
use super::{CarryError, address};
use crate::backends::strangers::watched;
use crate::backends::{Backend, Error, Networks, nftables};
use crate::service_port::{Protocol, ServicePort};

/// Of the table that sends packets to portals.
const TABLE: &str = "portals";
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

pub(super) fn open(cluster: ClusterId, networks: &Networks) -> Result<Box<dyn Backend>, Error> {
    let place = networks.worker.clone().ok_or(CarryError::NoPlace)?;
    let families: Vec<_> = FAMILIES.into_iter().filter(|it| networks.serves(*it)).collect();
    let listen = || {
        let routes = RouteSocket::open()?;
        Ok((routes, Notices::of_links()?, Guard::open(cluster, &families)?))
    };
    let (routes, notices, guard) = listen().map_err(|source| Error::Open { source })?;
    Ok(Box::new(Portals {
        rules: nftables::open_table(cluster, networks, TABLE)?,
        guard,
        place,
        worker: None,
        namespace: NetworkNamespace::current().map_err(CarryError::Namespace)?,
        routes,
        families,
        networks: networks.clone(),
        addresses: BTreeMap::new(),
        services: BTreeMap::new(),
        doors: BTreeMap::new(),
        changed: BTreeSet::new(),
        opened: Some(notices),
        notices: None,
        listening: None,
    }))
}

/// Removes the cluster's tables. The worker is others', too.
pub(super) fn purge(cluster: ClusterId) -> Result<(), Error> {
    nftables::purge_table(cluster, TABLE)?;
    let purge = |family| Nftables::open(guard::id(cluster, family))?.purge();
    let purged = FAMILIES.into_iter().try_for_each(purge);
    purged.map_err(|source| Error::Purge { source })
}

/// Where another mode serves: connections that a worker carries go on, and it takes no others.
pub fn retire(place: &Place) -> Result<(), Error> {
    let retire = || {
        if let Some(mut worker) = Worker::find(place)? {
            worker.begin_portals()?;
            worker.end_portals()?;
        }
        Ok(())
    };
    let retired: Result<(), packets::Error> = retire();
    Ok(retired.map_err(CarryError::Worker)?)
}

#[derive(Debug)]
struct Portals {
    rules: Box<dyn Backend>,
    guard: Guard,
    place: Place,
    /// With whom somebody speaks, that does not end, though there be nothing to carry.
    worker: Option<Worker>,
    namespace: NetworkNamespace,
    routes: RouteSocket,
    families: Vec<Family>,
    networks: Networks,
    /// Where the worker listens.
    addresses: BTreeMap<Family, IpAddr>,
    services: BTreeMap<ObjectKey, Vec<ServicePort>>,
    /// Those that are open, by name.
    doors: BTreeMap<String, Door>,
    /// Since the worker was last told.
    changed: BTreeSet<ObjectKey>,
    /// Heard by nobody yet.
    opened: Option<Notices>,
    notices: Option<AsyncFd<Notices>>,
    listening: Option<Listening>,
}

impl Portals {
    fn chosen(&mut self) -> Result<BTreeMap<Family, IpAddr>, CarryError> {
        let addresses = self.routes.addresses().map_err(CarryError::Addresses)?;
        let choose = |family: &Family| {
            let found = address::choose(&addresses, *family, &self.networks.services);
            Some((*family, found?))
        };
        Ok(self.families.iter().filter_map(choose).collect())
    }

    /// Opens the Service's portals, and says to the rules where they are. Returns the names of those
    /// that it has.
    fn open(
        &mut self,
        worker: &mut Worker,
        service: &ObjectKey,
    ) -> Result<Vec<String>, CarryError> {
        let ports = self.services.get(service).cloned().unwrap_or_default();
        let mut names = Vec::new();
        for port in &ports {
            tell_limits(service, port);
            let family = port.family();
            let Some(address) = self.addresses.get(&family).copied() else {
                tracing::error!(%service, %family, "this node has no address of the family at which a worker could listen: refused");
                continue;
            };
            for scope in Scope::BOTH {
                let Some(portal) = portals::portal(service, port, scope, address) else { continue };
                let protocol = port.protocol;
                match worker.open_portal(&portal) {
                    Ok(port) => {
                        self.doors.insert(portal.id.clone(), Door { protocol, address, port });
                        names.push(portal.id);
                    }
                    // One too many: the others are served.
                    Err(packets::Error::Refused(why)) => {
                        tracing::error!(%service, port = port.port, why, "a port of a Service is not served");
                    }
                    Err(err) => return Err(err.into()),
                }
            }
        }
        let ports = ports.into_iter().filter(|it| self.families.contains(&it.family()));
        let ports = ports.map(|it| portals::behind_portals(service, it, &self.doors)).collect();
        self.rules.set(service, ports);
        Ok(names)
    }

    /// Those whose names begin so: of one Service.
    fn names_of(&self, service: &ObjectKey) -> BTreeSet<String> {
        let start = format!("{service}:");
        let of_it = self.doors.range(start.clone()..).take_while(|(it, _)| it.starts_with(&start));
        of_it.map(|(it, _)| it.clone()).collect()
    }

    fn all_doors(&self) -> BTreeSet<Door> {
        self.doors.values().copied().collect()
    }

    /// New portals are open before packets come, and old ones until none do.
    fn tell(&mut self) -> Result<(), Error> {
        let worker = self.worker.take();
        let mut worker = worker.ok_or(CarryError::Worker(packets::Error::Ended))?;
        let before = self.all_doors();
        let mut gone = BTreeSet::new();
        for service in std::mem::take(&mut self.changed) {
            let had = self.names_of(&service);
            // What is not opened again is closed below; its door is none for the rules.
            let doors: Vec<_> = had.iter().filter_map(|it| self.doors.remove_entry(it)).collect();
            let has = self.open(&mut worker, &service)?;
            gone.extend(doors.into_iter().filter(|(it, _)| !has.contains(it)));
        }
        let come = self.all_doors().difference(&before).copied().collect();
        self.guard.add(&come).map_err(|source| Error::Apply { source })?;
        self.rules.apply()?;
        for (name, _) in &gone {
            worker.close_portal(name).map_err(CarryError::Worker)?;
        }
        let gone = before.difference(&self.all_doors()).copied().collect();
        self.worker = Some(worker);
        self.guard.remove(&gone).map_err(|source| Error::Apply { source })
    }

    fn tell_all(&mut self) -> Result<(), Error> {
        self.addresses = self.chosen()?;
        let start = || Worker::find_or_start(&self.place);
        let started = self.namespace.run(start).map_err(CarryError::Namespace)?;
        let mut worker = started.map_err(CarryError::Worker)?;
        worker.begin_portals().map_err(CarryError::Worker)?;
        self.doors.clear();
        let services: BTreeSet<_> = self.services.keys().chain(&self.changed).cloned().collect();
        for service in &services {
            self.open(&mut worker, service)?;
        }
        self.changed.clear();
        let doors = self.all_doors();
        self.guard.converge(&doors).map_err(|source| Error::Resync { source })?;
        self.rules.resync()?;
        worker.end_portals().map_err(CarryError::Worker)?;
        self.worker = Some(worker);
        Ok(())
    }

    /// Returns when the worker has ended, or was not there.
    async fn ended(listening: &mut Option<Listening>, place: &Place) {
        if listening.is_none() {
            *listening = Listening::start(place, Part::Portals).ok().flatten();
        }
        while let Some(heard) = listening {
            match heard.next().await {
                Some(words) => tracing::error!(words, "the worker of the service proxy"),
                None => *listening = None,
            }
        }
        tracing::error!("the worker of the service proxy has ended: starting another");
    }
}

/// What of a port is not served.
fn tell_limits(service: &ObjectKey, port: &ServicePort) {
    if port.protocol == Protocol::Sctp {
        tracing::error!(%service, port = port.port, "SCTP is not carried in mode userspace: refused");
    }
    let n_endpoints = port.endpoints.cluster.len();
    if n_endpoints > ENDPOINTS_MAX {
        tracing::error!(%service, port = port.port, n_endpoints, "only {ENDPOINTS_MAX} endpoints are used");
    }
}

impl Backend for Portals {
    fn adopt(&mut self) -> Result<(), Error> {
        self.rules.adopt()
    }

    fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        self.changed.insert(service.clone());
        let is_served = |it: &ServicePort| self.families.contains(&it.family());
        let ports: Vec<_> = ports.into_iter().filter(is_served).collect();
        match ports.is_empty() {
            true => drop(self.services.remove(service)),
            false => drop(self.services.insert(service.clone(), ports)),
        }
    }

    fn apply(&mut self) -> Result<(), Error> {
        self.tell()
    }

    fn resync(&mut self) -> Result<(), Error> {
        self.tell_all()
    }

    fn disturbed(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        async {
            let listening = |source| Error::Listen { source };
            if let Some(notices) = self.opened.take() {
                self.notices = Some(watched(notices).map_err(|source| {
                    let doing = "hear of this node's addresses".to_owned();
                    listening(linux::netlink::Error { doing, source })
                })?);
            }
            loop {
                tokio::select! {
                    biased;
                    disturbed = self.rules.disturbed() => return disturbed,
                    disturbed = self.guard.disturbed() => return disturbed.map_err(listening),
                    () = Self::ended(&mut self.listening, &self.place) => return Ok(()),
                    told = moved(&mut self.notices) => told.map_err(listening)?,
                }
                if self.chosen()? != self.addresses {
                    tracing::warn!("the address at which the worker listens is another");
                    return Ok(());
                }
            }
        }
        .boxed()
    }
}

/// Returns when addresses of this node have changed.
async fn moved(notices: &mut Option<AsyncFd<Notices>>) -> Result<(), linux::netlink::Error> {
    let Some(notices) = notices else { return std::future::pending().await };
    loop {
        let ready = notices.readable_mut().await;
        let mut ready = ready.map_err(|source| linux::netlink::Error {
            doing: "wait for the kernel's notices".to_owned(),
            source,
        })?;
        let is_it = |it: &Notice| matches!(it, Notice::Address { .. } | Notice::Missed);
        match ready.get_inner_mut().receive()? {
            None => ready.clear_ready(),
            Some(told) if told.iter().any(is_it) => return Ok(()),
            Some(_) => {}
        }
    }
}
