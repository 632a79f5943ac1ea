//! Host ports: what a pod may ask for, and who has it already. Pure.

use std::net::IpAddr;

use linux::netlink::conntrack::Entry;
use node_api::SandboxId;
use node_api::network::{HostPort, Protocol};
use stdx::Family;

use crate::records::{Record, Records};

/// As the kernel numbers them.
pub(crate) fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

/// On which addresses of the node a port is, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    All,
    One(IpAddr),
}

/// `None`: on none of this family. Without an address it is on all of both families; `0.0.0.0` and
/// `::` are all of their own, and simply all where pods have one family.
pub(crate) fn on(port: &HostPort, family: Family, has_both: bool) -> Option<On> {
    match port.host_address {
        None => Some(On::All),
        Some(address) if address.is_unspecified() => {
            (!has_both || Family::of(address) == family).then_some(On::All)
        }
        Some(address) => (Family::of(address) == family).then_some(On::One(address)),
    }
}

/// Refuses an address on which nobody could be sent to a pod. (The kernel does not route answers to
/// `::1` that come over a link.)
fn validate_address(port: &HostPort, families: &[Family]) -> Result<(), node_api::Error> {
    let refused = |address: IpAddr, why: String| {
        let port = port.host_port;
        Err(node_api::Error::Refused(format!(
            "host port {port} cannot be opened on {address}: {why}"
        )))
    };
    match port.host_address {
        None => Ok(()),
        Some(address) if address.is_unspecified() => Ok(()),
        Some(address @ IpAddr::V6(it)) if it.is_loopback() => {
            refused(address, "the kernel passes nothing on from there".to_owned())
        }
        Some(address) if !families.contains(&Family::of(address)) => {
            refused(address, format!("pods have no {} addresses", Family::of(address)))
        }
        Some(_) => Ok(()),
    }
}

/// Refuses what another sandbox has, or what is asked for twice.
pub(crate) fn validate(
    sandbox: &SandboxId,
    wanted: &[HostPort],
    records: &Records,
    families: &[Family],
) -> Result<(), node_api::Error> {
    for (index, port) in wanted.iter().enumerate() {
        validate_address(port, families)?;
        let others = records.sandboxes.iter().filter(|(id, _)| *id != sandbox);
        let holder = others
            .flat_map(|(_, record)| record.host_ports.iter().map(|it| (it, &record.pod)))
            .find(|(it, _)| collide(it, port))
            .map(|(_, pod)| pod.to_string());
        let itself = || {
            let is_twice = wanted[..index].iter().any(|it| collide(it, port));
            is_twice.then(|| "the same pod".to_owned())
        };
        if let Some(holder) = holder.or_else(itself) {
            return Err(taken(port, holder));
        }
    }
    Ok(())
}

pub(crate) fn taken(port: &HostPort, holder: String) -> node_api::Error {
    let protocol = protocol_name(port.protocol);
    node_api::Error::HostPortTaken { port: port.host_port, protocol, holder }
}

/// All addresses collide with each.
fn collide(one: &HostPort, other: &HostPort) -> bool {
    let all = |it: &HostPort| it.host_address.is_none_or(|it| it.is_unspecified());
    one.protocol == other.protocol
        && one.host_port == other.host_port
        && (all(one) || all(other) || one.host_address == other.host_address)
}

