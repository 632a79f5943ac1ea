//! Services as short text in, entries as short text out; changes against a model of the maps; and the
//! programs on a machine that is not the kernel's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::ObjectKey;
use linux::bpf::{Helper, Hook};
use proptest::prelude::*;
use rbpf::EbpfVmRaw;

use super::layout::{
    Table, address_bytes, choice_bytes, endpoint_bytes, read_endpoint, read_frontend, read_slot,
};
use super::program::{Scope, code};
use super::ruleset::{Changes, Contents, Difference, Maps, Ruleset};
use crate::service_port::frontend::Frontend;
use crate::service_port::text::port;
use crate::service_port::{Endpoint, Protocol};

fn name(text: &str) -> ObjectKey {
    ObjectKey::new("default", text)
}

fn show_frontend(frontend: Frontend) -> String {
    let Frontend { protocol, address, port } = frontend;
    format!("{} {address} {port}", if protocol == Protocol::Tcp { "tcp" } else { "udp" })
}

fn show_endpoint(endpoint: Endpoint) -> String {
    format!("{} {}", endpoint.address, endpoint.port)
}

/// All entries, sorted as text.
fn show(maps: &Maps) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in &maps.frontends {
        let n_slots = u32::from_ne_bytes(*value.first_chunk().unwrap());
        let affinity = u64::from_ne_bytes(*value[8..].first_chunk().unwrap()) / 1_000_000_000;
        let frontend = show_frontend(read_frontend(key).unwrap());
        lines.push(format!("{frontend}: {n_slots} for {affinity} s"));
    }
    for (key, value) in &maps.slots {
        let (frontend, slot) = read_slot(key).unwrap();
        let endpoint = show_endpoint(read_endpoint(value).unwrap());
        lines.push(format!("{} #{slot} -> {endpoint}", show_frontend(frontend)));
    }
    for key in maps.members.keys() {
        let frontend = show_frontend(read_frontend(key).unwrap());
        lines.push(format!("{frontend} has {}", show_endpoint(read_endpoint(&key[20..]).unwrap())));
    }
    lines.sort();
    lines
}

fn check(service: &str, expected: &[&str]) {
    let mut ruleset = Ruleset::default();
    ruleset.set(&name("web"), vec![port(service)]);
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(show(&ruleset.maps()), expected, "{service}");
}

#[test]
fn a_cluster_ip_is_a_number_of_slots_and_an_endpoint_in_each() {
    check(
        "tcp 10.96.0.1:80 : 1 2",
        &[
            "tcp 10.96.0.1 80: 2 for 0 s",
            "tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "tcp 10.96.0.1 80 #1 -> 10.0.0.2 8080",
        ],
    );
    check(
        "tcp [fd00::1]:80 : 1",
        &["tcp fd00::1 80: 1 for 0 s", "tcp fd00::1 80 #0 -> fd01::1 8080"],
    );
}

#[test]
fn every_frontend_has_slots_of_its_own_and_affinity_has_members() {
    check(
        "udp 10.96.0.1:53 node=30053 ip=192.0.2.1 sticky=10 : 1",
        &[
            "udp 0.0.0.0 30053: 1 for 10 s",
            "udp 0.0.0.0 30053 #0 -> 10.0.0.1 8080",
            "udp 0.0.0.0 30053 has 10.0.0.1 8080",
            "udp 10.96.0.1 53: 1 for 10 s",
            "udp 10.96.0.1 53 #0 -> 10.0.0.1 8080",
            "udp 10.96.0.1 53 has 10.0.0.1 8080",
            "udp 192.0.2.1 53: 1 for 10 s",
            "udp 192.0.2.1 53 #0 -> 10.0.0.1 8080",
            "udp 192.0.2.1 53 has 10.0.0.1 8080",
        ],
    );
}

#[test]
fn policy_local_holds_for_the_cluster_ip_alone() {
    check(
        "tcp 10.96.0.1:80 node=30080 internal external : 1 2*",
        &[
            "tcp 0.0.0.0 30080: 2 for 0 s",
            "tcp 0.0.0.0 30080 #0 -> 10.0.0.1 8080",
            "tcp 0.0.0.0 30080 #1 -> 10.0.0.2 8080",
            "tcp 10.96.0.1 80: 1 for 0 s",
            "tcp 10.96.0.1 80 #0 -> 10.0.0.2 8080",
        ],
    );
}

#[test]
fn what_packets_rules_must_decide_is_not_here() {
    check("tcp 10.96.0.1:80 node=30080 ip=192.0.2.1 :", &[]);
    check("tcp 10.96.0.1:80 internal : 1", &[]);
    // Who may use a load balancer's address is known when there is a packet.
    check(
        "tcp 10.96.0.1:80 lb=192.0.2.2 from=192.0.2.0/24 : 1",
        &["tcp 10.96.0.1 80: 1 for 0 s", "tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080"],
    );
}

