//! Real packets through the rules: a node, pods and a client in network namespaces of their own.
//!
//! Every rule is checked for both families on every back end: see [`everywhere`].
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod families;
mod listing;
mod modes;
mod node_ports;
mod nodes;
mod restarts;
mod sockets;
mod userspace;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use service_proxy::backends::ebpf::SocketError;
use service_proxy::backends::{self, Backend, Error, Mode, Networks};
use service_proxy::service_port::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};
use stdx::{Cidr, Family};

use self::nodes::{FAMILIES, Flow, Nodes, TCP_PORT, UDP_PORT, addresses, is_silent, tcp, udp};

const REFUSED: Result<String, ErrorKind> = Err(ErrorKind::ConnectionRefused);

/// A datagram that this very host sends may be refused by the call that sends it.
fn is_refused(answer: &Result<String, ErrorKind>) -> bool {
    *answer == REFUSED || *answer == Err(ErrorKind::PermissionDenied)
}

fn cluster() -> ClusterId {
    "00c0ffee".parse().unwrap()
}

fn web() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn networks() -> Networks {
    let ranges = |texts: [&str; 2]| texts.map(|it| it.parse().unwrap()).into();
    Networks {
        cluster: ranges(["10.244.0.0/16", "fd00:10:244::/56"]),
        services: ranges(["10.96.0.0/12", "fd00:10:96::/108"]),
        node_ports: None,
        worker: None,
    }
}

/// One back end and one family of addresses.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: &'static Mode,
    family: Family,
}

/// Those that this kernel has what they need for; says which it has not.
fn modes() -> impl Iterator<Item = &'static Mode> {
    backends::ALL.iter().copied().filter(|mode| {
        let open = || NetworkNamespace::create()?.run(|| (mode.open)(cluster(), &networks()));
        match open() {
            Ok(Err(err @ Error::Sockets(SocketError::Missing { .. }))) => {
                eprintln!("SKIPPED: {}", stdx::error_chain(&err));
                false
            }
            _ => true,
        }
    })
}

/// Runs the check for each back end and each family.
fn everywhere(check: impl Fn(Case)) {
    for mode in modes() {
        for family in FAMILIES {
            eprintln!("{mode:?} {family}");
            check(Case { mode, family });
        }
    }
}

impl Case {
    fn open(self, nodes: &Nodes) -> Box<dyn Backend> {
        self.open_as(nodes, cluster())
    }

    fn open_as(self, nodes: &Nodes, cluster: ClusterId) -> Box<dyn Backend> {
        self.open_in(nodes, cluster, &networks())
    }

    fn open_in(self, nodes: &Nodes, cluster: ClusterId, networks: &Networks) -> Box<dyn Backend> {
        let networks = Networks { worker: Some(nodes.worker(cluster)), ..networks.clone() };
        nodes.node.run(|| (self.mode.open)(cluster, &networks)).unwrap().unwrap()
    }

    /// A node with so many pods, and the Service.
    fn setup(self, n_pods: usize, ports: Vec<ServicePort>) -> Option<(Nodes, Box<dyn Backend>)> {
        let nodes = Nodes::new(n_pods)?;
        let mut backend = self.open(&nodes);
        backend.set(&web(), ports);
        backend.resync().unwrap();
        Some((nodes, backend))
    }

    fn cluster_ip(self) -> IpAddr {
        addresses::service(self.family, 10)
    }

    fn at_cluster_ip(self, port: u16) -> SocketAddr {
        at(self.cluster_ip(), port)
    }

    fn at_node(self, port: u16) -> SocketAddr {
        at(addresses::node(self.family), port)
    }

    /// By which the node reaches itself: of IPv6 the kernel lets nothing from loopback leave.
    fn at_own(self, port: u16) -> SocketAddr {
        let address = match self.family {
            Family::V4 => addresses::loopback(self.family),
            Family::V6 => addresses::gateway(self.family),
        };
        at(address, port)
    }

