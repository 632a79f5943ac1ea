//! What the cluster's names mean. Pure: looks names up in a [`Source`], knows nothing of packets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the names are made from.
pub(crate) trait Source {
    fn has_namespace(&self, namespace: &str) -> bool;
    fn service(&self, namespace: &str, name: &str) -> Option<ServiceNames>;
    /// The Service that has this as one of its cluster addresses.
    fn service_at(&self, address: IpAddr) -> Option<(String, String)>;
    /// The headless Service and host name of an endpoint.
    fn endpoint_at(&self, address: IpAddr) -> Option<(String, String, String)>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceNames {
    pub(crate) kind: ServiceKind,
    pub(crate) ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceKind {
    Cluster(Vec<IpAddr>),
    Headless(Vec<Host>),
    External(String),
}

impl Default for ServiceKind {
    fn default() -> Self {
        Self::Headless(Vec::new())
    }
}

/// One endpoint of a headless Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// `spec.hostname` of its pod, else made from the address.
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    /// `tcp`, `udp` or `sctp`.
    pub(crate) protocol: String,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Address(IpAddr),
    Alias(String),
    Service {
        port: u16,
        weight: u16,
        target: String,
        addresses: Vec<IpAddr>,
    },
    Pointer(String),
    Text(String),
    NameServer {
        target: String,
        address: Option<IpAddr>,
    },
    /// The zone's own start of authority.
    Authority,
}

/// What a name has, whatever type was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not ours: ask elsewhere.
    Foreign,
    /// Ours, and there is no such name.
    Missing,
    /// Ours. Empty: the name is there, without records.
    Records(Vec<Record>),
}

/// The version of the specification.
const VERSION: &str = "1.1.0";

pub(crate) struct Zone {
    domain: String,
}

/// How a host without a name is called: `10-244-0-7`, `fd00--7`.
pub(crate) fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

fn undashed(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::V4);
    v4.or_else(|_| label.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
}