fn n_touched(changes: &Changes) -> usize {
    let of = |it: &Difference| it.puts.len() + it.removals.len();
    of(&changes.frontends) + of(&changes.slots) + of(&changes.members)
}

#[test]
fn one_endpoint_more_or_less_touches_few_entries() {
    let mut ruleset = Ruleset::default();
    let all: Vec<_> = (1..=200).map(|it| it.to_string()).collect();
    let set = |ruleset: &mut Ruleset, endpoints: &[String]| {
        let text = format!("tcp 10.96.0.1:80 node=30080 : {}", endpoints.join(" "));
        ruleset.set(&name("web"), vec![port(&text)]);
        n_touched(&ruleset.take_changes())
    };
    set(&mut ruleset, &all);
    let mut without = all.clone();
    without.remove(77);
    // For each of two frontends the number, the last slot into the hole, and its removal.
    assert_eq!(set(&mut ruleset, &without), 2 * 3);
    assert_eq!(set(&mut ruleset, &all), 2 * 2);
    assert_eq!(set(&mut ruleset, &all), 0);
}

#[test]
fn a_start_takes_the_slots_that_are_there() {
    let mut ruleset = Ruleset::default();
    for endpoints in ["1 2 3", "2 3", "1 2 3"] {
        ruleset.set(&name("web"), vec![port(&format!("tcp 10.96.0.1:80 : {endpoints}"))]);
    }
    let kernel = ruleset.maps();
    let mut restarted = Ruleset::default();
    restarted.adopt(&kernel.slots.clone().into_iter().collect());
    restarted.set(&name("web"), vec![port("tcp 10.96.0.1:80 : 1 2 3")]);
    assert_eq!(show(&restarted.maps()), show(&kernel));
    assert_eq!(restarted.maps().since(&kernel), Changes::default());
}

#[test]
fn of_two_services_at_one_address_the_first_by_name_has_it() {
    let mut ruleset = Ruleset::default();
    let of = |ruleset: &Ruleset| {
        let lines = show(&ruleset.maps()).into_iter();
        lines.filter(|it| it.contains("192.0.2.1 80 #")).collect::<Vec<_>>()
    };
    ruleset.set(&name("b"), vec![port("tcp 10.96.0.2:80 ip=192.0.2.1 : 2")]);
    assert_eq!(of(&ruleset), ["tcp 192.0.2.1 80 #0 -> 10.0.0.2 8080"]);
    ruleset.set(&name("a"), vec![port("tcp 10.96.0.1:80 ip=192.0.2.1 : 1")]);
    assert_eq!(of(&ruleset), ["tcp 192.0.2.1 80 #0 -> 10.0.0.1 8080"]);
    // It refuses rather than let another have it.
    ruleset.set(&name("a"), vec![port("tcp 10.96.0.1:80 ip=192.0.2.1 :")]);
    assert_eq!(of(&ruleset), [""; 0]);
    ruleset.set(&name("a"), Vec::new());
    assert_eq!(of(&ruleset), ["tcp 192.0.2.1 80 #0 -> 10.0.0.2 8080"]);
}

/// What a map would hold.
fn play(contents: &mut Contents, difference: Difference) {
    for key in difference.removals {
        assert!(contents.remove(&key).is_some(), "{key:?}");
    }
    contents.extend(difference.puts);
}

/// Any state of one of three Services; two may claim the same external address.
fn any_service() -> impl Strategy<Value = (u8, Option<String>)> {
    let words = ["node", "ip=192.0.2.1", "sticky=10", "internal", "lb=192.0.2.2 from=10.1.0.0/16"];
    let words = proptest::sample::subsequence(words.to_vec(), 0..=5);
    let protocols = proptest::sample::select(vec!["tcp", "udp"]);
    let endpoints = proptest::collection::btree_map(1u8..9, any::<bool>(), 0..6);
    (0u8..3, any::<bool>(), protocols, words, endpoints).prop_map(
        |(service, is_there, protocol, words, endpoints)| {
            let words = words.join(" ").replace("node", &format!("node=3000{service}"));
            let endpoints = endpoints
                .iter()
                .map(|(it, is_local)| format!(" {it}{}", if *is_local { "*" } else { "" }));
            let endpoints: String = endpoints.collect();
            let front = format!("{protocol} 10.96.0.{service}:80 {words}");
            let text = format!("{} :{endpoints}", front.trim_end());
            (service, is_there.then_some(text))
        },
    )
}

