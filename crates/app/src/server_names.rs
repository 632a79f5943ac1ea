//! What the API server answers to, and so what its certificate is valid for. Asked at every start:
//! addresses change.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use apimachinery::validation::{is_dns_subdomain, is_wildcard_dns_subdomain};
use linux::netlink::route::RouteSocket;

/// The names that every cluster has.
const NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Of the machine's interfaces: a certificate is sent in every handshake.
const ADDRESSES_MAX: usize = 256;
const SANS_MAX: usize = 100;

/// Flags that `up` and `apiserver` share.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "server-names")]
pub(crate) struct Flags {
    /// Names and addresses that clients use beside those of this machine; the API server's
    /// certificate is valid for them too
    #[arg(long, value_name = "NAME|IP,...", value_delimiter = ',', value_parser = San::parse)]
    pub(crate) tls_san: Vec<San>,
    /// Address under which the Service `kubernetes` leads to this API server
    #[arg(long, value_name = "IP", value_parser = parse_advertised)]
    pub(crate) advertise_address: Option<IpAddr>,
}

impl Flags {
    /// What no single value shows.
    pub(crate) fn validate(&self, bind: IpAddr) -> anyhow::Result<()> {
        if self.tls_san.len() > SANS_MAX {
            anyhow::bail!("--tls-san: at most {SANS_MAX} names and addresses");
        }
        match self.advertise_address {
            Some(advertised) if bind.is_loopback() => anyhow::bail!(
                "--advertise-address {advertised}: nobody reaches the API server there while it listens on {bind}; \
                 start it with --bind-address {advertised} or 0.0.0.0"
            ),
            _ => Ok(()),
        }
    }
}

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum San {
    Name(String),
    Address(IpAddr),
}

impl San {
    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address));
        }
        let name = text.to_ascii_lowercase();
        let problems = if name.starts_with("*.") {
            is_wildcard_dns_subdomain(&name)
        } else {
            is_dns_subdomain(&name)
        };
        let looks_like_address = name.split('.').all(|it| it.bytes().all(|it| it.is_ascii_digit()));
        if !problems.is_empty() || looks_like_address {
            return Err("neither a DNS name nor an IP address".to_owned());
        }
        Ok(Self::Name(name))
    }
}

/// Where pods and others can reach it.
fn parse_advertised(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| "not an IP address".to_owned())?;
    let is_link_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_broadcast = matches!(address, IpAddr::V4(it) if it.is_broadcast());
    match address {
        it if it.is_unspecified() => Err("may not be the unspecified address".to_owned()),
        it if it.is_loopback() => Err("may not be in the loopback range".to_owned()),
        it if it.is_multicast() || is_broadcast => {
            Err("must be the address of one machine".to_owned())
        }
        _ if is_link_local => Err("may not be an address of one link alone".to_owned()),
        it => Ok(it),
    }
}

/// Everything that is known of this start.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) bind: IpAddr,
    /// The Service `kubernetes`.
    pub(crate) services: &'a [IpAddr],
    /// Where pods reach the server.
    pub(crate) gateways: &'a [IpAddr],
    pub(crate) nodes: &'a [IpAddr],
    pub(crate) flags: &'a Flags,
    pub(crate) host_name: &'a str,
    /// Of all interfaces; they count if it listens on all.
    pub(crate) interfaces: &'a [IpAddr],
}

/// What a certificate is valid for, without repetition and in an order that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subjects {
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Subjects {
    pub(crate) fn of(known: &Known<'_>) -> Self {
        let mut names: Vec<String> = NAMES.iter().map(|it| (*it).to_owned()).collect();
        let mut addresses: Vec<IpAddr> =
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        addresses.extend(known.services);
        let host_name = known.host_name.to_ascii_lowercase();
        if is_dns_subdomain(&host_name).is_empty() {
            names.push(host_name);
        }
        addresses.extend(known.gateways);
        addresses.extend(known.nodes);
        addresses.extend(known.flags.advertise_address);
        if known.bind.is_unspecified() {
            addresses.extend(reachable(known.interfaces));
        } else {
            addresses.push(known.bind);
        }
        for san in &known.flags.tls_san {
            match san {
                San::Name(name) => names.push(name.clone()),
                San::Address(address) => addresses.push(*address),
            }
        }
        Self { names: without_repetition(names), addresses: without_repetition(addresses) }
    }
}

/// Sorted, since the kernel's order is that in which they were added. Link-local addresses of IPv6
/// mean nothing without a link.
fn reachable(interfaces: &[IpAddr]) -> Vec<IpAddr> {
    let is_link_local = |it: &IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
    let all: BTreeSet<IpAddr> =
        interfaces.iter().copied().filter(|it| !is_link_local(it)).collect();
    if all.len() > ADDRESSES_MAX {
        tracing::warn!(
            n_addresses = all.len(),
            "the API server's certificate is valid for the first {ADDRESSES_MAX} addresses of this machine; \
             name others with --tls-san"
        );
    }
    all.into_iter().take(ADDRESSES_MAX).collect()
}

