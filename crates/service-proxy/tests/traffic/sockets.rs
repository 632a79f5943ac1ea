//! What only mode `ebpf` does: sockets that talk to endpoints and are told of Services.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use apimachinery::ObjectKey;
use linux::bpf::{Hook, Program, attached};
use linux::cgroups::Hierarchies;
use linux::netlink::conntrack::Conntrack;
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use service_proxy::service_port::{Protocol, ServicePort};
use stdx::Family;

use super::nodes::{Nodes, addresses, tcp};
use super::{Case, at, change, cluster, everywhere, web};

fn at_sockets(check: impl Fn(Case)) {
    everywhere(|case| {
        if case.mode.name == "ebpf" {
            check(case);
        }
    });
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(it) => SocketAddr::new(it.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Whether packets to this address came by, to be translated.
fn has_packets(nodes: &Nodes, to: SocketAddr, protocol: Protocol) -> bool {
    let list = || {
        let family = Family::of(to.ip());
        Conntrack::open().unwrap().list(family, protocol.number()).unwrap()
    };
    nodes.node.run(list).unwrap().iter().any(|it| it.original.destination == to.ip())
}

#[test]
fn a_socket_talks_to_an_endpoint_and_is_told_that_it_is_the_service() {
    at_sockets(|case| {
        let Some((nodes, _backend)) = case.setup(2, case.both(&[0, 1])) else { return };
        for to in [case.at_cluster_ip(80), case.at_own(30080)] {
            let stream = nodes.node.run(|| TcpStream::connect(to)).unwrap().unwrap();
            assert_eq!(stream.peer_addr().unwrap(), to);
        }
        let to = case.at_cluster_ip(53);
        let connected = nodes.node.run(|| {
            let socket = UdpSocket::bind((addresses::gateway(case.family), 0)).unwrap();
            socket.connect(to).unwrap();
            socket
        });
        let connected = connected.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), to);
        connected.send(b"?").unwrap();
        assert_eq!(connected.recv_from(&mut [0; 64]).unwrap().1, to);
        assert!(!has_packets(&nodes, case.at_cluster_ip(80), Protocol::Tcp));
        assert!(!has_packets(&nodes, case.at_own(30080), Protocol::Tcp));
        assert!(!has_packets(&nodes, to, Protocol::Udp));
        // What comes from elsewhere comes as packets.
        tcp(&nodes.client, case.at_cluster_ip(80)).unwrap();
        assert!(has_packets(&nodes, case.at_cluster_ip(80), Protocol::Tcp));
    });
}

#[test]
fn answers_to_a_socket_without_a_peer_come_from_the_service() {
    at_sockets(|case| {
        let Some((nodes, _backend)) = case.setup(2, case.both(&[0, 1])) else { return };
        let to = case.at_cluster_ip(53);
        // A socket of IPv6 speaks IPv4, too.
        for (own, to) in
            [(super::nodes::unspecified(to), to), (Ipv6Addr::UNSPECIFIED.into(), mapped(to))]
        {
            let ask = || {
                let socket = UdpSocket::bind((own, 0)).unwrap();
                let answers = (0..20).map(|_| {
                    socket.send_to(b"?", to).unwrap();
                    let mut buffer = [0; 64];
                    let (length, from) = socket.recv_from(&mut buffer).unwrap();
                    assert_eq!(from, to);
                    String::from_utf8_lossy(&buffer[..length]).into_owned()
                });
                answers.collect::<std::collections::BTreeSet<_>>()
            };
            let answers = nodes.node.run(ask).unwrap();
            assert_eq!(answers, [0, 1].map(|it| case.masqueraded(it)).into());
        }
        assert!(!has_packets(&nodes, to, Protocol::Udp));
    });
}

#[test]
fn a_socket_that_is_bound_to_loopback_is_served_by_packets() {
    at_sockets(|case| {
        // Of IPv6 the kernel lets nothing from loopback leave.
        if case.family == Family::V6 {
            return;
        }
        let Some((nodes, _backend)) = case.setup(1, case.both(&[0])) else { return };
        for to in [case.at_own(30053), mapped(case.at_own(30053))] {
            let ask = || {
                let socket = UdpSocket::bind((to.ip(), 0)).unwrap();
                socket.connect(to).unwrap();
                socket.send(b"?").unwrap();
                let mut buffer = [0; 64];
                let length = socket.recv(&mut buffer).unwrap();
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            };
            assert_eq!(nodes.node.run(ask).unwrap(), case.masqueraded(0));
        }
        assert!(has_packets(&nodes, case.at_own(30053), Protocol::Udp));
    });
}

#[test]
fn an_address_that_the_node_gets_serves_node_ports() {
    at_sockets(|case| {
        let Some((nodes, mut backend)) = case.setup(1, case.both(&[0])) else { return };
        let address = addresses::external(case.family, 9);
        let words = format!("addr add {address}/{} dev lo", case.family.bits());
        let add = || Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(nodes.node.run(add).unwrap().success());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let disturbed = async {
            let patience = std::time::Duration::from_secs(1);
            tokio::time::timeout(patience, backend.disturbed()).await
        };
        assert!(runtime.block_on(disturbed).is_err(), "nobody touched a rule");
        let connect = || TcpStream::connect((address, 30080)).unwrap().peer_addr().unwrap();
        assert_eq!(nodes.node.run(connect).unwrap(), at(address, 30080));
        assert!(!has_packets(&nodes, at(address, 30080), Protocol::Tcp));
    });
}