    /// What cannot hold where a process carries connections: it makes others to the endpoints, which
    /// have the node's address, and forgets flows of datagrams after a quarter of a second of silence.
    fn is_carried(self) -> bool {
        self.mode.name == "userspace"
    }

    /// The answer of a pod that sees this client, if it can.
    fn seen(self, pod: usize, from: IpAddr) -> String {
        let from = if self.is_carried() { addresses::gateway(self.family) } else { from };
        format!("pod {pod} from {from}")
    }

    /// The answer of a pod that sees the node.
    fn masqueraded(self, pod: usize) -> String {
        self.seen(pod, addresses::gateway(self.family))
    }

    /// Port 80 of the Service over TCP, 53 over UDP, with node port 30080 or 30053, at these pods.
    /// Those in `local` are on this node.
    fn port(self, protocol: Protocol, pods: &[usize], local: &[usize]) -> ServicePort {
        let (port, target, node_port) = match protocol {
            Protocol::Udp => (53, UDP_PORT, 30053),
            _ => (80, TCP_PORT, 30080),
        };
        let endpoints = |pods: &[usize]| {
            let endpoint =
                |it: &usize| Endpoint { address: addresses::pod(self.family, *it), port: target };
            pods.iter().map(endpoint).collect()
        };
        ServicePort {
            name: String::new(),
            cluster_ip: self.cluster_ip(),
            protocol,
            port,
            node_port: Some(node_port),
            external_ips: BTreeSet::new(),
            load_balancer_ips: BTreeSet::new(),
            source_ranges: None,
            affinity: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            endpoints: Endpoints {
                cluster: endpoints(pods),
                local: endpoints(local),
                serving: BTreeSet::new(),
            },
        }
    }

    fn both(self, pods: &[usize]) -> Vec<ServicePort> {
        [Protocol::Tcp, Protocol::Udp].map(|it| self.port(it, pods, pods)).into()
    }
}

fn change(backend: &mut dyn Backend, ports: Vec<ServicePort>) {
    backend.set(&web(), ports);
    backend.apply().unwrap();
}

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

type Ask = fn(&NetworkNamespace, SocketAddr) -> Result<String, ErrorKind>;

/// Asks until all have answered that should, which random choice takes a while to do; nobody else
/// may answer.
fn check_all(ask: Ask, from: &NetworkNamespace, to: SocketAddr, expected: &[String]) {
    let expected: BTreeSet<_> = expected.iter().cloned().collect();
    let mut answers = BTreeSet::new();
    for _ in 0..200 {
        let answer = ask(from, to).unwrap_or_else(|err| panic!("{to}: {err}"));
        assert!(expected.contains(&answer), "{to}: {answer}");
        answers.insert(answer);
        if answers == expected {
            return;
        }
    }
    panic!("{to}: only {answers:?} answered");
}

#[test]
fn a_cluster_ip_answers_from_all_endpoints() {
    everywhere(|case| {
        let Some((nodes, _backend)) = case.setup(3, case.both(&[1, 2])) else { return };
        for (ask, port) in [(tcp as Ask, 80), (udp as Ask, 53)] {
            let to = case.at_cluster_ip(port);
            let pod = addresses::pod(case.family, 0);
            check_all(ask, &nodes.pods[0], to, &[1, 2].map(|it| case.seen(it, pod)));
            // The node and hosts outside are masqueraded, so that the answer comes back this way.
            let masqueraded = [1, 2].map(|it| case.masqueraded(it));
            check_all(ask, &nodes.node, to, &masqueraded);
            check_all(ask, &nodes.client, to, &masqueraded);
        }
    });
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    everywhere(|case| {
        let Some((nodes, _backend)) = case.setup(1, case.both(&[0])) else { return };
        let expected = Ok(case.masqueraded(0));
        assert_eq!(tcp(&nodes.pods[0], case.at_cluster_ip(80)), expected);
        assert_eq!(udp(&nodes.pods[0], case.at_cluster_ip(53)), expected);
        assert_eq!(tcp(&nodes.pods[0], case.at_node(30080)), expected);
    });
}