proptest! {
    #[test]
    fn changes_make_the_maps_what_they_should_be(
        rounds in proptest::collection::vec(proptest::collection::vec(any_service(), 1..4), 1..12)
    ) {
        let mut ruleset = Ruleset::default();
        let mut kernel = Maps::default();
        for round in rounds {
            for (service, text) in round {
                let ports = text.iter().map(|it| port(it)).collect();
                ruleset.set(&name(&service.to_string()), ports);
            }
            let changes = ruleset.take_changes();
            play(&mut kernel.frontends, changes.frontends);
            play(&mut kernel.slots, changes.slots);
            play(&mut kernel.members, changes.members);
            prop_assert_eq!(show(&kernel), show(&ruleset.maps()));
            prop_assert_eq!(n_touched(&ruleset.take_changes()), 0);
        }
    }
}

const HOOKS_FORTH: [Hook; 4] =
    [Hook::Connect4, Hook::Connect6, Hook::SendMessage4, Hook::SendMessage6];
const HOOKS_BACK: [Hook; 4] =
    [Hook::ReceiveMessage4, Hook::ReceiveMessage6, Hook::PeerName4, Hook::PeerName6];
const NODE: u64 = 0x1_0000_0007;

/// What the machine's helpers answer. They know maps by their descriptors, not keys.
#[derive(Clone, Default)]
struct World {
    namespace: u64,
    /// Addresses of values.
    values: BTreeMap<u64, u64>,
    /// Of changes of maps.
    refusal: u64,
    /// Maps that were asked or changed.
    asked: Vec<u64>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

fn is_ipv4(hook: Hook) -> bool {
    matches!(hook, Hook::Connect4 | Hook::SendMessage4 | Hook::ReceiveMessage4 | Hook::PeerName4)
}

/// `struct bpf_sock_addr` of a socket that asks for this.
fn context(hook: Hook, protocol: Protocol, address: &str, port: u16) -> Vec<u8> {
    let bytes = address_bytes(address.parse().unwrap());
    let mut context = vec![0; 72];
    if is_ipv4(hook) {
        context[4..8].copy_from_slice(&bytes[12..]);
    } else {
        context[8..24].copy_from_slice(&bytes);
    }
    context[24..26].copy_from_slice(&port.to_be_bytes());
    context[36] = protocol.number();
    context
}

/// Runs a program whose maps answer with these values; says what the socket is given, and which
/// maps were used.
fn run(
    (hook, scope): (Hook, Scope),
    world: World,
    values: &mut [(Table, Vec<u8>)],
    context: &mut [u8],
) -> Vec<u64> {
    let code = code(hook, scope, NODE, [10, 11, 12, 13, 14, 15]).unwrap();
    let mut machine = EbpfVmRaw::new(Some(code.as_bytes())).unwrap();
    let mut world = world;
    for (table, value) in values {
        let range = value.as_mut_ptr_range();
        machine.register_allowed_memory(range.start as u64..range.end as u64);
        world.values.insert(10 + *table as u64, range.start as u64);
    }
    WORLD.set(world);
    let helpers: [(Helper, rbpf::Helper); 6] = [
        (Helper::NamespaceCookie, |_, _, _, _, _| WORLD.with_borrow(|it| it.namespace)),
        (Helper::SocketCookie, |_, _, _, _, _| 77),
        (Helper::Random, |_, _, _, _, _| 5),
        (Helper::Time, |_, _, _, _, _| 1_000_000_000_000),
        (Helper::MapLookup, |map, _, _, _, _| {
            WORLD.with_borrow_mut(|it| {
                it.asked.push(map);
                it.values.get(&map).copied().unwrap_or(0)
            })
        }),
        (Helper::MapUpdate, |map, _, _, _, _| {
            WORLD.with_borrow_mut(|it| {
                it.asked.push(map);
                it.refusal
            })
        }),
    ];
    for (helper, function) in helpers {
        machine.register_helper(helper.number(), function).unwrap();
    }
    assert_eq!(machine.execute_program(context).unwrap(), 1, "nothing is ever forbidden");
    WORLD.with_borrow(|it| it.asked.clone())
}

fn endpoint(hook: Hook) -> Vec<u8> {
    let address: IpAddr = if is_ipv4(hook) { "10.0.0.9" } else { "fd01::9" }.parse().unwrap();
    endpoint_bytes(&Endpoint { address, port: 8053 }).to_vec()
}

fn cluster_ip(hook: Hook) -> &'static str {
    if is_ipv4(hook) { "10.96.0.1" } else { "fd00::1" }
}

fn here() -> World {
    World { namespace: NODE, ..World::default() }
}