/// Of all programs of the cluster at the root of all cgroups.
fn programs(nodes: &Nodes, cluster: ClusterId) -> Vec<u32> {
    let hierarchies = Hierarchies::detect().unwrap();
    let root = File::open(&hierarchies.unified().unwrap().mount).unwrap();
    let node = nodes.node.run(linux::network_namespace::cookie).unwrap().unwrap();
    let mut found = Vec::new();
    for hook in [Hook::Connect4, Hook::Connect6, Hook::ReceiveMessage4, Hook::PeerName6] {
        found.extend(attached(&root, hook).unwrap().into_iter().filter(|id| {
            let program = Program::by_id(*id).unwrap();
            let name = program.map(|it| it.describe().unwrap().name);
            name == Some(format!("{cluster}{node:07x}"))
        }));
    }
    found
}

#[test]
fn a_restart_finds_its_programs_and_maps_and_growth_forgets_no_socket() {
    at_sockets(|case| {
        let Some((nodes, mut backend)) = case.setup(3, case.both(&[0, 1, 2])) else { return };
        let to = case.at_cluster_ip(80);
        let connect = || nodes.node.run(|| TcpStream::connect(to)).unwrap().unwrap();
        let before = connect();
        let found = programs(&nodes, cluster());
        assert_eq!(found.len(), 4);
        drop(backend);
        // With nobody there, everything goes on.
        assert_eq!((before.peer_addr().unwrap(), connect().peer_addr().unwrap()), (to, to));
        backend = case.open(&nodes);
        backend.adopt().unwrap();
        backend.set(&web(), case.both(&[0, 1, 2]));
        backend.resync().unwrap();
        assert_eq!(programs(&nodes, cluster()), found);
        // More than there is room for.
        for number in 0..1500u16 {
            let cluster_ip = match case.family {
                Family::V4 => IpAddr::from([10, 97, (number >> 8) as u8, number as u8]),
                Family::V6 => Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 1, number).into(),
            };
            let port = case.port(Protocol::Tcp, &[0], &[0]);
            let port = ServicePort { cluster_ip, node_port: None, ..port };
            backend.set(&ObjectKey::new("default", format!("many-{number}")), vec![port]);
        }
        backend.apply().unwrap();
        assert_ne!(programs(&nodes, cluster()), found, "with larger maps");
        assert_eq!((before.peer_addr().unwrap(), connect().peer_addr().unwrap()), (to, to));
        nodes.node.run(|| service_proxy::purge(cluster())).unwrap().unwrap();
        assert_eq!(programs(&nodes, cluster()), [0; 0]);
    });
}

#[test]
fn sockets_in_another_namespace_are_left_alone() {
    at_sockets(|case| {
        let Some((nodes, _backend)) = case.setup(1, case.both(&[0])) else { return };
        let Ok(elsewhere) = NetworkNamespace::create() else { return };
        let connect = || {
            linux::loopback::bring_up().unwrap();
            TcpStream::connect(case.at_cluster_ip(80)).map(drop)
        };
        // Its own network is all it knows: there is no way to the address there.
        assert!(elsewhere.run(connect).unwrap().is_err());
        assert!(tcp(&nodes.node, case.at_cluster_ip(80)).is_ok());
    });
}

const PODS: &str = "xebec-5eedf00d/pods";

fn path_of(cgroup: &str) -> PathBuf {
    Hierarchies::detect().unwrap().unified().unwrap().mount.join(cgroup)
}

/// Runs it in a pod: in its network namespace, and in the cgroup of pods.
fn in_pod(nodes: &Nodes, pod: usize, script: &str) -> Child {
    let processes = path_of(PODS).join("cgroup.procs");
    let script = format!("echo $$ > {} && {script}", processes.display());
    let spawn = || {
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    nodes.pods[pod].run(spawn).unwrap()
}

#[test]
fn a_pod_reaches_its_own_service_without_a_packet_and_loses_what_is_connected_to_who_is_gone() {
    at_sockets(|case| {
        let cluster: ClusterId = "5eedf00d".parse().unwrap();
        let Some(nodes) = Nodes::new(2) else { return };
        let mut backend = case.open_as(&nodes, cluster);
        backend.set_pods_cgroup(PODS);
        backend.set(&web(), case.both(&[0]));
        backend.resync().unwrap();
        let (ip, own) = (case.cluster_ip(), addresses::pod(case.family, 0));
        let script = format!("exec 3<>/dev/tcp/{ip}/80 && printf '?' >&3 && head -n 1 <&3");
        let output = in_pod(&nodes, 0, &script).wait_with_output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(answer.trim(), case.seen(0, own), "{output:?}");
        assert!(!has_packets(&nodes, case.at_cluster_ip(80), Protocol::Tcp));

        let ask = "printf '?' >&3 && dd bs=64 count=1 status=none <&3 && echo";
        let wait = "LC_ALL=C timeout 60 dd bs=64 count=1 status=none <&3";
        let script = format!("exec 3<>/dev/udp/{ip}/53 && {ask} && {wait}");
        let mut waiting = in_pod(&nodes, 1, &script);
        let mut answer = String::new();
        let mut stdout = BufReader::new(waiting.stdout.take().unwrap());
        stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), case.seen(0, addresses::pod(case.family, 1)));
        change(&mut *backend, case.both(&[1]));
        let mut complaint = String::new();
        waiting.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert!(!waiting.wait().unwrap().success());
        assert!(complaint.contains("Software caused connection abort"), "{complaint}");
        let purge = || service_proxy::purge(cluster);
        nodes.node.run(purge).unwrap().unwrap();
        assert!(!path_of(PODS).exists(), "nothing is left behind");
        std::fs::remove_dir(path_of(PODS).parent().unwrap()).unwrap();
    });
}
