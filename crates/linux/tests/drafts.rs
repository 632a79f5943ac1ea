//! Rules as they are written and as `nft` lists them, of both families, in a network namespace of
//! our own.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use linux::netlink::nftables::draft::{ENDPOINT, table_family, types};
use linux::netlink::nftables::expression::{ct_state, ct_status};
use linux::netlink::nftables::{
    Chain, ChainKind, Draft, Field, Hook, HookPoint, Nftables, Rule, Set, Table, TableId, priority,
};
use linux::network_namespace::NetworkNamespace;
use stdx::{Cidr, Family};

const FRONTEND: &[Field] = &[Field::Protocol, Field::Destination, Field::DestinationPort];
const NODE_PORT: &[Field] = &[Field::Protocol, Field::Unspecified, Field::DestinationPort];
const CLIENT: &[Field] =
    &[Field::Source, Field::Protocol, Field::Destination, Field::DestinationPort];
const SLOT: &[Field] = &[
    Field::Protocol,
    Field::Destination,
    Field::DestinationPort,
    Field::Random { modulus: 3, offset: 7 },
];

fn sets(family: Family) -> BTreeMap<&'static str, Set> {
    let types = |fields| types(family, fields);
    let member = [types(FRONTEND), types(ENDPOINT)].concat();
    BTreeMap::from([
        ("frontends", Set::of(types(FRONTEND))),
        ("members", Set::of(member)),
        ("sources", Set::of(types(&[Field::Source]))),
        ("chains", Set::verdict_map(types(FRONTEND))),
        ("slots", Set::map(types(SLOT), types(ENDPOINT))),
        ("clients", Set::map(types(CLIENT), types(ENDPOINT)).dynamic(9)),
    ])
}

fn hook(kind: &str) -> Hook {
    match kind {
        "filter" => Hook::new(ChainKind::Filter, HookPoint::Input, priority::FILTER),
        "dnat" => Hook::new(ChainKind::Nat, HookPoint::Prerouting, priority::DESTINATION_NAT),
        _ => Hook::new(ChainKind::Nat, HookPoint::Postrouting, priority::SOURCE_NAT),
    }
}

/// What `nft` shows of the rules in a chain of this kind; `None`, and says so, where there is none.
fn list(family: Family, kind: &str, rules: Vec<Rule>) -> Option<Vec<String>> {
    let id = TableId::new(table_family(family), "xebec-drafts");
    let chains = BTreeMap::from([
        ("main".to_owned(), Chain::at(hook(kind), rules)),
        ("side".to_owned(), Chain::of(Vec::new())),
    ]);
    let table = Table { chains, sets: sets(family), elements: BTreeMap::new() };
    let mut nftables = Nftables::open(id.clone()).unwrap();
    nftables.converge(&table).unwrap();
    assert!(!nftables.converge(&table).unwrap(), "nothing differs");
    let output = match Command::new("nft").args(["list", "table"]).args(words(&id)).output() {
        Ok(output) => output,
        Err(err) => {
            eprintln!("SKIPPED: nft does not run, so its view is not compared: {err}");
            return None;
        }
    };
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaints.is_empty(), "{}{complaints}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let rule = |line: &str| Some(line.split_once(" comment ")?.0.trim().to_owned());
    Some(text.lines().filter_map(rule).collect())
}

fn words(id: &TableId) -> Vec<String> {
    id.to_string().split(' ').map(str::to_owned).collect()
}

/// Each rule as `nft` shows it, in tables of both families. `ADDRESS`, `RANGE` and `ip` stand for
/// what the families have.
fn check(kind: &str, rules: &[(Make, &str)]) {
    let examples = [
        Example { family: Family::V4, word: "ip", address: "10.0.0.7", range: "10.96.0.0/12" },
        Example { family: Family::V6, word: "ip6", address: "fd00::7", range: "fd00:10::/108" },
    ];
    for example in examples {
        let made = rules.iter().enumerate().map(|(number, (make, _))| {
            make(Rule::draft(example.family, format!("rule {number}")), &example)
        });
        let made = made.collect();
        let run = || list(example.family, kind, made);
        let listed = match NetworkNamespace::create() {
            Ok(namespace) => namespace.run(run).unwrap(),
            Err(err) => {
                eprintln!("SKIPPED: {err}: {}", err.source);
                return;
            }
        };
        let Some(listed) = listed else { return };
        let expected = rules.iter().map(|(_, text)| {
            let text = text.replace("ADDRESS", example.address).replace("RANGE", example.range);
            let zero = if example.word == "ip" { "0.0.0.0" } else { "::" };
            text.replace("ZERO", zero).replace("ip ", &format!("{} ", example.word))
        });
        assert_eq!(listed, expected.collect::<Vec<_>>());
    }
}

