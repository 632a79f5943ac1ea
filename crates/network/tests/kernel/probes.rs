//! Nodes try the ways to each other: what is wrong with one is found, repaired or said, and forgotten
//! when it is over.

use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};

use linux::netlink::ethtool::Ethtool;
use linux::netlink::route::{LinkChange, Route};
use linux::network_namespace::NetworkNamespace;
use network::{HOST_GW, ROUTED, Tried, UDP, VXLAN};

use crate::places::{Pod, ip, shell, udp};
use crate::switch::{Member, Side, Switch, check, serve};

/// Two nodes that work, follow, and know each other.
fn meet(nodes: &[&Member]) -> Vec<lifecycle::Tasks> {
    let following = nodes.iter().map(|it| it.follow()).collect();
    nodes.iter().for_each(|it| it.set_ready_peers(nodes));
    following
}

fn is_fine(tried: &Tried) -> bool {
    tried.n_reached == 2 && tried.unreached.is_empty() && tried.repaired.is_empty()
}

/// Rules of both families; `None`, said loudly, where there is no `nft`.
fn forbid(place: &NetworkNamespace, rule: &str) -> Option<()> {
    let rules = format!(
        "add table inet test; add chain inet test all {{ type filter hook prerouting priority raw; }}; \
         add rule inet test all {rule}"
    );
    match shell(place, &format!("nft '{rules}'")) {
        Ok(_) => Some(()),
        Err(why) => {
            println!("SKIPPED: {why}");
            None
        }
    }
}

fn allow(place: &NetworkNamespace) {
    shell(place, "nft delete table inet test").unwrap();
}

/// The MTU of the node's route to the other's pods.
fn mtu(node: &Member, range: &str) -> Option<u32> {
    let routes = node.routes().routes().unwrap();
    let found = routes.iter().find(|it| it.destination.to_string() == range);
    found.and_then(|it: &Route| it.mtu)
}

/// A datagram of this many bytes arrives whole, if not the first one: senders learn by it.
fn check_datagram(from: &Pod, to: &Pod, length: usize) {
    for (own, other) in from.addresses.iter().zip(&to.addresses) {
        let server = udp(&to.namespace, &SocketAddr::new(*other, 5000).to_string());
        server.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        let client = udp(&from.namespace, &SocketAddr::new(*own, 0).to_string());
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut buffer = vec![0; 10_000];
        let heard = (0..25).find_map(|_| {
            let _ = client.send(&vec![7; length]);
            server.recv(&mut buffer).ok()
        });
        assert_eq!(heard, Some(length), "to {other}");
    }
}

#[test]
fn good_ways_are_found_to_be_good() {
    for backend in [VXLAN, HOST_GW, ROUTED] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let nodes = [1, 2].map(|it| switch.add_node(it, backend));
        let _following = meet(&nodes.each_ref());
        for node in &nodes {
            node.wait_for_tried(is_fine);
        }
    }
    // Of IPv4 alone.
    let Some(switch) = Switch::start_for(UDP) else { return };
    let families = crate::places::Families::V4;
    let nodes = [1, 2].map(|it| switch.add(it, Side::Near, families, UDP, false));
    let _following = meet(&nodes.each_ref());
    nodes.iter().for_each(|it| drop(it.wait_for_tried(|it| it.n_reached == 1)));
}

#[test]
fn a_way_that_somebody_blocks_is_said_to_be_blocked_until_it_is_open() {
    for (backend, rule, words) in [
        (VXLAN, "udp dport 8472 drop", "what is sent there in UDP port 8472 is not answered"),
        (
            HOST_GW,
            "ip saddr 10.244.1.0/24 drop; add rule inet test all ip6 saddr fd00::/8 drop",
            "knows only the addresses of machines",
        ),
    ] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let [one, two] = [1, 2].map(|it| switch.add_node(it, backend));
        let Some(()) = forbid(&two.namespace, rule) else { return };
        let _following = meet(&[&one, &two]);
        let tried = one.wait_for_tried(|it| it.is_cut_off);
        let why = &tried.unreached[0].why;
        assert!(tried.unreached.len() == 1 && tried.unreached[0].node == "node-2", "{tried:?}");
        assert!(why.contains(words) && why.contains("its machine at 192.0.2.2 answers"), "{why}");
        allow(&two.namespace);
        one.wait_for_tried(is_fine);
    }
}

/// A node that is switched off is not this one's fault.
#[test]
fn a_machine_that_is_gone_cuts_nobody_off() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, VXLAN));
    let mut routes = two.routes();
    let uplink = routes.link("uplink").unwrap().unwrap();
    let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
    routes.change_link(&uplink, down).unwrap();
    let _following = one.follow();
    one.set_ready_peers(&[&one, &two]);
    let tried = one.wait_for_tried(|it| !it.unreached.is_empty());
    assert!(!tried.is_cut_off, "{tried:?}");
    assert!(tried.unreached[0].why.contains("neither these nor its machine at 192.0.2.2 answer"));
    // The API has heard nothing of it for a while: nobody asks any more.
    one.set_peers(&[&one, &two]);
    one.wait_for_tried(|it| it.unreached.is_empty());
}

