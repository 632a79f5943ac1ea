//! Changes to netlink.

use std::collections::BTreeMap;

use linux::netlink::route::{
    self, Destination, Link, LinkChange, Namespace, Neighbor, Peer, Scope, VethPair,
};
use linux::sysctl;
use rustix::io::Errno;
use stdx::Cidr;

use super::pod::{POD_LINK, PodNamespace};
use super::{Error, Kernel, delete_link, route_to};
use crate::kernel_state::{Change, Next, PodEnd, Route};

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
            Change::CreateBridge { link } => {
                self.routes.create_bridge(link, self.cluster.link_group(), self.mtu)?;
                let bridge = self.find(link, found)?.clone();
                self.harden(&bridge)?;
            }
            Change::Connect { link, end } => {
                let pod = pod.ok_or_else(|| Error::NoLink(link.clone()))?;
                self.connect(link, end, pod, found)?;
            }
            Change::BringUp { link } => {
                let link = self.find(link, found)?.clone();
                self.harden(&link)?;
                self.routes.change_link(&link, UP)?;
            }
            Change::AddAddress { link, address, prefix_length } => {
                let link = self.find(link, found)?.clone();
                self.routes.add_address(&link, *address, *prefix_length)?;
            }
            Change::DeleteAddress { link, address, prefix_length } => {
                let link = self.find(link, found)?.clone();
                self.routes.delete_address(&link, *address, *prefix_length)?;
            }
            Change::PutNeighbor { link, address, hardware } => {
                let link = self.find(link, found)?.clone();
                let neighbor = Neighbor { address: *address, hardware_address: *hardware };
                self.routes.put_neighbor(&link, neighbor)?;
            }
            Change::DeleteNeighbor { link, address } => {
                let link = self.find(link, found)?.clone();
                self.routes.delete_neighbor(&link, *address)?;
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
                found.0.remove(link);
                delete_link(&mut self.routes, self.cluster, link)?;
            }
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
        Ok(match &route.next {
            Next::Link { name, source } => {
                let link = self.find(name, found)?.index;
                let route = route_to(destination, Some(link));
                route::Route { scope: Scope::Link, source: *source, ..route }
            }
            Next::Gateway(gateway) => {
                route::Route { gateway: Some(*gateway), metric, ..route_to(destination, None) }
            }
            Next::Nowhere => route::Route { metric, ..route_to(destination, None) },
        })
    }

    /// Makes the pair, and all that the pod needs to send and receive. The host's end hears nothing
    /// yet while it is hardened: the other end is not up.
    fn connect(
        &mut self,
        link: &str,
        end: &PodEnd,
        pod: &mut PodNamespace<'_>,
        found: &mut Found,
    ) -> Result<(), Error> {
        // What is left of an earlier attempt goes with its other end.
        delete_link(&mut self.routes, self.cluster, link)?;
        let pair = VethPair {
            name: link,
            address: end.host_hardware,
            group: self.cluster.link_group(),
            mtu: self.mtu,
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