type Make = fn(Draft, &Example) -> Rule;

struct Example {
    family: Family,
    word: &'static str,
    address: &'static str,
    range: &'static str,
}

impl Example {
    fn range(&self) -> Cidr {
        self.range.parse().unwrap()
    }

    fn address(&self) -> IpAddr {
        self.address.parse().unwrap()
    }
}

#[test]
fn tests_of_a_packet_are_listed_as_they_were_written() {
    check(
        "filter",
        &[
            (|it, _| it.input_group(7).drop(), "iifgroup 7 drop"),
            (|it, _| it.input_is("lo").accept(), "iifname \"lo\" accept"),
            (|it, _| it.input_is_not("lo").jump("side"), "iifname != \"lo\" jump side"),
            (|it, _| it.protocol(6).reset(), "reject with tcp reset"),
            (|it, example| it.source_in(example.range()).drop(), "ip saddr RANGE drop"),
            (
                |it, example| {
                    let range = example.range();
                    it.source_not_in(range).destination_not_in(range).goto("side")
                },
                "ip saddr != RANGE ip daddr != RANGE goto side",
            ),
            (|it, example| it.destination_in(example.range()).drop(), "ip daddr RANGE drop"),
            (|it, _| it.destination_is_local().drop(), "fib daddr type local drop"),
            (|it, _| it.source_is_local().drop(), "fib saddr type local drop"),
            (|it, _| it.source_is_not_routed_back().drop(), "fib saddr . iif oif missing drop"),
            (|it, _| it.is_new().drop(), "ct state new drop"),
            (
                |it, _| it.conntrack_state_not(ct_state::ESTABLISHED | ct_state::RELATED).drop(),
                "ct state ! established,related drop",
            ),
            (|it, _| it.conntrack_status(ct_status::DESTINATION_NAT).drop(), "ct status dnat drop"),
            (
                |it, _| it.is_marked(0x4000).clear_mark(0x4000).into(),
                "meta mark & 0x00004000 != 0x00000000 meta mark set meta mark & 0xffffbfff",
            ),
            (|it, _| it.set_mark(0x4000).into(), "meta mark set meta mark | 0x00004000"),
            (
                |it, _| {
                    it.is_in("frontends", FRONTEND).is_not_in("sources", &[Field::Source]).drop()
                },
                "meta l4proto . ip daddr . th dport @frontends ip saddr != @sources drop",
            ),
            (
                |it, _| it.is_in("frontends", NODE_PORT).drop(),
                "meta l4proto . ip daddr & ZERO . th dport @frontends drop",
            ),
        ],
    );
}

#[test]
fn refusals_are_of_the_family() {
    let listed = |family| {
        let rules = vec![Rule::draft(family, "others").unreachable()];
        NetworkNamespace::create().ok()?.run(|| list(family, "filter", rules)).unwrap()
    };
    let Some(ipv4) = listed(Family::V4) else { return };
    assert_eq!(ipv4, ["reject"], "port unreachable is the default");
    assert_eq!(listed(Family::V6).unwrap(), ["reject"]);
}

#[test]
fn translations_are_listed_with_the_map_that_says_where_to() {
    check(
        "dnat",
        &[
            (
                |it, _| it.verdict_of("chains", FRONTEND),
                "meta l4proto . ip daddr . th dport vmap @chains",
            ),
            (
                |it, _| it.dnat_by("slots", SLOT),
                "dnat ip to meta l4proto . ip daddr . th dport . numgen random mod 3 offset 7 map @slots",
            ),
            (
                |it, _| {
                    let found = it.find("clients", CLIENT, CLIENT);
                    let second = Duration::from_secs(1);
                    let known = found.found_is_in("members", &[Field::Source]);
                    known.renew_found("clients", second).dnat_to_found()
                },
                "meta l4proto . ip daddr . th dport . ip daddr . th dport @members \
                 update @clients { ip saddr . meta l4proto . ip daddr . th dport timeout 1s : \
                 ip daddr . th dport } dnat to ip daddr:th dport",
            ),
            (
                |it, _| {
                    let found = it.find("slots", SLOT, CLIENT);
                    found.store_found("clients", Duration::from_secs(1)).into()
                },
                "add @clients { ip saddr . meta l4proto . ip daddr . th dport timeout 1s : \
                 ip daddr . th dport }",
            ),
            (
                |it, _| it.forget("clients", CLIENT),
                "delete @clients { ip saddr . meta l4proto . ip daddr . th dport : \
                 ip daddr . th dport }",
            ),
        ],
    );
    check(
        "snat",
        &[
            (|it, _| it.masquerade(), "masquerade fully-random"),
            (
                |it, example| it.output_group(7).snat_to(example.address()),
                "oifgroup 7 snat to ADDRESS",
            ),
        ],
    );
}