#[test]
fn packets_that_are_too_long_for_the_way_are_sent_no_more_while_that_is_so() {
    for (backend, longest) in [(VXLAN, 1400 - 70), (HOST_GW, 1400)] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let nodes = [1, 2].map(|it| switch.add_node(it, backend));
        // As a switch between them would drop them, without a word.
        for node in &nodes {
            let Some(()) = forbid(&node.namespace, "iifname uplink meta length > 1400 drop") else {
                return;
            };
        }
        let _following = meet(&nodes.each_ref());
        for node in &nodes {
            let tried = node.wait_for_tried(|it| it.repaired.len() == 2);
            assert!(tried.unreached.is_empty() && tried.n_reached == 2, "{tried:?}");
        }
        let found = mtu(&nodes[0], "10.244.2.0/24").unwrap();
        assert!(found <= longest + 20 && found > longest - 10, "{backend}: {found}");
        assert_eq!(mtu(&nodes[0], "10.244.1.0/24"), None);
        let pods = nodes.each_ref().map(|it| it.attach("a"));
        pods.iter().for_each(serve);
        for length in [1, 1300, 1380, 3000] {
            check_datagram(&pods[0], &pods[1], length);
            check_datagram(&pods[1], &pods[0], length);
        }
        nodes.iter().for_each(|it| allow(&it.namespace));
        nodes.iter().for_each(|it| drop(it.wait_for_tried(is_fine)));
        assert_eq!(mtu(&nodes[0], "10.244.2.0/24"), None);
        check(&pods[0], &pods[1]);
    }
}

/// What each frame has lost that went through it: the note that somebody has to fill in the checksum.
const CABLE: &str = r#"
import select, socket, sys
ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) for _ in range(2)]
for end, name in zip(ends, sys.argv[1:]):
    end.bind((name, 0))
print("ready", flush=True)
while True:
    for end in select.select(ends, [], [])[0]:
        frame, address = end.recvfrom(70000)
        if address[2] != socket.PACKET_OUTGOING:
            try:
                ends[1 - ends.index(end)].send(frame)
            except OSError:
                pass
"#;

struct Cable(Child);

impl Drop for Cable {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Cable {
    /// In place of the switch, between the ports of two nodes.
    fn lay(switch: &Switch, ports: [&str; 2]) -> Option<Self> {
        let mut routes = linux::netlink::route::RouteSocket::open_in(&switch.world.path()).unwrap();
        for port in ports {
            let link = routes.link(port).unwrap().unwrap();
            let alone = LinkChange { master: Some(0), ..LinkChange::default() };
            routes.change_link(&link, alone).unwrap();
        }
        let spawn = || {
            let mut python = Command::new("python3");
            python.args(["-c", CABLE]).args(ports).stdout(Stdio::piped()).spawn()
        };
        let mut cable = match switch.world.run(spawn).unwrap() {
            Ok(child) => Self(child),
            Err(err) => {
                println!("SKIPPED: python3 does not run: {err}");
                return None;
            }
        };
        let mut line = String::new();
        let output = cable.0.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(cable)
    }
}

#[test]
fn checksums_that_arrive_wrong_are_computed_before_the_tunnel() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let nodes = [1, 2].map(|it| switch.add_node(it, VXLAN));
    let Some(_cable) = Cable::lay(&switch, ["port1", "port2"]) else { return };
    let leaves = |node: &Member| {
        let ethtool = Ethtool::open_in(&node.namespace.path()).unwrap();
        ethtool.unwrap().leaves_checksums("flannel.1").unwrap()
    };
    let _following = meet(&nodes.each_ref());
    for node in &nodes {
        let tried = node.wait_for_tried(|it| it.n_reached == 2 && !it.repaired.is_empty());
        let is_it = |it: &String| it.contains("flannel.1 computes them itself now");
        assert!(tried.repaired.iter().any(is_it), "{tried:?}");
        assert!(!leaves(node));
    }
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    check_datagram(&pods[0], &pods[1], 100);
    check_datagram(&pods[1], &pods[0], 100);
    // Also when the link is made anew.
    let link = nodes[0].routes().link("flannel.1").unwrap().unwrap();
    nodes[0].routes().delete_link(&link).unwrap();
    let is_back = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let found = nodes[0].routes().link("flannel.1").unwrap();
        found.is_some_and(|it| it.index != link.index && it.is_up) && !leaves(&nodes[0])
    });
    assert!(is_back);
}

#[test]
fn a_node_that_is_known_by_the_address_of_another_link_is_told_so() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let [mut one, two] = [1, 2].map(|it| switch.add_node(it, VXLAN));
    one.routes().create_bridge("other", 0, 1500).unwrap();
    let other = one.routes().link("other").unwrap().unwrap();
    one.routes().add_address(&other, ip("203.0.113.1"), 24).unwrap();
    one.restart_at(&["203.0.113.1", "2001:db8::1"]);
    let _following = meet(&[&one, &two]);
    let tried = one.wait_for_tried(|it| !it.unreached.is_empty());
    let said: Vec<_> = tried.unreached.iter().map(|it| it.why.clone()).collect();
    let words = "packets to it leave from 192.0.2.1, and this node is known as 203.0.113.1";
    assert!(said.iter().any(|it| it.contains(words)), "{said:?}");
}

#[test]
fn who_is_not_said_to_work_is_not_asked() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let nodes = [1, 2, 3].map(|it| switch.add_node(it, VXLAN));
    let _following: Vec<_> = nodes.iter().map(Member::follow).collect();
    let [one, two, three] = &nodes;
    let asked = |_: &IpAddr| one.network().tried().n_reached;
    one.set(
        [two, three]
            .iter()
            .map(|it| network::Peer { is_ready: it.n == 2, ..it.as_peer() })
            .collect(),
    );
    two.set_peers(&[one, two, three]);
    three.set_peers(&[one, two, three]);
    one.wait_for_tried(|it| it.n_reached == 2);
    assert_eq!(asked(&ip("192.0.2.3")), 2);
}
