//! Addresses of pods that somebody else has as well, as this machine sees it. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stdx::{Cidr, Family};

use crate::node::PodRange;

/// The second numbers of ranges that are proposed: 10.244.0.0/16 and fd00:10:244::/56 and so on.
const NUMBERS: std::ops::Range<u8> = 244..254;
const LENGTH: u8 = 16;
const LENGTH_IPV6: u8 = 56;

/// `networks`: what others have, and what that is. In words, each with a range that is free.
pub(crate) fn overlaps(
    ranges: &[PodRange],
    networks: &BTreeMap<Cidr, String>,
    name_servers: &[IpAddr],
) -> Vec<String> {
    let mut found = Vec::new();
    for pods in ranges.iter().map(|it| it.cluster) {
        let met = networks.iter().find(|(it, _)| it.overlaps(pods)).map(|(_, what)| what.clone());
        let server = || {
            let server = name_servers.iter().find(|it| pods.contains(**it));
            server.map(|it| format!("the name server {it} that this machine asks"))
        };
        let Some(what) = met.or_else(server) else { continue };
        let advice = match free(pods.family(), networks, name_servers) {
            Some(free) => format!("{free} is free here (--pod-cidr of the cluster)"),
            None => "choose others with --pod-cidr of the cluster".to_owned(),
        };
        found.push(format!("the addresses of pods, {pods}, meet {what}: {advice}"));
    }
    found
}

fn free(
    family: Family,
    networks: &BTreeMap<Cidr, String>,
    name_servers: &[IpAddr],
) -> Option<Cidr> {
    let candidate = |number: u8| match family {
        Family::V4 => Cidr::containing([10, number, 0, 0].into(), LENGTH),
        Family::V6 => {
            // The digits of IPv6 are hexadecimal: 0x0244 reads as 244.
            let digits = u16::from_str_radix(&number.to_string(), 16).ok()?;
            let address = IpAddr::from([0xfd00, 0x10, digits, 0, 0, 0, 0, 0]);
            Cidr::containing(address, LENGTH_IPV6)
        }
    };
    let is_free = |it: &Cidr| {
        !networks.keys().any(|other| other.overlaps(*it))
            && !name_servers.iter().any(|server| it.contains(*server))
    };
    NUMBERS.filter_map(candidate).find(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(others: &[(&str, &str)], servers: &[&str], expected: &[&str]) {
        let range = |node: &str, cluster: &str| PodRange {
            node: node.parse().unwrap(),
            cluster: cluster.parse().unwrap(),
        };
        let ranges = [
            range("10.244.1.0/24", "10.244.0.0/16"),
            range("fd00:10:244:1::/64", "fd00:10:244::/56"),
        ];
        let networks = others.iter().map(|(it, what)| (it.parse().unwrap(), (*what).to_owned()));
        let servers: Vec<_> = servers.iter().map(|it| it.parse().unwrap()).collect();
        assert_eq!(overlaps(&ranges, &networks.collect(), &servers), expected);
    }

    #[test]
    fn what_others_have_is_named_and_something_free_proposed() {
        check(&[("192.0.2.0/24", "the route 192.0.2.0/24 over eth0")], &["192.0.2.1"], &[]);
        let route = ("10.244.3.0/24", "the route 10.244.3.0/24 over tun0");
        let meets = "the addresses of pods, 10.244.0.0/16, meet";
        let free = "10.245.0.0/16 is free here (--pod-cidr of the cluster)";
        check(&[route], &[], &[&format!("{meets} the route 10.244.3.0/24 over tun0: {free}")]);
        let server = "the name server 10.244.0.10 that this machine asks";
        check(&[], &["10.244.0.10"], &[&format!("{meets} {server}: {free}")]);
        let all = ("10.0.0.0/8", "the route 10.0.0.0/8 over tun0");
        let choose = "choose others with --pod-cidr of the cluster";
        check(&[all], &[], &[&format!("{meets} the route 10.0.0.0/8 over tun0: {choose}")]);
        let v6 = ("fd00:10:244::/48", "the address");
        let expected = "the addresses of pods, fd00:10:244::/56, meet the address: fd00:10:245::/56 is free here \
                        (--pod-cidr of the cluster)";
        check(&[v6], &[], &[expected]);
    }
}