/// Whether the kernel's memory of a UDP flow must go when these host ports come or go: it would
/// send the packets on to where they went before, as long as they keep coming.
pub(crate) fn is_stale(entry: &Entry, pod: &Record, is_local: impl Fn(IpAddr) -> bool) -> bool {
    let address = entry.original.destination;
    let has_both = pod.addresses.len() > 1;
    pod.host_ports.iter().filter(|it| it.protocol == Protocol::Udp).any(|it| {
        let is_on_address = match on(it, Family::of(address), has_both) {
            Some(On::One(wanted)) => wanted == address,
            Some(On::All) => address.is_loopback() || is_local(address),
            None => false,
        };
        is_on_address && entry.original.destination_port == it.host_port
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::netlink::conntrack::Tuple;
    use node_api::{PodRef, PodUid};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn port(text: &str) -> HostPort {
        let (protocol, rest) = text.split_once(' ').unwrap();
        let (address, port) = rest.rsplit_once(':').unwrap();
        HostPort {
            protocol: match protocol {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                _ => Protocol::Sctp,
            },
            host_address: (address != "*").then(|| address.parse().unwrap()),
            host_port: port.parse().unwrap(),
            container_port: 1,
        }
    }

    #[test]
    fn a_port_is_given_to_one_pod_per_protocol_and_address() {
        let check = |held: &[&str], wanted: &[&str], expected: Option<&str>| {
            let mut records = Records::default();
            let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
            let host_ports = held.iter().map(|it| port(it)).collect();
            let addresses = vec![ip("10.0.0.2")];
            let kind = crate::links::Kind::default();
            let record = Record { pod, addresses, host_ports, kind };
            records.sandboxes.insert(SandboxId::new("holder"), record);
            let wanted: Vec<_> = wanted.iter().map(|it| port(it)).collect();
            let families = [Family::V4];
            let result = validate(&SandboxId::new("other"), &wanted, &records, &families);
            assert_eq!(result.err().map(|it| it.to_string()).as_deref(), expected);
            // What the sandbox has itself is no obstacle.
            let own: Vec<_> = held.iter().map(|it| port(it)).collect();
            assert!(validate(&SandboxId::new("holder"), &own, &records, &families).is_ok());
        };
        let taken = Some("host port 80/TCP is taken by n/p");
        check(&["tcp *:80"], &["tcp *:80"], taken);
        check(&["tcp *:80"], &["tcp 127.0.0.1:80"], taken);
        check(&["tcp 127.0.0.1:80"], &["tcp 0.0.0.0:80"], taken);
        check(&["tcp 0.0.0.0:80"], &["tcp 10.0.0.1:80"], taken);
        check(&["tcp 127.0.0.1:80"], &["tcp 127.0.0.1:80"], taken);
        check(&["tcp 127.0.0.1:80"], &["tcp 127.0.0.2:80"], None);
        check(&["tcp *:80"], &["udp *:80", "sctp *:80", "tcp *:81"], None);
        let twice = Some("host port 81/UDP is taken by the same pod");
        check(&[], &["udp *:81", "udp 127.0.0.1:81"], twice);
        let family = "host port 80 cannot be opened on fd00::1: pods have no IPv6 addresses";
        check(&[], &["tcp fd00::1:80"], Some(family));
        let loopback =
            "host port 80 cannot be opened on ::1: the kernel passes nothing on from there";
        check(&[], &["tcp ::1:80"], Some(loopback));
    }

    #[test]
    fn a_port_is_on_addresses_of_the_families_that_its_address_says() {
        let check = |text: &str, v4: Option<On>, v6: Option<On>| {
            let port = port(text);
            let found = (on(&port, Family::V4, true), on(&port, Family::V6, true));
            assert_eq!(found, (v4, v6), "{text}");
        };
        check("tcp *:80", Some(On::All), Some(On::All));
        check("tcp 0.0.0.0:80", Some(On::All), None);
        check("tcp :::80", None, Some(On::All));
        check("tcp 192.0.2.1:80", Some(On::One(ip("192.0.2.1"))), None);
        check("tcp fd00::1:80", None, Some(On::One(ip("fd00::1"))));
        // Where there is one family, all are all.
        assert_eq!(on(&port("tcp :::80"), Family::V4, false), Some(On::All));
    }

    #[test]
    fn flows_to_a_host_port_that_comes_or_goes_are_stale() {
        let check = |host_port: &str, flow_to: &str, expected: bool| {
            let (destination, destination_port) = flow_to.rsplit_once(':').unwrap();
            let original = Tuple {
                source: ip("192.0.2.7"),
                source_port: 4000,
                destination: destination.parse().unwrap(),
                destination_port: destination_port.parse().unwrap(),
            };
            let entry = Entry::new(17, original, original);
            let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
            let addresses = vec![ip("10.0.0.2"), ip("fd00::2")];
            let (host_ports, kind) = (vec![port(host_port)], crate::links::Kind::default());
            let pod = Record { pod, addresses, host_ports, kind };
            let node = [ip("192.0.2.1"), ip("fd00:2::1")];
            let result = is_stale(&entry, &pod, |it| node.contains(&it));
            assert_eq!(result, expected, "{host_port} {flow_to}");
        };
        check("udp *:53", "192.0.2.1:53", true);
        check("udp *:53", "127.0.0.1:53", true);
        check("udp *:53", "192.0.2.1:54", false);
        // A question to another host's name server.
        check("udp *:53", "198.51.100.1:53", false);
        check("udp 127.0.0.1:53", "127.0.0.1:53", true);
        check("udp 127.0.0.1:53", "192.0.2.1:53", false);
        check("tcp *:53", "192.0.2.1:53", false);
        check("udp *:53", "fd00:2::1:53", true);
        check("udp *:53", "fd00:2::2:53", false);
        check("udp 0.0.0.0:53", "fd00:2::1:53", false);
        check("udp fd00:2::1:53", "fd00:2::1:53", true);
    }
}
