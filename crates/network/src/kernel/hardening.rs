//! What holds for every link that we make, also for one that an earlier version made: it hears
//! nothing but the packets of its pod, and believes nobody.

use linux::netlink::route::{Ipv4Setting, Link};
use linux::sysctl;
use stdx::Family;

use super::{Error, Kernel};

const IPV4: [(Ipv4Setting, u32); 6] = [
    (Ipv4Setting::ReversePathFilter, 1),
    (Ipv4Setting::AcceptRedirects, 0),
    (Ipv4Setting::SendRedirects, 0),
    (Ipv4Setting::AcceptSourceRoute, 0),
    (Ipv4Setting::ProxyArp, 0),
    (Ipv4Setting::ArpAccept, 0),
];

/// Where pods have IPv6 addresses. Without routers to listen to and without an address of its own
/// making, which it would have to ask others about.
const IPV6: &[(&str, &str)] = &[
    ("accept_ra", "0"),
    ("accept_redirects", "0"),
    ("accept_source_route", "-1"),
    ("accept_dad", "0"),
    ("autoconf", "0"),
    ("proxy_ndp", "0"),
    ("disable_ipv6", "0"),
];

impl Kernel {
    /// One that is gone is no concern.
    pub(crate) fn harden_link(&mut self, name: &str) -> Result<(), Error> {
        match self.routes.link(name)?.filter(|it| self.is_ours(it)) {
            Some(link) => self.harden(&link),
            None => Ok(()),
        }
    }

    pub(crate) fn harden_bridge(&mut self) -> Result<(), Error> {
        self.harden_link(&self.bridge.clone())
    }

    pub(super) fn harden(&mut self, link: &Link) -> Result<(), Error> {
        let of_pod = [(Ipv4Setting::RouteLocalnet, 1)];
        let is_pods = link.kind.as_deref() == Some("veth");
        let settings = IPV4.iter().chain(of_pod.iter().filter(|_| is_pods));
        let settings: Vec<_> = settings.copied().collect();
        self.routes.set_ipv4(link, &settings)?;
        if !self.tables.contains_key(&Family::V6) {
            return Ok(());
        }
        let has_ipv6 = self.families.contains(&Family::V6);
        if has_ipv6 {
            self.routes.make_no_ipv6_addresses(link)?;
        }
        let settings = if has_ipv6 { IPV6 } else { &[("disable_ipv6", "1")] };
        let write = |(name, value): &(&str, &str)| set(&link.name, name, value);
        Ok(self.namespace.run(|| settings.iter().try_for_each(write))??)
    }
}

/// What is right already is not written: that would be told to everybody who listens. What this
/// kernel does not have need not be set.
fn set(link: &str, name: &str, wanted: &str) -> Result<(), sysctl::Error> {
    let setting = format!("net/ipv6/conf/{link}/{name}");
    match sysctl::read(&setting)? {
        Some(value) if value != wanted => sysctl::write(&setting, wanted),
        _ => Ok(()),
    }
}
