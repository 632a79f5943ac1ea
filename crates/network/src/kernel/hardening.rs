//! What holds for every link that we make, also for one that an earlier version made: it hears
//! nothing but the packets of its pod, and believes nobody. One that answers for everybody (Calico's)
//! answers its own pod alone.

use linux::netlink::route::{Ipv4Setting, Link};
use linux::sysctl;
use stdx::Family;

use super::{Error, Kernel};
use crate::links;

const IPV4: [(Ipv4Setting, u32); 5] = [
    (Ipv4Setting::ReversePathFilter, 1),
    (Ipv4Setting::AcceptRedirects, 0),
    (Ipv4Setting::SendRedirects, 0),
    (Ipv4Setting::AcceptSourceRoute, 0),
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
        let answers = links::answers(link.address);
        let is_pods = link.kind.as_deref() == Some("veth");
        let mut settings = IPV4.to_vec();
        settings.push((Ipv4Setting::ProxyArp, answers.into()));
        settings.extend(is_pods.then_some((Ipv4Setting::RouteLocalnet, 1)));
        self.routes.set_ipv4(link, &settings)?;
        if answers && self.families.contains(&Family::V4) {
            let delay = format!("net/ipv4/neigh/{}/proxy_delay", link.name);
            self.namespace.run(|| set(&delay, "0"))??;
        }
        if !self.tables.contains_key(&Family::V6) {
            return Ok(());
        }
        let has_ipv6 = self.families.contains(&Family::V6);
        if has_ipv6 {
            self.routes.make_no_ipv6_addresses(link)?;
        }
        let settings = if has_ipv6 { IPV6 } else { &[("disable_ipv6", "1")] };
        let proxy = ("proxy_ndp", if answers { "1" } else { "0" });
        let write = |(name, value): &(&str, &str)| {
            set(&format!("net/ipv6/conf/{}/{name}", link.name), value)
        };
        let mut all = settings.iter().chain(has_ipv6.then_some(&proxy));
        Ok(self.namespace.run(|| all.try_for_each(write))??)
    }
}

/// What is right already is not written: that would be told to everybody who listens. What this
/// kernel does not have need not be set.
fn set(setting: &str, wanted: &str) -> Result<(), sysctl::Error> {
    match sysctl::read(setting)? {
        Some(value) if value != wanted => sysctl::write(setting, wanted),
        _ => Ok(()),
    }
}
