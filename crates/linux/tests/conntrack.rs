//! Conntrack entries of real flows over loopback, of both families, in a network namespace of our
//! own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;

use linux::netlink::conntrack::Conntrack;
use linux::netlink::nftables::draft::{ENDPOINT, table_family, types};
use linux::netlink::nftables::{
    Chain, ChainKind, Data, Hook, HookPoint, Nftables, Rule, Set, Table, TableId, Value, priority,
};
use linux::network_namespace::NetworkNamespace;
use stdx::Family;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// What is sent to port 53 of an address goes to another, at this port. NAT also turns tracking on.
fn redirect(sent_to: IpAddr, address: IpAddr, port: u16) -> Table {
    let family = Family::of(address);
    let hook = Hook::new(ChainKind::Nat, HookPoint::Output, priority::DESTINATION_NAT);
    let rule = Rule::draft(family, "redirect").dnat_by("redirect", ENDPOINT);
    let data = Data::Value(Value::new().address(address).port(port));
    let element = (Value::new().address(sent_to).port(53).into(), Some(data));
    Table {
        chains: [("output".to_owned(), Chain::at(hook, vec![rule]))].into(),
        sets: [("redirect", Set::map(types(family, ENDPOINT), types(family, ENDPOINT)))].into(),
        elements: [("redirect", BTreeMap::from([element]))].into(),
    }
}

fn exercise(sent_to: &str, address: &str) {
    let (sent_to, address): (IpAddr, IpAddr) = (sent_to.parse().unwrap(), address.parse().unwrap());
    let family = Family::of(address);
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let route = ["route", "add", "local", &sent_to.to_string(), "dev", "lo"];
    assert!(Command::new("ip").args(route).status().unwrap().success());
    let server = UdpSocket::bind((address, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let id = TableId::new(table_family(family), "xebec-test");
    Nftables::open(id).unwrap().converge(&redirect(sent_to, address, port)).unwrap();
    let clients: Vec<_> = (0..3).map(|_| UdpSocket::bind((address, 0)).unwrap()).collect();
    for client in &clients {
        client.send_to(b"hello", (sent_to, 53)).unwrap();
        server.recv_from(&mut [0; 16]).unwrap();
    }
    let mut conntrack = Conntrack::open().unwrap();
    let entries = conntrack.list(family, UDP).unwrap();
    assert_eq!(entries.len(), 3, "{entries:?}");
    assert_eq!(conntrack.list(family, TCP).unwrap(), []);
    for entry in &entries {
        let original = (entry.original.destination, entry.original.destination_port);
        assert_eq!(original, (sent_to, 53));
        assert_eq!((entry.reply.source, entry.reply.source_port), (address, port));
    }
    let first = clients[0].local_addr().unwrap().port();
    let is_first = |source_port| source_port == first;
    let n_deleted = conntrack.delete_where(family, UDP, |it| is_first(it.original.source_port));
    assert_eq!(n_deleted.unwrap(), 1);
    let left = conntrack.list(family, UDP).unwrap();
    assert_eq!(left.len(), 2);
    assert!(!left.iter().any(|it| is_first(it.original.source_port)));
    let gone = entries.iter().find(|it| is_first(it.original.source_port)).unwrap();
    assert!(!conntrack.delete(gone).unwrap(), "it is gone already");
}

#[test]
fn entries_of_one_protocol_are_listed_and_deleted_by_what_they_are() {
    for (sent_to, address) in [("127.0.0.99", "127.0.0.1"), ("fd00::99", "::1")] {
        match NetworkNamespace::create() {
            Ok(namespace) => namespace.run(|| exercise(sent_to, address)).unwrap(),
            Err(err) => eprintln!("SKIPPED: {err}: {}", err.source),
        }
    }
}
