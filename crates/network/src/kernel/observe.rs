//! What is in the kernel of ours, and around it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use linux::netlink::route::{self, Address, Destination, TunnelKind};
use linux::netlink::wireguard::{Device, Wireguard};
use linux::sysctl;
use stdx::Cidr;

use super::pod::{POD_LINK, PodNamespace};
use super::{Error, Kernel, Watched, has_our_protocol, lock};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, PodEnd, Remote, Route};
use crate::node::Surroundings;
use crate::probes::Uplink;

/// Shorter prefixes are ways to the whole world, such as the two halves that VPNs put before the
/// default route.
const PREFIX_MIN: u8 = 8;

/// Without rules and settings.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) state: KernelState,
    pub(crate) surroundings: Surroundings,
}

impl Kernel {
    /// `local`: addresses of this node by which others reach it.
    pub(crate) fn observe(&mut self, local: &[IpAddr]) -> Result<Observed, Error> {
        let links = self.routes.links()?;
        let addresses = self.routes.addresses()?;
        let routes = self.routes.routes()?;
        let surroundings = self.surroundings(&links, &addresses, &routes, local);
        let (ours, _): (Vec<_>, Vec<_>) = links.iter().partition(|it| self.is_ours(it));
        let mut state = KernelState { links: self.read_links(&ours)?, ..KernelState::default() };
        let names: BTreeMap<_, _> = ours.iter().map(|it| (it.index, it.name.clone())).collect();
        for it in &addresses {
            let Some(link) = names.get(&it.link).and_then(|it| state.links.get_mut(it)) else {
                continue;
            };
            // Nobody gave it link-local ones of IPv6; the kernel did, of which we do not speak.
            if it.address.is_ipv4() || it.scope == 0 {
                link.addresses.insert((it.address, it.prefix_length));
            }
        }
        for (index, it) in self.routes.permanent_neighbors()? {
            if let Some(link) = names.get(&index).and_then(|it| state.links.get_mut(it)) {
                link.neighbors.insert(it.address, it.hardware_address);
            }
        }
        if state.links.values().any(|it| matches!(it.kind, LinkKind::Vxlan { .. })) {
            for (index, it) in self.routes.forwards()? {
                if let Some(link) = names.get(&index).and_then(|it| state.links.get_mut(it)) {
                    let remote = Remote { address: it.remote, vni: it.vni };
                    link.forwards.insert(it.hardware_address, remote);
                }
            }
        }
        state.routes = routes.iter().filter_map(|it| self.read_route(it, &names)).collect();
        Ok(Observed { state, surroundings })
    }

