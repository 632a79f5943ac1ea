//! Changes to netlink.

use std::collections::BTreeMap;

use linux::netlink::route::{
    self, Destination, Forward, Link, LinkChange, Namespace, Neighbor, NewTunnel, Peer, Scope,
    TunnelKind, VethPair,
};
use linux::netlink::wireguard::{Device, Wireguard};
use linux::sysctl;
use rustix::io::Errno;
use stdx::Cidr;

use super::pod::{POD_LINK, PodNamespace};
use super::{Error, Kernel, delete_link, route_to};
use crate::kernel_state::{Change, LinkKind, Next, PodEnd, Route};

pub(super) const UP: LinkChange =
    LinkChange { is_up: Some(true), mtu: None, address: None, group: None, master: None };

/// `RT_SCOPE_NOWHERE`: whichever the route has.
const ANY_SCOPE: Scope = Scope::Other(255);

/// Links that were found, by name, while changes that belong together are made.
#[derive(Default)]
struct Found(BTreeMap<String, Link>);

impl Kernel {
    /// In their order, until one fails. Links of pods are made only with the namespace.
    pub(crate) fn apply<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a Change>,
        mut pod: Option<&mut PodNamespace<'_>>,
    ) -> Result<(), Error> {
        let mut found = Found::default();
        for change in changes {
            tracing::debug!(?change, "pod network");
            self.apply_one(change, pod.as_deref_mut(), &mut found)?;
        }
        Ok(())
    }

    fn apply_one(
        &mut self,
        change: &Change,
        pod: Option<&mut PodNamespace<'_>>,
        found: &mut Found,
    ) -> Result<(), Error> {
        match change {
            Change::Set { name, value } => {
                self.namespace.run(|| sysctl::write(name, value))??;
            }
            Change::Create { link, kind, mtu } => self.create(link, kind, *mtu, found)?,
            Change::Remake { link, kind, mtu } => {
                found.0.remove(link);
                delete_link(&mut self.routes, self.cluster, link)?;
                self.create(link, kind, *mtu, found)?;
            }
            Change::Connect { link, end, mtu } => {
                let pod = pod.ok_or_else(|| Error::NoLink(link.clone()))?;
                self.connect(link, (end, *mtu), pod, found)?;
            }
            Change::SetMtu { link, mtu } => {
                if let Some(pod) = pod {
                    pod.set_mtu(*mtu)?;
                }
                let link = self.find(link, found)?.clone();
                let change = LinkChange { mtu: Some(*mtu), ..LinkChange::default() };
                self.routes.change_link(&link, change)?;
            }
            Change::Configure { link, device, .. } => self.configure(link, device)?,
            Change::Carry { link, tunnel, .. } => {
                let link = self.find(link, found)?.clone();
                self.carry(&link, tunnel)?;
            }
            Change::BringUp { link } => {
                let link = self.find(link, found)?.clone();
                self.harden(&link)?;
                self.routes.change_link(&link, UP)?;
            }
            Change::PutRoute(route) => {
                let route = self.put_of(route, found)?;
                self.routes.put_route(&route)?;
            }
            Change::DeleteRoute(route) => {
                // Of a link on which others put something, it is whoever's.
                let put = self.put_of(route, found)?;
                let protocol = if route.link().is_some() { 0 } else { put.protocol };
                self.routes.delete_route(&route::Route { scope: ANY_SCOPE, protocol, ..put })?;
            }
            Change::DeleteLink { link } => {
                self.carry_no_more(link)?;
                found.0.remove(link);
                delete_link(&mut self.routes, self.cluster, link)?;
            }
            Change::AddAddress { link, .. }
            | Change::DeleteAddress { link, .. }
            | Change::PutNeighbor { link, .. }
            | Change::DeleteNeighbor { link, .. }
            | Change::PutForward { link, .. }
            | Change::DeleteForward { link, .. } => {
                let link = self.find(link, found)?.clone();
                self.apply_on(&link, change)?;
            }
        }
        Ok(())
    }

    /// What the link has and knows.
    fn apply_on(&mut self, link: &Link, change: &Change) -> Result<(), Error> {
        let routes = &mut self.routes;
        match change {
            Change::AddAddress { address, prefix_length, .. } => {
                routes.add_address(link, *address, *prefix_length)?;
            }
            Change::DeleteAddress { address, prefix_length, .. } => {
                routes.delete_address(link, *address, *prefix_length)?;
            }
            Change::PutNeighbor { address, hardware, .. } => {
                let neighbor = Neighbor { address: *address, hardware_address: *hardware };
                routes.put_neighbor(link, neighbor)?;
            }
            Change::DeleteNeighbor { address, .. } => routes.delete_neighbor(link, *address)?,
            Change::PutForward { hardware, remote, .. } => {
                let (hardware_address, vni) = (*hardware, remote.vni);
                let forward = Forward { hardware_address, remote: remote.address, vni };
                routes.put_forward(link, &forward)?;
            }
            Change::DeleteForward { hardware, .. } => routes.delete_forward(link, *hardware)?,
            _ => {}
        }
        Ok(())
    }

    /// One of ours.
    fn find<'f>(&mut self, name: &str, found: &'f mut Found) -> Result<&'f Link, Error> {
        if !found.0.contains_key(name) {
            let link = self.routes.link(name)?.filter(|it| self.is_ours(it));
            found.0.extend(link.map(|it| (name.to_owned(), it)));
        }
        found.0.get(name).ok_or_else(|| Error::NoLink(name.to_owned()))
    }

    /// Of those that are not on our links, the metric, which nothing depends on, says whose they
    /// are.
    fn put_of(&mut self, route: &Route, found: &mut Found) -> Result<route::Route, Error> {
        let destination = destination(route.destination);
        let metric = self.cluster.link_group();
        let put = match &route.next {
            Next::Link { name, source } => {
                let link = self.find(name, found)?.index;
                let route = route_to(destination, Some(link));
                route::Route { scope: Scope::Link, source: *source, ..route }
            }
            Next::Onlink { name, gateway } => {
                let link = self.find(name, found)?.index;
                let route = route_to(destination, Some(link));
                route::Route { gateway: Some(*gateway), is_onlink: true, ..route }
            }
            Next::Gateway(gateway) => {
                route::Route { gateway: Some(*gateway), metric, ..route_to(destination, None) }
            }
            Next::Nowhere => route::Route { metric, ..route_to(destination, None) },
            Next::Blackhole => {
                let (is_blackhole, protocol) = (true, route::Route::OF_BIRD);
                route::Route { metric, is_blackhole, protocol, ..route_to(destination, None) }
            }
        };
        Ok(route::Route { mtu: route.mtu, ..put })
    }

    /// A bridge is up and hardened; another link is when it is brought up.
    fn create(
        &mut self,
        link: &str,
        kind: &LinkKind,
        mtu: u32,
        found: &mut Found,
    ) -> Result<(), Error> {
        let group = self.cluster.link_group();
        let (kind, address) = match kind {
            LinkKind::Bridge | LinkKind::Pod { .. } => {
                self.routes.create_bridge(link, group, mtu)?;
                let bridge = self.find(link, found)?.clone();
                return self.harden(&bridge);
            }
            LinkKind::Vxlan { vxlan, hardware } => (TunnelKind::Vxlan(*vxlan), Some(*hardware)),
            LinkKind::Ipip { local } => (TunnelKind::Ipip { local: *local }, None),
            LinkKind::Wireguard(_) => (TunnelKind::Wireguard, None),
            LinkKind::Udp(_) => return self.create_tun(link, mtu),
        };
        let tunnel = NewTunnel { name: link, group, mtu: Some(mtu), address, kind };
        self.routes.create_tunnel(&tunnel).map_err(|source| {
            if source.is(Errno::OPNOTSUPP) {
                return Error::NoKind { kind: kind.name(), source };
            }
            if source.is(Errno::EXIST) {
                return Error::TakenLink { name: link.to_owned(), cluster: self.cluster, source };
            }
            source.into()
        })
    }

    fn configure(&mut self, link: &str, device: &Device) -> Result<(), Error> {
        let path = self.namespace();
        if self.wireguard.is_none() {
            self.wireguard = Wireguard::open_in(&path)?;
        }
        match &mut self.wireguard {
            Some(wireguard) => Ok(wireguard.converge(link, device)?),
            None => Err(Error::NoLink(link.to_owned())),
        }
    }

    /// Makes the pair, and all that the pod needs to send and receive. The host's end hears nothing
    /// yet while it is hardened: the other end is not up.
    fn connect(
        &mut self,
        link: &str,
        (end, mtu): (&PodEnd, u32),
        pod: &mut PodNamespace<'_>,
        found: &mut Found,
    ) -> Result<(), Error> {
        // What is left of an earlier attempt goes with its other end.
        delete_link(&mut self.routes, self.cluster, link)?;
        let pair = VethPair {
            name: link,
            address: end.host_hardware,
            group: self.cluster.link_group(),
            mtu,
            peer: Peer {
                name: POD_LINK,
                address: end.hardware,
                namespace: Namespace::File(pod.descriptor),
            },
        };
        self.routes.create_veth(&pair).map_err(|err| match err.is(Errno::EXIST) {
            true => Error::InPod(err),
            false => err.into(),
        })?;
        let host = self.find(link, found)?.clone();
        self.harden(&host)?;
        pod.set_up(end)
    }
}

fn destination(cidr: Cidr) -> Destination {
    Destination { address: cidr.network(), prefix_length: cidr.prefix_length() }
}