fn without_repetition<T: Ord + Clone>(mut all: Vec<T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.retain(|it| seen.insert(it.clone()));
    all
}

/// Of this machine, now.
pub(crate) fn interface_addresses() -> Vec<IpAddr> {
    match RouteSocket::open().and_then(|mut it| it.addresses()) {
        Ok(found) => found.into_iter().map(|it| it.address).collect(),
        Err(err) => {
            tracing::warn!(error = %stdx::error_chain(&err), "the machine's addresses are not known");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{Flags, Known, San, Subjects, parse_advertised};

    fn san(text: &str, expected: &str) {
        let said = match San::parse(text) {
            Ok(San::Name(name)) => format!("name {name}"),
            Ok(San::Address(address)) => format!("address {address}"),
            Err(err) => err,
        };
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn sans_are_names_or_addresses() {
        san("api.Example.com", "name api.example.com");
        san("box", "name box");
        san("*.example.com", "name *.example.com");
        san("192.0.2.7", "address 192.0.2.7");
        san("2001:db8::7", "address 2001:db8::7");
        for wrong in ["", "-a", "a_b", "a..b", "a.", "a b", "*", "a.*.b", "300.0.0.1", "10.0.0"] {
            san(wrong, "neither a DNS name nor an IP address");
        }
        san("https://a", "neither a DNS name nor an IP address");
        san("192.0.2.0/24", "neither a DNS name nor an IP address");
    }

    #[test]
    fn what_is_advertised_can_be_reached() {
        for right in ["192.0.2.7", "2001:db8::7"] {
            assert_eq!(parse_advertised(right), Ok(right.parse().unwrap()));
        }
        let wrong =
            ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "fe80::1", "box"];
        for wrong in wrong {
            assert!(parse_advertised(wrong).is_err(), "{wrong}");
        }
        let flags = Flags { advertise_address: Some([192, 0, 2, 7].into()), ..Flags::default() };
        assert!(flags.validate(Ipv4Addr::LOCALHOST.into()).is_err());
        assert!(flags.validate(Ipv4Addr::UNSPECIFIED.into()).is_ok());
        let many = Flags { tls_san: vec![San::Name("a".into()); 101], ..Flags::default() };
        assert!(many.validate(Ipv4Addr::UNSPECIFIED.into()).is_err());
    }

    const INTERFACES: &[&str] = &["192.0.2.1", "127.0.0.1", "fe80::1", "10.0.0.1", "2001:db8::1"];

    fn check(bind: &str, sans: &[&str], expected: &str) {
        let address = |it: &&str| it.parse::<IpAddr>().unwrap();
        let interfaces: Vec<IpAddr> = INTERFACES.iter().map(address).collect();
        let tls_san = sans.iter().map(|it| San::parse(it).unwrap()).collect();
        let subjects = Subjects::of(&Known {
            bind: address(&bind),
            services: &[[10, 96, 0, 1].into()],
            gateways: &[[10, 244, 0, 1].into()],
            nodes: &[address(&"192.0.2.1")],
            flags: &Flags { tls_san, ..Flags::default() },
            host_name: "Box",
            interfaces: &interfaces,
        });
        let addresses: Vec<String> = subjects.addresses.iter().map(IpAddr::to_string).collect();
        let said = format!("{} {}", subjects.names[5..].join(" "), addresses[3..].join(" "));
        assert_eq!(said, expected, "{bind} {sans:?}");
        assert_eq!(addresses[..3], ["127.0.0.1", "::1", "10.96.0.1"]);
        assert_eq!(subjects.names[4], "kubernetes.default.svc.cluster.local");
    }

    #[test]
    fn a_certificate_is_for_what_the_server_is_reached_by() {
        check("127.0.0.1", &[], "box 10.244.0.1 192.0.2.1");
        check("127.0.0.2", &[], "box 10.244.0.1 192.0.2.1 127.0.0.2");
        check("203.0.113.5", &[], "box 10.244.0.1 192.0.2.1 203.0.113.5");
        check("0.0.0.0", &[], "box 10.244.0.1 192.0.2.1 10.0.0.1 2001:db8::1");
        check("::", &[], "box 10.244.0.1 192.0.2.1 10.0.0.1 2001:db8::1");
        check(
            "127.0.0.1",
            &["api.example.com", "box", "198.51.100.1", "192.0.2.1"],
            "box api.example.com 10.244.0.1 192.0.2.1 198.51.100.1",
        );
    }
}