    /// Those of these names that this kernel has.
    pub(crate) fn settings<'a>(
        &self,
        names: impl Iterator<Item = &'a String> + Send,
    ) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.namespace.run(|| read_settings(names))??)
    }

    fn read_links(&mut self, ours: &[&route::Link]) -> Result<BTreeMap<String, Link>, Error> {
        let mut links = BTreeMap::new();
        for link in ours {
            let is_veth = link.kind.as_deref() == Some("veth");
            let kind = match (&link.tunnel, link.address) {
                _ if link.name == self.bridge => LinkKind::Bridge,
                _ if is_veth => LinkKind::Pod { end: None },
                (Some(TunnelKind::Vxlan(vxlan)), Some(hardware)) => {
                    LinkKind::Vxlan { vxlan: *vxlan, hardware }
                }
                (Some(TunnelKind::Ipip { local }), _) => LinkKind::Ipip { local: *local },
                (None, _) if link.kind.as_deref() == Some("tun") => {
                    LinkKind::Udp(self.carrying.observe(link.index)?)
                }
                (Some(TunnelKind::Wireguard), _) => {
                    LinkKind::Wireguard(self.observe_device(&link.name)?)
                }
                _ => continue,
            };
            let (addresses, neighbors, forwards) =
                (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
            let (is_up, mtu) = (link.is_up, link.mtu);
            let found = Link { kind, is_up, mtu, addresses, neighbors, forwards };
            links.insert(link.name.clone(), found);
        }
        Ok(links)
    }

    fn observe_device(&mut self, link: &str) -> Result<Device, Error> {
        let path = self.namespace();
        if self.wireguard.is_none() {
            self.wireguard = Wireguard::open_in(&path)?;
        }
        match &mut self.wireguard {
            Some(wireguard) => Ok(wireguard.observe(link)?),
            None => Ok(Device::default()),
        }
    }

    fn surroundings(
        &self,
        links: &[route::Link],
        addresses: &[Address],
        routes: &[route::Route],
        local: &[IpAddr],
    ) -> Surroundings {
        let own: BTreeSet<u32> =
            links.iter().filter(|it| self.is_ours(it)).map(|it| it.index).collect();
        let uplinks = uplinks(addresses, routes, local);
        let of_others = || links.iter().filter(|it| !own.contains(&it.index));
        let up: BTreeSet<u32> = of_others().filter(|it| it.is_up).map(|it| it.index).collect();
        let is_network = |it: &&Address| {
            let is_alone = it.prefix_length == stdx::Family::of(it.address).bits();
            it.scope == 0 && up.contains(&it.link) && !is_alone && !it.address.is_loopback()
        };
        let networks = addresses.iter().filter(is_network);
        let learned = routes.iter().filter(|it| it.protocol == route::Route::ADVERTISED);
        let learned: BTreeSet<u32> = learned.filter_map(|it| it.link).collect();
        let names = |is_it: &dyn Fn(&route::Link) -> bool| -> BTreeSet<String> {
            links.iter().filter(|it| is_it(it)).map(|it| it.name.clone()).collect()
        };
        let vni = |it: &route::Link| match it.tunnel {
            Some(TunnelKind::Vxlan(vxlan)) => Some(vxlan.vni),
            _ => None,
        };
        let ways_out = || links.iter().filter(|it| uplinks.contains(&it.index));
        let uplink = |it: &route::Link| Uplink {
            name: it.name.clone(),
            mtu: it.mtu,
            is_up: it.is_up && it.has_carrier,
        };
        let surroundings = Surroundings {
            mtu: ways_out().map(|it| it.mtu).min(),
            uplinks: ways_out().map(uplink).collect(),
            world: world(addresses, routes),
            networks: self.networks(links, addresses, routes),
            addresses: addresses.iter().map(|it| it.address).collect(),
            connected: networks
                .filter_map(|it| Cidr::containing(it.address, it.prefix_length))
                .collect(),
            own_links: names(&|it| own.contains(&it.index)),
            other_links: names(&|it| !own.contains(&it.index)),
            other_vnis: of_others().filter_map(vni).collect(),
            advertised: names(&|it| learned.contains(&it.index)),
        };
        *lock(&self.watched) = Watched { own, uplinks };
        surroundings
    }

    /// What others have, where it could meet addresses of pods.
    fn networks(
        &self,
        links: &[route::Link],
        addresses: &[Address],
        routes: &[route::Route],
    ) -> BTreeMap<Cidr, String> {
        let link = |index: u32| links.iter().find(|it| it.index == index);
        let is_own = |index: u32| link(index).is_some_and(|it| self.is_ours(it));
        let name = |index: u32| link(index).map_or("a link that is gone", |it| it.name.as_str());
        let mut networks = BTreeMap::new();
        for route in routes {
            let Destination { address, prefix_length } = route.destination;
            let is_ours = route.metric == self.cluster.link_group() && has_our_protocol(route);
            if is_ours || route.link.is_some_and(is_own) || prefix_length < PREFIX_MIN {
                continue;
            }
            let over =
                route.link.map_or("to nowhere".to_owned(), |it| format!("over {}", name(it)));
            if let Some(range) = Cidr::containing(address, prefix_length) {
                networks.insert(range, format!("the route {range} {over}"));
            }
        }
        for it in addresses.iter().filter(|it| !is_own(it.link)) {
            let what = format!("the address {} of {}", it.address, name(it.link));
            networks.insert(Cidr::host(it.address), what);
        }
        networks
    }

    /// `None`: not ours. Those on our links are, whoever made them, but for what the kernel makes
    /// for an address; others are by their metric.
    fn read_route(&self, route: &route::Route, names: &BTreeMap<u32, String>) -> Option<Route> {
        let Destination { address, prefix_length } = route.destination;
        let destination = Cidr::containing(address, prefix_length)?;
        if let Some(name) = route.link.and_then(|it| names.get(&it)) {
            let is_kernels = route.protocol == route::Route::OF_KERNEL && address.is_ipv6();
            let name = name.clone();
            let next = match route.gateway {
                Some(gateway) => Next::Onlink { name, gateway },
                None => Next::Link { name, source: route.source },
            };
            return (!is_kernels).then_some(Route { destination, next, mtu: route.mtu });
        }
        let is_ours = has_our_protocol(route) && route.metric == self.cluster.link_group();
        let next = match (route.link, route.gateway) {
            (None, _) if route.is_blackhole => Next::Blackhole,
            (None, _) => Next::Nowhere,
            (Some(_), Some(gateway)) => Next::Gateway(gateway),
            (Some(_), None) => return None,
        };
        is_ours.then_some(Route { destination, next, mtu: route.mtu })
    }

    /// What of one pod's link is surely there, with two questions: whether it is this one, with its
    /// other end in this namespace. What is on it is not asked for: it is put there again, which
    /// changes nothing that is right.
    pub(crate) fn observe_pod(
        &mut self,
        name: &str,
        end: &PodEnd,
        pod: &mut PodNamespace<'_>,
    ) -> Result<KernelState, Error> {
        let in_pod = pod.socket.link(POD_LINK).map_err(Error::InPod)?;
        let mut state = KernelState::default();
        let is_its_end = in_pod.is_some_and(|it| it.address == Some(end.hardware));
        let link = self.routes.link(name)?.filter(|it| is_its_end && self.is_ours(it));
        if let Some(link) = link {
            let (addresses, neighbors, forwards) =
                (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
            let kind = LinkKind::Pod { end: None };
            let (is_up, mtu) = (link.is_up, link.mtu);
            let found = Link { kind, is_up, mtu, addresses, neighbors, forwards };
            state.links.insert(link.name, found);
        }
        Ok(state)
    }
}

/// Where packets for the world leave from, by the best way of each family.
fn world(addresses: &[Address], routes: &[route::Route]) -> Vec<IpAddr> {
    let best = |default: Destination| {
        let of_it = routes.iter().filter(|it| it.destination == default && it.link.is_some());
        let route = of_it.min_by_key(|it| it.metric)?;
        let is_usable = |it: &&Address| {
            let is_of_family = it.address.is_ipv4() == default.address.is_ipv4();
            Some(it.link) == route.link && is_of_family && it.scope == 0
        };
        route.source.or_else(|| addresses.iter().find(is_usable).map(|it| it.address))
    };
    [Destination::DEFAULT, Destination::DEFAULT_IPV6].into_iter().filter_map(best).collect()
}

/// The links that have the addresses by which others reach this node; without such, those by which
/// it reaches the world.
fn uplinks(addresses: &[Address], routes: &[route::Route], local: &[IpAddr]) -> BTreeSet<u32> {
    let of_addresses = addresses.iter().filter(|it| local.contains(&it.address));
    let found: BTreeSet<u32> = of_addresses.map(|it| it.link).collect();
    if !found.is_empty() {
        return found;
    }
    let defaults = [Destination::DEFAULT, Destination::DEFAULT_IPV6].into_iter();
    let best = |default: Destination| {
        let of_it = routes.iter().filter(|it| it.destination == default && it.link.is_some());
        of_it.min_by_key(|it| it.metric)?.link
    };
    defaults.filter_map(best).take(1).collect()
}

fn read_settings<'a>(
    names: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<String, String>, sysctl::Error> {
    let mut settings = BTreeMap::new();
    for name in names {
        if let Some(value) = sysctl::read(name)? {
            settings.insert(name.clone(), value);
        }
    }
    Ok(settings)
}
