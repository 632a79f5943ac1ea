//! Conntrack entries of real flows over loopback, in a network namespace of our own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use linux::netlink::conntrack::Conntrack;
use linux::netlink::nftables::expression::{Base, Comparison, Nat};
use linux::netlink::nftables::{
    Chain, ChainKind, Expression, Hook, HookPoint, Nftables, Register, Rule, Table, TableFamily,
    TableId, Value, priority,
};
use linux::network_namespace::NetworkNamespace;

const UDP: u8 = 17;
const TCP: u8 = 6;
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);

/// What is sent to `VIRTUAL` goes to 127.0.0.1, at this port. NAT also turns tracking on.
fn redirect(port: u16) -> Table {
    let load =
        Expression::Payload { base: Base::Network, offset: 16, length: 4, into: Register(0) };
    let expressions = vec![
        load,
        Expression::Compare {
            from: Register(0),
            comparison: Comparison::Equal,
            value: Value::new().address(VIRTUAL),
        },
        Expression::Immediate {
            into: Register(0),
            value: Value::new().address([127, 0, 0, 1].into()),
        },
        Expression::Immediate { into: Register(1), value: Value::raw(&port.to_be_bytes()) },
        Expression::Nat {
            kind: Nat::Destination,
            address: Register(0),
            port: Some(Register(1)),
            flags: 0,
        },
    ];
    let hook = Hook::new(ChainKind::Nat, HookPoint::Output, priority::DESTINATION_NAT);
    let chain = Chain::at(hook, vec![Rule::new("redirect", expressions)]);
    Table { chains: [("output".to_owned(), chain)].into(), ..Table::default() }
}

fn exercise() {
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let id = TableId::new(TableFamily::Ip, "xebec-test");
    Nftables::open(id).unwrap().converge(&redirect(port)).unwrap();
    let clients: Vec<_> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for client in &clients {
        client.send_to(b"hello", (VIRTUAL, 53)).unwrap();
        server.recv_from(&mut [0; 16]).unwrap();
    }
    let mut conntrack = Conntrack::open().unwrap();
    let entries = conntrack.list(UDP).unwrap();
    assert_eq!(entries.len(), 3, "{entries:?}");
    assert_eq!(conntrack.list(TCP).unwrap(), []);
    for entry in &entries {
        let original = (entry.original.destination, entry.original.destination_port);
        assert_eq!(original, (VIRTUAL, 53));
        let reply = (entry.reply.source, entry.reply.source_port);
        assert_eq!(reply, (Ipv4Addr::LOCALHOST, port));
    }
    let first = clients[0].local_addr().unwrap().port();
    let is_first = |source_port| source_port == first;
    let n_deleted = conntrack.delete_where(UDP, |it| is_first(it.original.source_port)).unwrap();
    assert_eq!(n_deleted, 1);
    let left = conntrack.list(UDP).unwrap();
    assert_eq!(left.len(), 2);
    assert!(!left.iter().any(|it| is_first(it.original.source_port)));
    let gone = entries.iter().find(|it| is_first(it.original.source_port)).unwrap();
    assert!(!conntrack.delete(gone).unwrap(), "it is gone already");
}

#[test]
fn entries_of_one_protocol_are_listed_and_deleted_by_what_they_are() {
    match NetworkNamespace::create() {
        Ok(namespace) => namespace.run(exercise).unwrap(),
        Err(err) => eprintln!("SKIPPED: {err}: {}", err.source),
    }
}