impl Zone {
    pub(crate) fn new(domain: &str) -> Self {
        Self { domain: domain.trim_end_matches('.').to_ascii_lowercase() }
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    /// `name` is in lower case, without a dot at the end.
    pub(crate) fn find(&self, name: &str, source: &dyn Source) -> Found {
        if let Some(address) = reversed(name) {
            return self.pointer(address, source);
        }
        if name == self.domain {
            let server = Record::NameServer { target: self.name_server(), address: None };
            return Found::Records(vec![Record::Authority, server]);
        }
        let Some(inner) = name.strip_suffix(&self.domain).and_then(|it| it.strip_suffix('.'))
        else {
            return Found::Foreign;
        };
        // From the right, as names nest.
        let labels: Vec<&str> = inner.rsplit('.').collect();
        let found = match labels.as_slice() {
            ["dns-version"] => Some(vec![Record::Text(VERSION.to_owned())]),
            ["svc" | "pod"] | ["dns"] => Some(Vec::new()),
            ["dns", "ns"] => Some(self.name_server_addresses(source)),
            ["svc" | "pod", namespace] => source.has_namespace(namespace).then(Vec::new),
            ["pod", namespace, host] if source.has_namespace(namespace) => {
                undashed(host).map(|it| vec![Record::Address(it)])
            }
            ["svc", namespace, service, rest @ ..] => source
                .service(namespace, service)
                .and_then(|names| self.service(&names, namespace, service, rest)),
            _ => None,
        };
        found.map_or(Found::Missing, Found::Records)
    }

    fn name_server(&self) -> String {
        format!("ns.dns.{}", self.domain)
    }

    fn name_server_addresses(&self, source: &dyn Source) -> Vec<Record> {
        match source.service("kube-system", "kube-dns").map(|it| it.kind) {
            Some(ServiceKind::Cluster(addresses)) => addresses_of(&addresses),
            _ => Vec::new(),
        }
    }

    /// `rest` are the labels left of the Service's own, from the right.
    fn service(
        &self,
        names: &ServiceNames,
        namespace: &str,
        service: &str,
        rest: &[&str],
    ) -> Option<Vec<Record>> {
        let own_name = || format!("{service}.{namespace}.svc.{}", self.domain);
        match (&names.kind, rest) {
            (ServiceKind::External(target), []) => Some(vec![Record::Alias(target.clone())]),
            (ServiceKind::External(_), _) => None,
            (ServiceKind::Cluster(addresses), []) => {
                let mut records = addresses_of(addresses);
                // A query for SRV of the bare name gets all ports.
                records.extend(names.ports.iter().map(|it| Record::Service {
                    port: it.port,
                    weight: 100,
                    target: own_name(),
                    addresses: addresses.clone(),
                }));
                Some(records)
            }
            (ServiceKind::Cluster(addresses), [protocol, port]) => {
                let port = find_port(&names.ports, protocol, port)?;
                Some(vec![Record::Service {
                    port: port.port,
                    weight: 100,
                    target: own_name(),
                    addresses: addresses.clone(),
                }])
            }
            (ServiceKind::Cluster(_), [protocol]) => {
                let of_protocol = |it: &Port| protocol.strip_prefix('_') == Some(&it.protocol);
                names.ports.iter().any(of_protocol).then(Vec::new)
            }
            (ServiceKind::Headless(hosts), []) => {
                let mut records: Vec<Record> =
                    hosts.iter().map(|it| Record::Address(it.address)).collect();
                records.extend(targets(hosts, &own_name(), |_| true));
                // A headless Service without endpoints is as good as none (CoreDNS: NXDOMAIN).
                (!records.is_empty()).then_some(records)
            }
            (ServiceKind::Headless(hosts), [protocol, port]) => {
                let is_asked = |it: &Port| is_named(it, protocol, port);
                let records = targets(hosts, &own_name(), is_asked);
                (!records.is_empty()).then_some(records)
            }
            (ServiceKind::Headless(hosts), [name]) => {
                let of_protocol = |it: &Port| name.strip_prefix('_') == Some(&it.protocol);
                if hosts.iter().any(|host| host.ports.iter().any(of_protocol)) {
                    return Some(Vec::new());
                }
                let named: Vec<Record> = hosts
                    .iter()
                    .filter(|it| it.name == *name)
                    .map(|it| Record::Address(it.address))
                    .collect();
                (!named.is_empty()).then_some(named)
            }
            _ => None,
        }
    }

    fn pointer(&self, address: IpAddr, source: &dyn Source) -> Found {
        if let Some((namespace, name)) = source.service_at(address) {
            let name = format!("{name}.{namespace}.svc.{}", self.domain);
            return Found::Records(vec![Record::Pointer(name)]);
        }
        if let Some((namespace, service, host)) = source.endpoint_at(address) {
            let name = format!("{host}.{service}.{namespace}.svc.{}", self.domain);
            return Found::Records(vec![Record::Pointer(name)]);
        }
        Found::Foreign
    }
}

fn addresses_of(addresses: &[IpAddr]) -> Vec<Record> {
    addresses.iter().map(|it| Record::Address(*it)).collect()
}

/// `_tcp` and `_http`.
fn is_named(it: &Port, protocol: &str, port: &str) -> bool {
    protocol.strip_prefix('_') == Some(&it.protocol) && port.strip_prefix('_') == Some(&it.name)
}

fn find_port<'a>(ports: &'a [Port], protocol: &str, port: &str) -> Option<&'a Port> {
    ports.iter().find(|it| is_named(it, protocol, port))
}

/// One for each host's name and port: a host of two families has two addresses and one name.
fn targets(hosts: &[Host], service: &str, is_asked: impl Fn(&Port) -> bool) -> Vec<Record> {
    let mut by_name: BTreeMap<&str, (Vec<IpAddr>, Vec<&Port>)> = BTreeMap::new();
    for host in hosts {
        let (addresses, ports) = by_name.entry(&host.name).or_default();
        addresses.push(host.address);
        let new = host.ports.iter().filter(|it| is_asked(it) && !ports.contains(it));
        let new: Vec<_> = new.collect();
        ports.extend(new);
    }
    let weight = (100 / by_name.len().max(1)).max(1) as u16;
    let record = |(name, (addresses, ports)): (&str, (Vec<IpAddr>, Vec<&Port>))| {
        let target = format!("{name}.{service}");
        let of_port = move |it: &Port| Record::Service {
            port: it.port,
            weight,
            target: target.clone(),
            addresses: addresses.clone(),
        };
        ports.into_iter().map(of_port).collect::<Vec<_>>()
    };
    by_name.into_iter().flat_map(record).collect()
}

/// The address of `7.0.244.10.in-addr.arpa` and its like for IPv6.
fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<u8> = digits.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [d, c, b, a] = octets.try_into().ok()?;
        return Some(IpAddr::from([a, b, c, d]));
    }
    let digits = name.strip_suffix(".ip6.arpa")?;
    let nibbles: Vec<u8> = digits
        .rsplit('.')
        .map(|it| if it.len() == 1 { u8::from_str_radix(it, 16).ok() } else { None })
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    (nibbles.len() == 32).then(|| IpAddr::from(bytes))
}