#[test]
fn a_node_port_answers_on_every_address_of_the_node() {
    everywhere(|case| {
        let Some((nodes, _backend)) = case.setup(2, case.both(&[0, 1])) else { return };
        let expected = [0, 1].map(|it| case.masqueraded(it));
        let gateway = addresses::gateway(case.family);
        for (ask, port) in [(tcp as Ask, 30080), (udp as Ask, 30053)] {
            check_all(ask, &nodes.client, case.at_node(port), &expected);
            check_all(ask, &nodes.node, case.at_node(port), &expected);
            check_all(ask, &nodes.node, at(gateway, port), &expected);
            check_all(ask, &nodes.node, case.at_own(port), &expected);
            check_all(ask, &nodes.pods[0], at(gateway, port), &expected);
        }
        if case.family == Family::V6 {
            // Refused at once rather than lost.
            assert_eq!(tcp(&nodes.node, at(addresses::loopback(case.family), 30080)), REFUSED);
        }
        // The port alone does not make a node port.
        assert_eq!(tcp(&nodes.node, at(addresses::client(case.family), 30080)), REFUSED);
    });
}

#[test]
fn external_and_load_balancer_addresses_are_served() {
    everywhere(|case| {
        let [open_to_all, guarded] = [1, 2].map(|it| addresses::external(case.family, it));
        let [of_client, of_others] = match case.family {
            Family::V4 => ["192.0.2.0/24", "192.0.3.0/24"],
            Family::V6 => ["2001:db8::/64", "2001:db8:0:1::/64"],
        };
        let with_ranges = |ranges: Option<&[&str]>| {
            let parse = |it: &&str| it.parse::<Cidr>().unwrap();
            ServicePort {
                external_ips: [open_to_all].into(),
                load_balancer_ips: [guarded].into(),
                source_ranges: ranges.map(|it| it.iter().map(parse).collect()),
                ..case.port(Protocol::Tcp, &[0], &[0])
            }
        };
        let Some((nodes, mut backend)) = case.setup(1, vec![with_ranges(None)]) else { return };
        let expected = Ok(case.masqueraded(0));
        assert_eq!(tcp(&nodes.client, at(open_to_all, 80)), expected);
        assert_eq!(tcp(&nodes.client, at(guarded, 80)), expected);
        change(&mut *backend, vec![with_ranges(Some(&[of_client]))]);
        assert_eq!(tcp(&nodes.client, at(guarded, 80)), expected);
        change(&mut *backend, vec![with_ranges(Some(&[of_others]))]);
        assert!(is_silent(&nodes.client, at(guarded, 80)), "its address is in no range");
        assert_eq!(tcp(&nodes.client, at(open_to_all, 80)), expected, "ranges are the balancer's");
        change(&mut *backend, vec![with_ranges(Some(&[]))]);
        assert!(is_silent(&nodes.client, at(guarded, 80)), "ranges of the other family");
    });
}

#[test]
fn policy_local_keeps_the_source_address_and_stays_on_the_node() {
    everywhere(|case| {
        let local = |local: &[usize]| ServicePort {
            external_policy: TrafficPolicy::Local,
            ..case.port(Protocol::Tcp, &[0, 1], local)
        };
        let Some((nodes, mut backend)) = case.setup(3, vec![local(&[1])]) else { return };
        let node_port = case.at_node(30080);
        for _ in 0..10 {
            let expected = case.seen(1, addresses::client(case.family));
            assert_eq!(tcp(&nodes.client, node_port), Ok(expected));
        }
        // Clients in the cluster have all endpoints.
        let any = [0, 1].map(|it| case.masqueraded(it));
        check_all(tcp, &nodes.node, case.at_own(30080), &any);
        check_all(tcp, &nodes.node, node_port, &any);
        let pod = addresses::pod(case.family, 2);
        check_all(tcp, &nodes.pods[2], node_port, &[0, 1].map(|it| case.seen(it, pod)));
        change(&mut *backend, vec![local(&[])]);
        assert!(is_silent(&nodes.client, node_port), "no endpoint on this node");
        check_all(tcp, &nodes.node, node_port, &any);
        check_all(tcp, &nodes.client, case.at_cluster_ip(80), &any);
    });
}

