//! nftables against the real kernel, in a network namespace of our own; Debian's `nft`, where it is
//! there, says what it sees.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use linux::netlink::nftables::expression::{
    Base, Comparison, Conntrack, Direction, FIB_LOCAL, FibAddress, Generator, Meta, Nat, Reject,
    SetOperation, Target, ct_state, interface_name, nat_flags,
};
use linux::netlink::nftables::{
    Chain, ChainKind, Change, Data, Element, Expression, Hook, HookPoint, Key, Nftables, Register,
    Rule, Set, Table, TableFamily, TableId, Type, Value, Verdict, priority,
};
use linux::network_namespace::NetworkNamespace;

const ID: TableId =
    TableId { family: TableFamily::Ip, name: std::borrow::Cow::Borrowed("xebec-test") };

/// Runs it in a network namespace of its own.
fn in_namespace(run: impl FnOnce() + Send) {
    match NetworkNamespace::create() {
        Ok(namespace) => namespace.run(run).unwrap(),
        Err(err) => eprintln!("SKIPPED: {err}: {}", err.source),
    }
}

/// What `nft list` shows without digests; `None` if it is not installed.
fn list() -> Option<String> {
    let output = match Command::new("nft").args(["list", "table", "ip", &ID.name]).output() {
        Ok(output) => output,
        Err(err) => {
            eprintln!("SKIPPED: nft does not run, so its view is not compared: {err}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let without_comment = |line: &str| line.split(" comment ").next().unwrap().trim().to_owned();
    Some(text.lines().map(without_comment).collect::<Vec<_>>().join("\n"))
}

fn r(number: u8) -> Register {
    Register(number)
}

fn verdict(verdict: Verdict) -> Expression {
    Expression::Verdict(verdict)
}

fn equal(from: Register, value: Value) -> Expression {
    Expression::Compare { from, comparison: Comparison::Equal, value }
}

/// Protocol, destination address and port into three registers.
fn load_destination(first: u8) -> Vec<Expression> {
    vec![
        Expression::Meta { key: Meta::L4Protocol, into: r(first) },
        Expression::Payload { base: Base::Network, offset: 16, length: 4, into: r(first + 1) },
        Expression::Payload { base: Base::Transport, offset: 2, length: 2, into: r(first + 2) },
    ]
}

const DESTINATION: &[Type] = &[Type::Protocol, Type::Ipv4Address, Type::Port];

fn sets() -> BTreeMap<&'static str, Set> {
    BTreeMap::from([
        (
            "affinity",
            Set::map(&[Type::Ipv4Address, Type::Mark], &[Type::Ipv4Address, Type::Port])
                .dynamic(1000),
        ),
        ("endpoints", Set::map(DESTINATION, &[Type::Ipv4Address, Type::Port])),
        ("ports", Set::of(&[Type::Port])),
        ("sources", Set::of(&[Type::Port, Type::Ipv4Address]).interval()),
        ("verdicts", Set::verdict_map(&[Type::Mark])),
    ])
}

fn elements() -> BTreeMap<&'static str, BTreeMap<Key, Option<Data>>> {
    let destination = Value::new().protocol(6).address(Ipv4Addr::new(10, 96, 0, 1)).port(443);
    let endpoint = Value::new().address(Ipv4Addr::new(10, 0, 0, 7)).port(6443);
    let last = Value::new().port(80).address(Ipv4Addr::new(192, 168, 255, 255));
    let sources = Element::range(Value::new().port(80).address([192, 168, 0, 0]), last);
    let goto = Data::Verdict(Verdict::Goto("side".to_owned()));
    BTreeMap::from([
        ("endpoints", BTreeMap::from([(destination.into(), Some(Data::Value(endpoint)))])),
        ("ports", BTreeMap::from([(Value::raw(&80u16.to_be_bytes()).into(), None)])),
        ("sources", BTreeMap::from([(sources.key, None)])),
        (
            "verdicts",
            BTreeMap::from([
                (Value::new().mark(1).into(), Some(goto)),
                (Value::new().mark(2).into(), Some(Data::Verdict(Verdict::Drop))),
            ]),
        ),
    ])
}

fn nat_rules() -> Vec<Rule> {
    let endpoints = |target| Expression::Lookup { set: "endpoints", key: r(0), target };
    let mut to_endpoint = load_destination(0);
    to_endpoint.extend([
        endpoints(Target::Register(r(4))),
        Expression::Nat { kind: Nat::Destination, address: r(4), port: Some(r(5)), flags: 0 },
    ]);
    let stick = vec![
        Expression::Payload { base: Base::Network, offset: 12, length: 4, into: r(0) },
        Expression::Number { generator: Generator::Random, modulus: 7, offset: 100, into: r(1) },
        Expression::Immediate { into: r(2), value: Value::new().address([10, 0, 0, 1]) },
        Expression::Immediate { into: r(3), value: Value::raw(&80u16.to_be_bytes()) },
        Expression::Dynamic {
            set: "affinity",
            operation: SetOperation::Update,
            key: r(0),
            value: Some(r(2)),
            timeout: Some(Duration::from_secs(10)),
        },
    ];
    let by_number = vec![
        Expression::Payload { base: Base::Network, offset: 12, length: 4, into: r(0) },
        Expression::Hash { from: r(0), length: 4, modulus: 3, seed: 9, offset: 0, into: r(1) },
        Expression::Lookup { set: "verdicts", key: r(1), target: Target::Verdict },
    ];
    let local = vec![
        Expression::FibType { address: FibAddress::Destination, into: r(0) },
        equal(r(0), Value::new().mark(FIB_LOCAL)),
        Expression::Meta { key: Meta::L4Protocol, into: r(0) },
        equal(r(0), Value::raw(&[6])),
        Expression::Immediate { into: r(1), value: Value::raw(&8080u16.to_be_bytes()) },
        Expression::Redirect { port: Some(r(1)) },
    ];
    [("endpoint", to_endpoint), ("stick", stick), ("hash", by_number), ("local", local)]
        .map(|(comment, expressions)| Rule::new(comment, expressions))
        .into()
}

fn filter_rules() -> Vec<Rule> {
    let new = vec![
        Expression::Conntrack { key: Conntrack::State, direction: None, into: r(0) },
        Expression::Bitwise {
            from: r(0),
            into: r(0),
            mask: Value::new().mark(ct_state::NEW),
            xor: Value::new().mark(0),
        },
        Expression::Compare {
            from: r(0),
            comparison: Comparison::NotEqual,
            value: Value::new().mark(0),
        },
        Expression::Meta { key: Meta::InputName, into: r(0) },
        equal(r(0), interface_name("xebec0")),
        Expression::Counter,
        verdict(Verdict::Jump("side".to_owned())),
    ];
    let original = vec![
        Expression::Conntrack {
            key: Conntrack::DestinationAddress,
            direction: Some(Direction::Original),
            into: r(0),
        },
        equal(r(0), Value::new().address([10, 96, 0, 1])),
        Expression::Immediate { into: r(1), value: Value::new().mark(0x4000) },
        Expression::SetMeta { key: Meta::Mark, from: r(1) },
        Expression::SetConntrack { key: Conntrack::Mark, from: r(1) },
    ];
    let port = vec![
        Expression::Meta { key: Meta::L4Protocol, into: r(0) },
        equal(r(0), Value::raw(&[17])),
        Expression::Payload { base: Base::Transport, offset: 2, length: 2, into: r(0) },
        Expression::Lookup { set: "ports", key: r(0), target: Target::NotMember },
        Expression::Reject(Reject::PortUnreachable),
    ];
    let reset = vec![
        Expression::Meta { key: Meta::L4Protocol, into: r(0) },
        equal(r(0), Value::raw(&[6])),
        Expression::Reject(Reject::TcpReset),
    ];
    [("new", new), ("original", original), ("port", port), ("reset", reset)]
        .map(|(comment, expressions)| Rule::new(comment, expressions))
        .into()
}

/// A table that uses everything once.
fn everything() -> Table {
    let masquerade =
        Rule::new("masquerade", vec![Expression::Masquerade { flags: nat_flags::FULLY_RANDOM }]);
    let hook = |kind, point, priority| Hook::new(kind, point, priority);
    let chains = [
        (
            "nat",
            Chain::at(
                hook(ChainKind::Nat, HookPoint::Prerouting, priority::DESTINATION_NAT),
                nat_rules(),
            ),
        ),
        (
            "masquerade",
            Chain::at(
                hook(ChainKind::Nat, HookPoint::Postrouting, priority::SOURCE_NAT),
                vec![masquerade],
            ),
        ),
        (
            "filter",
            Chain::at(hook(ChainKind::Filter, HookPoint::Input, priority::FILTER), filter_rules()),
        ),
        ("side", Chain::of(vec![Rule::new("back", vec![verdict(Verdict::Return)])])),
    ];
    let chains = chains.map(|(name, chain)| (name.to_owned(), chain)).into();
    Table { chains, sets: sets(), elements: elements() }
}

#[test]
fn the_kernel_takes_all_that_the_model_can_say_and_gives_it_back() {
    in_namespace(|| {
        let mut nftables = Nftables::open(ID).unwrap();
        assert_eq!(nftables.observe().unwrap(), None);
        assert!(nftables.converge(&everything()).unwrap());
        assert!(!nftables.converge(&everything()).unwrap(), "nothing differs");
        if let Some(seen) = list() {
            for expected in [
                "type filter hook input priority filter; policy accept;",
                "type nat hook postrouting priority srcnat; policy accept;",
                "ct state new iifname \"xebec0\" counter packets 0 bytes 0 jump side",
                "ct original ip daddr 10.96.0.1 meta mark set 0x00004000 ct mark set 0x00004000",
                "udp dport != @ports reject",
                "reject with tcp reset",
                "dnat ip to meta l4proto . ip daddr . th dport map @endpoints",
                "update @affinity { ip saddr . numgen random mod 7 offset 100 timeout 10s : 10.0.0.1 . 80 }",
                "jhash ip saddr mod 3 seed 0x9 vmap @verdicts",
                "fib daddr type local meta l4proto tcp redirect to :8080",
                "masquerade fully-random",
                "elements = { tcp . 10.96.0.1 . 443 : 10.0.0.7 . 6443 }",
                "elements = { 80 . 192.168.0.0/16 }",
                "elements = { 0x00000001 : goto side, 0x00000002 : drop }",
            ] {
                assert!(seen.contains(expected), "{expected}\nis not in\n{seen}");
            }
        }
        nftables.purge().unwrap();
        nftables.purge().unwrap();
        assert_eq!(nftables.observe().unwrap(), None);
    });
}

#[test]
fn any_change_of_a_table_is_made_in_place() {
    in_namespace(|| {
        let mut nftables = Nftables::open(ID).unwrap();
        nftables.converge(&everything()).unwrap();
        let mut table = everything();
        // Other data for one element, one element less, a chain that goes with the element that
        // names it, another rule.
        let verdicts = table.elements.get_mut("verdicts").unwrap();
        verdicts.insert(Value::new().mark(2).into(), Some(Data::Verdict(Verdict::Accept)));
        verdicts.remove(&Key::from(Value::new().mark(1)));
        table.chains.remove("side");
        let rules = &mut table.chains.get_mut("filter").unwrap().rules;
        rules[0] = Rule::new("new", vec![verdict(Verdict::Accept)]);
        assert!(nftables.converge(&table).unwrap());
        assert!(!nftables.converge(&table).unwrap());
        // And back, and to a set that is defined otherwise, which takes a new table.
        assert!(nftables.converge(&everything()).unwrap());
        assert!(!nftables.converge(&everything()).unwrap());
        table.sets.insert("ports", Set::of(&[Type::Mark]));
        table.elements.remove("ports");
        table.chains.get_mut("filter").unwrap().rules.remove(2);
        assert!(nftables.converge(&table).unwrap());
        assert!(!nftables.converge(&table).unwrap());
    });
}

#[test]
fn a_transaction_with_one_mistake_changes_nothing_and_names_it() {
    in_namespace(|| {
        let mut nftables = Nftables::open(ID).unwrap();
        nftables.converge(&everything()).unwrap();
        let before = nftables.observe().unwrap();
        let key = |port: u16| Key::from(Value::raw(&port.to_be_bytes()));
        let err = nftables
            .apply(&[
                Change::AddElements { set: "ports", elements: vec![Element::of(key(81))] },
                Change::DeleteElements { set: "ports", keys: vec![key(99)] },
            ])
            .unwrap_err();
        assert!(err.to_string().contains("delete 1 elements of ip xebec-test ports"), "{err}");
        assert!(err.is(rustix::io::Errno::NOENT), "{err:?}");
        assert_eq!(nftables.observe().unwrap(), before);
    });
}

#[test]
fn a_hundred_thousand_elements_go_in_one_transaction_and_come_back() {
    in_namespace(|| {
        let mut nftables = Nftables::open(ID).unwrap();
        let mut table = Table::default();
        table.sets.insert("endpoints", sets().remove("endpoints").unwrap());
        let elements = (0..100_000u32).map(|it| {
            let key = Value::new().protocol(6).address(Ipv4Addr::from(it)).port(80);
            (key.into(), Some(Data::Value(Value::new().address(Ipv4Addr::from(!it)).port(8080))))
        });
        table.elements.insert("endpoints", elements.collect());
        assert!(nftables.converge(&table).unwrap());
        assert!(!nftables.converge(&table).unwrap());
    });
}
