//! Host ports: what a pod may ask for, and who has it already. Pure.

use std::net::{IpAddr, Ipv4Addr};

use linux::netlink::conntrack::Entry;
use node_api::SandboxId;
use node_api::network::{HostPort, Protocol};

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

/// The one address on which the port is, or `None` for all: `0.0.0.0` and `::` say that too. IPv6
/// has none of our addresses.
pub(crate) fn host_address(host_port: &HostPort) -> Result<Option<Ipv4Addr>, node_api::Error> {
    match host_port.host_address {
        None => Ok(None),
        Some(address) if address.is_unspecified() => Ok(None),
        Some(IpAddr::V4(address)) => Ok(Some(address)),
        Some(IpAddr::V6(address)) => Err(node_api::Error::Refused(format!(
            "host port {} cannot be opened on {address}: the pod network has IPv4 addresses only",
            host_port.host_port
        ))),
    }
}

/// Refuses what another sandbox has, or what is asked for twice.
pub(crate) fn validate(
    sandbox: &SandboxId,
    wanted: &[HostPort],
    records: &Records,
) -> Result<(), node_api::Error> {
    for (index, port) in wanted.iter().enumerate() {
        host_address(port)?;
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
pub(crate) fn is_stale(entry: &Entry, pod: &Record, is_local: impl Fn(Ipv4Addr) -> bool) -> bool {
    pod.host_ports.iter().filter(|it| it.protocol == Protocol::Udp).any(|it| {
        let address = entry.original.destination;
        let is_on_address = match host_address(it) {
            Ok(Some(wanted)) => wanted == address,
            _ => address.is_loopback() || is_local(address),
        };
        is_on_address && entry.original.destination_port == it.host_port
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::netlink::conntrack::Tuple;
    use node_api::{PodRef, PodUid};

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
            let address = Ipv4Addr::new(10, 0, 0, 2);
            let record = Record { pod, address, host_ports };
            records.sandboxes.insert(SandboxId::new("holder"), record);
            let wanted: Vec<_> = wanted.iter().map(|it| port(it)).collect();
            let result = validate(&SandboxId::new("other"), &wanted, &records);
            assert_eq!(result.err().map(|it| it.to_string()).as_deref(), expected);
            // What the sandbox has itself is no obstacle.
            let own: Vec<_> = held.iter().map(|it| port(it)).collect();
            assert!(validate(&SandboxId::new("holder"), &own, &records).is_ok());
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
        let version =
            "host port 80 cannot be opened on fd00::1: the pod network has IPv4 addresses only";
        check(&[], &["tcp fd00::1:80"], Some(version));
    }

    #[test]
    fn flows_to_a_host_port_that_comes_or_goes_are_stale() {
        let check = |host_port: &str, flow_to: &str, expected: bool| {
            let (destination, destination_port) = flow_to.split_once(':').unwrap();
            let original = Tuple {
                source: Ipv4Addr::new(192, 0, 2, 7),
                source_port: 4000,
                destination: destination.parse().unwrap(),
                destination_port: destination_port.parse().unwrap(),
            };
            let entry = Entry::new(17, original, original);
            let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
            let address = Ipv4Addr::new(10, 0, 0, 2);
            let pod = Record { pod, address, host_ports: vec![port(host_port)] };
            let node = Ipv4Addr::new(192, 0, 2, 1);
            let result = is_stale(&entry, &pod, |it| it == node);
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
    }
}