#[test]
fn internal_policy_local_uses_endpoints_of_the_node() {
    everywhere(|case| {
        let local = |local: &[usize]| ServicePort {
            internal_policy: TrafficPolicy::Local,
            node_port: None,
            ..case.port(Protocol::Tcp, &[0, 1], local)
        };
        let Some((nodes, mut backend)) = case.setup(3, vec![local(&[1])]) else { return };
        for _ in 0..10 {
            let expected = case.seen(1, addresses::pod(case.family, 2));
            assert_eq!(tcp(&nodes.pods[2], case.at_cluster_ip(80)), Ok(expected));
        }
        change(&mut *backend, vec![local(&[])]);
        assert!(is_silent(&nodes.pods[2], case.at_cluster_ip(80)));
    });
}

#[test]
fn without_endpoints_every_frontend_refuses_at_once() {
    everywhere(|case| {
        let external = addresses::external(case.family, 1);
        let with_external = |it: ServicePort| ServicePort { external_ips: [external].into(), ..it };
        let ports: Vec<_> = case.both(&[]).into_iter().map(with_external).collect();
        let Some((nodes, mut backend)) = case.setup(1, ports) else { return };
        // More often than the kernel would send ICMP in a second.
        for _ in 0..20 {
            assert_eq!(tcp(&nodes.pods[0], case.at_cluster_ip(80)), REFUSED);
        }
        let no_such = addresses::service(case.family, 77);
        for (who, from) in
            [("pod", &nodes.pods[0]), ("node", &nodes.node), ("client", &nodes.client)]
        {
            assert_eq!(tcp(from, case.at_cluster_ip(80)), REFUSED);
            assert_eq!(tcp(from, at(external, 80)), REFUSED);
            assert_eq!(tcp(from, case.at_node(30080)), REFUSED);
            for to in [case.at_cluster_ip(53), case.at_node(30053)] {
                let answer = udp(from, to);
                assert!(is_refused(&answer), "{who} to {to}: {answer:?}");
            }
            assert_eq!(tcp(from, case.at_cluster_ip(81)), REFUSED, "no such port");
            assert_eq!(tcp(from, at(no_such, 80)), REFUSED, "no such ClusterIP");
        }
        assert_eq!(tcp(&nodes.node, case.at_own(30080)), REFUSED);
        // And with the first endpoint they answer.
        change(&mut *backend, case.both(&[0]));
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
        assert_eq!(tcp(&nodes.pods[0], case.at_cluster_ip(81)), REFUSED);
    });
}

#[test]
fn with_affinity_a_client_stays_with_its_endpoint_while_it_is_one() {
    everywhere(|case| {
        let sticky = |pods: &[usize]| -> Vec<ServicePort> {
            let affinity = Some(Duration::from_secs(600));
            case.both(pods).into_iter().map(|it| ServicePort { affinity, ..it }).collect()
        };
        let Some((nodes, mut backend)) = case.setup(4, sticky(&[0, 1, 2])) else { return };
        let number = |answer: &str| -> usize { answer[4..5].parse().unwrap() };
        for (ask, from, to) in [
            (tcp as Ask, &nodes.pods[3], case.at_cluster_ip(80)),
            (udp as Ask, &nodes.pods[3], case.at_cluster_ip(53)),
            (tcp as Ask, &nodes.client, case.at_node(30080)),
            (tcp as Ask, &nodes.node, case.at_own(30080)),
        ] {
            change(&mut *backend, sticky(&[0, 1, 2]));
            let mut first = ask(from, to).unwrap();
            for _ in 0..20 {
                assert_eq!(ask(from, to).unwrap(), first);
            }
            // Others come and go, and it stays; its own goes, and it moves once.
            let rest: Vec<_> = [0, 1, 2].into_iter().filter(|it| *it != number(&first)).collect();
            change(&mut *backend, sticky(&[number(&first), rest[0]]));
            assert_eq!(ask(from, to).unwrap(), first);
            change(&mut *backend, sticky(&rest));
            first = ask(from, to).unwrap();
            assert!(rest.contains(&number(&first)));
            for _ in 0..20 {
                assert_eq!(ask(from, to).unwrap(), first);
            }
        }
    });
}

