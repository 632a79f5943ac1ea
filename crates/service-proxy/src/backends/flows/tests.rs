//! Services as short text in, flows that must begin anew out.

use std::net::IpAddr;

use linux::netlink::conntrack::{Entry, Tuple};

use super::{Flows, is_stale, of, suspects};
use crate::service_port::Protocol;
use crate::service_port::frontend::Frontend;
use crate::service_port::text::port;

fn frontend(address: [u8; 4], port: u16) -> Frontend {
    Frontend { protocol: Protocol::Udp, address: address.into(), port }
}

#[test]
fn flows_are_suspect_when_an_endpoint_went_or_the_first_came() {
    let check = |before: &str, after: &str, expected: usize| {
        let flows = |text: &str| of(&[port(&format!("udp 10.96.0.1:53 :{text}"))]);
        let suspects = suspects(&flows(before), &flows(after));
        assert_eq!(suspects.len(), expected, "{before:?} {after:?}");
    };
    check("", "", 0);
    check("", " 1", 1);
    check(" 1", " 1 2", 0);
    check(" 1 2", " 1", 1);
    check(" 1", " 2", 1);
    check(" 1", "", 1);
    let tcp = of(&[port("tcp 10.96.0.1:53 : 1")]);
    assert_eq!(tcp, Flows::new());
    let all = of(&[port("udp 10.96.0.1:53 node=30053 : 1")]);
    let frontends: Vec<_> = all.keys().copied().collect();
    assert_eq!(frontends, [frontend([0; 4], 30053), frontend([10, 96, 0, 1], 53)]);
    assert_eq!(suspects(&all, &Flows::new()).len(), 2, "a Service that is gone");
}

#[test]
fn a_flow_is_stale_if_it_goes_to_no_endpoint_of_its_frontend() {
    let suspects = of(&[port("udp 10.96.0.1:53 node=30053 : 1")]);
    let check = |sent: ([u8; 4], u16), goes: ([u8; 4], u16), expected: bool| {
        let client = IpAddr::from([10, 0, 0, 200]);
        let tuple = |source, source_port, destination, destination_port| Tuple {
            source,
            source_port,
            destination,
            destination_port,
        };
        let original = tuple(client, 999, sent.0.into(), sent.1);
        let reply = tuple(goes.0.into(), goes.1, client, 999);
        let entry = Entry::new(Protocol::Udp.number(), original, reply);
        assert_eq!(is_stale(&entry, &suspects), expected, "{sent:?} {goes:?}");
    };
    check(([10, 96, 0, 1], 53), ([10, 0, 0, 1], 8080), false);
    check(([10, 96, 0, 1], 53), ([10, 0, 0, 2], 8080), true);
    check(([10, 96, 0, 1], 53), ([10, 96, 0, 1], 53), true);
    check(([10, 96, 0, 1], 54), ([10, 0, 0, 2], 8080), false);
    check(([192, 0, 2, 1], 30053), ([10, 0, 0, 1], 8080), false);
    check(([192, 0, 2, 1], 30053), ([10, 0, 0, 2], 8080), true);
    check(([192, 0, 2, 1], 30053), ([192, 0, 2, 1], 30053), false);
}