#[test]
fn a_socket_that_asks_for_a_service_is_given_an_endpoint() {
    for hook in HOOKS_FORTH {
        for scope in [Scope::Node, Scope::Pods] {
            let namespace = if scope == Scope::Node { NODE } else { 9 };
            let world = World { namespace, ..World::default() };
            let mut asks = context(hook, Protocol::Udp, cluster_ip(hook), 53);
            let mut values = [
                (Table::Frontends, choice_bytes(3, None).to_vec()),
                (Table::Slots, endpoint(hook)),
            ];
            let asked = run((hook, scope), world, &mut values, &mut asks);
            let given = if is_ipv4(hook) { "10.0.0.9" } else { "fd01::9" };
            assert_eq!(asks, context(hook, Protocol::Udp, given, 8053), "{hook:?}");
            assert_eq!(asked, [10, 11, 15], "the frontend, a slot, and a note for the way back");
        }
    }
}

#[test]
fn sockets_of_others_and_what_is_no_service_are_left_alone() {
    for hook in HOOKS_FORTH.into_iter().chain(HOOKS_BACK) {
        let untouched = context(hook, Protocol::Tcp, cluster_ip(hook), 80);
        let mut values = [
            (Table::Frontends, choice_bytes(3, None).to_vec()),
            (Table::Slots, endpoint(hook)),
            (Table::Flows, endpoint(hook)),
        ];
        for (scope, namespace) in [(Scope::Node, 7), (Scope::Pods, NODE)] {
            let mut asks = untouched.clone();
            let world = World { namespace, ..World::default() };
            assert_eq!(run((hook, scope), world, &mut values, &mut asks), [0; 0]);
            assert_eq!(asks, untouched, "{hook:?} {scope:?}");
        }
        let mut asks = untouched.clone();
        run((hook, Scope::Node), here(), &mut [], &mut asks);
        assert_eq!(asks, untouched, "{hook:?}");
    }
    for hook in HOOKS_FORTH {
        let mut asks = context(hook, Protocol::Sctp, cluster_ip(hook), 80);
        assert_eq!(
            run((hook, Scope::Node), here(), &mut [], &mut asks),
            [0; 0],
            "no such protocol"
        );
    }
}

#[test]
fn what_cannot_be_translated_back_is_not_translated() {
    for hook in HOOKS_FORTH {
        let untouched = context(hook, Protocol::Tcp, cluster_ip(hook), 80);
        let frontend = (Table::Frontends, choice_bytes(3, None).to_vec());
        let mut asks = untouched.clone();
        run((hook, Scope::Node), here(), &mut [frontend.clone()], &mut asks);
        assert_eq!(asks, untouched, "the slot has just gone");
        let full = World { refusal: u64::MAX, ..here() };
        let mut values = [frontend, (Table::Slots, endpoint(hook))];
        run((hook, Scope::Node), full, &mut values, &mut asks);
        assert_eq!(asks, untouched, "no room to note it");
    }
}

#[test]
fn a_client_with_affinity_has_its_endpoint_while_that_is_one_and_its_time_lasts() {
    let affinity = Some(std::time::Duration::from_secs(10));
    let check = |seconds_ago: u64, is_member: bool, expected: &[u64]| {
        for hook in HOOKS_FORTH {
            let last_used = 1_000_000_000_000 - seconds_ago * 1_000_000_000;
            let remembered = [&endpoint(hook)[..], &[0; 4], &last_used.to_ne_bytes()].concat();
            let mut values = vec![
                (Table::Frontends, choice_bytes(3, affinity).to_vec()),
                (Table::Slots, endpoint(hook)),
                (Table::Clients, remembered),
            ];
            values.extend(is_member.then(|| (Table::Members, vec![0; 4])));
            let mut asks = context(hook, Protocol::Tcp, cluster_ip(hook), 80);
            assert_eq!(run((hook, Scope::Node), here(), &mut values, &mut asks), expected);
            let given = if is_ipv4(hook) { "10.0.0.9" } else { "fd01::9" };
            assert_eq!(asks, context(hook, Protocol::Tcp, given, 8053), "{hook:?}");
            let used = u64::from_ne_bytes(*values[2].1[24..].first_chunk().unwrap());
            assert_eq!(used > last_used, expected.len() == 4 && seconds_ago > 0, "lives longer");
        }
    };
    // The frontend, the client, whether it is a member, the way back.
    check(5, true, &[10, 14, 12, 15]);
    check(10, true, &[10, 14, 12, 15]);
    // And otherwise a slot, which is remembered.
    check(11, true, &[10, 14, 11, 14, 15]);
    check(5, false, &[10, 14, 12, 11, 14, 15]);
}

#[test]
fn the_way_back_shows_what_was_asked_for() {
    for hook in HOOKS_BACK {
        let asked = endpoint(hook);
        let mut told = context(hook, Protocol::Udp, cluster_ip(hook), 53);
        run((hook, Scope::Node), here(), &mut [(Table::Flows, asked)], &mut told);
        let expected = if is_ipv4(hook) { "10.0.0.9" } else { "fd01::9" };
        assert_eq!(told, context(hook, Protocol::Udp, expected, 8053), "{hook:?}");
    }
}