#[test]
fn affinity_ends_when_the_client_was_silent_for_its_time() {
    everywhere(|case| {
        let affinity = Some(Duration::from_secs(1));
        let port = ServicePort { affinity, ..case.port(Protocol::Tcp, &[0, 1, 2], &[0, 1, 2]) };
        let Some((nodes, _backend)) = case.setup(4, vec![port]) else { return };
        let ask = || tcp(&nodes.pods[3], case.at_cluster_ip(80)).unwrap();
        let first = ask();
        // Each time another of three is as likely as not to be drawn twice over.
        let has_moved = (0..12).any(|_| {
            std::thread::sleep(Duration::from_millis(2100));
            ask() != first
        });
        assert!(has_moved);
    });
}

#[test]
fn a_udp_flow_stays_with_an_endpoint_that_still_serves() {
    everywhere(|case| {
        if case.is_carried() {
            return;
        }
        let Some((nodes, mut backend)) = case.setup(2, case.both(&[0])) else { return };
        let flow = Flow::open(&nodes.client, case.at_node(30053));
        assert_eq!(flow.ask(), Ok(case.masqueraded(0)));
        // It terminates, and another is there: only new flows go to that one.
        let serving = case.port(Protocol::Udp, &[0], &[]).endpoints.cluster;
        let mut port = case.port(Protocol::Udp, &[1], &[1]);
        port.endpoints.serving = serving;
        change(&mut *backend, vec![port]);
        assert_eq!(flow.ask(), Ok(case.masqueraded(0)));
        assert_eq!(udp(&nodes.client, case.at_node(30053)), Ok(case.masqueraded(1)));
    });
}

#[test]
fn many_endpoints_are_chosen_alike() {
    everywhere(|case| {
        // Not a power of two, and more than half of one.
        let Some((nodes, _backend)) = case.setup(6, case.both(&[0, 1, 2, 3, 4])) else { return };
        let mut counts = [0; 5];
        for _ in 0..500 {
            let answer = tcp(&nodes.pods[5], case.at_cluster_ip(80)).unwrap();
            counts[answer[4..5].parse::<usize>().unwrap()] += 1;
        }
        // A hundred each, with a deviation of nine: this is six of them.
        assert!(counts.iter().all(|it| (46..154).contains(it)), "{counts:?}");
    });
}

#[test]
fn a_udp_flow_moves_on_when_its_endpoint_goes() {
    everywhere(|case| {
        let Some((nodes, mut backend)) = case.setup(2, case.both(&[0])) else { return };
        let flows: Vec<_> = [
            (&nodes.pods[1], case.at_cluster_ip(53)),
            (&nodes.node, case.at_cluster_ip(53)),
            (&nodes.client, case.at_node(30053)),
            (&nodes.node, case.at_own(30053)),
        ]
        .into_iter()
        .map(|(from, to)| Flow::open(from, to))
        .collect();
        let check = |expected: &str| {
            for flow in &flows {
                // A refusal that came before may still have to be heard.
                let mut answer = flow.ask();
                for _ in 0..3 {
                    answer = if is_refused(&answer) { flow.ask() } else { answer };
                }
                assert_eq!(answer.as_deref().map(|it| &it[..5]), Ok(expected), "{answer:?}");
            }
        };
        check("pod 0");
        change(&mut *backend, case.both(&[0, 1]));
        if !case.is_carried() {
            check("pod 0");
        }
        change(&mut *backend, case.both(&[1]));
        check("pod 1");
        change(&mut *backend, case.both(&[]));
        for (flow, number) in flows.iter().zip(1..) {
            let answer = flow.ask();
            assert!(is_refused(&answer), "{number}: {answer:?}");
        }
        change(&mut *backend, case.both(&[0]));
        check("pod 0");
    });
}
