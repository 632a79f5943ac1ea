//! What is in the kernel of ours.

use std::collections::{BTreeMap, BTreeSet};

use linux::netlink::route::{self, Destination};
use linux::sysctl;
use stdx::Cidr;

use super::pod::{POD_LINK, PodNamespace};
use super::{Error, Kernel, PROTOCOL};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, PodEnd, Route};

impl Kernel {
    /// All of it, without rules; and these settings.
    pub(crate) fn observe(&mut self, settings: &BTreeSet<String>) -> Result<KernelState, Error> {
        let links = self.routes.links()?;
        let addresses = self.routes.addresses()?;
        let neighbors = self.routes.permanent_neighbors()?;
        let routes = self.routes.routes()?;
        let mut state = KernelState::default();
        let mut names = BTreeMap::new();
        for link in links.into_iter().filter(|it| self.is_ours(it)) {
            let is_veth = link.kind.as_deref() == Some("veth");
            let kind = match link.name == self.bridge {
                true => LinkKind::Bridge,
                false if is_veth => LinkKind::Pod { end: None },
                false => continue,
            };
            let of_link = addresses.iter().filter(|it| it.link == link.index);
            // Nobody gave it link-local ones of IPv6; the kernel did, of which we do not speak.
            let of_link = of_link.filter(|it| it.address.is_ipv4() || it.scope == 0);
            let known = neighbors.iter().filter(|(index, _)| *index == link.index);
            let found = Link {
                kind,
                is_up: link.is_up,
                addresses: of_link.map(|it| (it.address, it.prefix_length)).collect(),
                neighbors: known.map(|(_, it)| (it.address, it.hardware_address)).collect(),
            };
            names.insert(link.index, link.name.clone());
            state.links.insert(link.name, found);
        }
        state.routes = routes.iter().filter_map(|it| self.read_route(it, &names)).collect();
        state.settings = self.namespace.run(|| read_settings(settings))??;
        Ok(state)
    }

    /// `None`: not ours. Those on our links are, whoever made them, but for what the kernel makes
    /// for an address; others are by their metric.
    fn read_route(&self, route: &route::Route, names: &BTreeMap<u32, String>) -> Option<Route> {
        let Destination { address, prefix_length } = route.destination;
        let destination = Cidr::containing(address, prefix_length)?;
        if let Some(name) = route.link.and_then(|it| names.get(&it)) {
            let is_kernels = route.protocol == route::Route::OF_KERNEL && address.is_ipv6();
            let next = Next::Link { name: name.clone(), source: route.source };
            return (!is_kernels).then_some(Route { destination, next });
        }
        let is_ours = route.protocol == PROTOCOL && route.metric == self.cluster.link_group();
        let next = match (route.link, route.gateway) {
            (None, _) => Next::Nowhere,
            (Some(_), Some(gateway)) => Next::Gateway(gateway),
            (Some(_), None) => return None,
        };
        is_ours.then_some(Route { destination, next })
    }

    /// Links by which this machine learned routes from routers.
    pub(crate) fn advertised_links(&mut self) -> Result<BTreeSet<String>, Error> {
        let routes = self.routes.routes()?;
        let learned = routes.iter().filter(|it| it.protocol == route::Route::ADVERTISED);
        let learned: BTreeSet<u32> = learned.filter_map(|it| it.link).collect();
        if learned.is_empty() {
            return Ok(BTreeSet::new());
        }
        let links = self.routes.links()?.into_iter();
        Ok(links.filter(|it| learned.contains(&it.index)).map(|it| it.name).collect())
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
            let (addresses, neighbors) = (BTreeSet::new(), BTreeMap::new());
            let kind = LinkKind::Pod { end: None };
            let found = Link { kind, is_up: link.is_up, addresses, neighbors };
            state.links.insert(link.name, found);
        }
        Ok(state)
    }
}

fn read_settings(names: &BTreeSet<String>) -> Result<BTreeMap<String, String>, sysctl::Error> {
    let mut settings = BTreeMap::new();
    for name in names {
        if let Some(value) = sysctl::read(name)? {
            settings.insert(name.clone(), value);
        }
    }
    Ok(settings)
}
