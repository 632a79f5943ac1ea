//! Packets that a process carries: it outlives the node's program, is there again when it was
//! killed, and believes nobody but peers.

use std::io::Write as _;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

use linux::process::{Pid, Signal};
use network::UDP;
use node_api::PodNetwork as _;
use node_api::network::Status;

use crate::places::{Families, Pod, ask};
use crate::switch::{Member, Side, Switch, check, introduce, serve};

/// So long only a broken network lets us wait.
const PATIENCE: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_millis(300);

/// The process that the others start; by hand it does nothing.
#[test]
#[ignore = "a process that other tests start"]
fn worker() {
    assert_eq!(packets::run(), ExitCode::SUCCESS);
}

/// Two nodes that know each other, each with a pod that serves.
fn start() -> Option<(Switch, [Member; 2], [Pod; 2])> {
    let switch = Switch::start_for(UDP)?;
    let nodes = [1, 2].map(|it| switch.add(it, Side::Near, Families::V4, UDP, false));
    introduce(&nodes.each_ref());
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    Some((switch, nodes, pods))
}

fn pid_of_worker(node: &Member) -> i32 {
    let text = std::fs::read(node.worker().directory.join("worker.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
    record["pid"].as_i64().unwrap().try_into().unwrap()
}

fn kill_worker(node: &Member) {
    let pidfd = linux::process::open(Pid::from_raw(pid_of_worker(node)).unwrap()).unwrap();
    linux::process::kill(std::os::fd::AsFd::as_fd(&pidfd), Signal::KILL).unwrap();
}

/// A connection between the pods, and the end that the server has.
fn connect(from: &Pod, to: &Pod) -> (TcpStream, TcpStream) {
    let listener = to.namespace.run(|| TcpListener::bind((to.address, 90)).unwrap()).unwrap();
    let client = from.namespace.run(|| TcpStream::connect((to.address, 90)).unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn check_connection((one, other): &mut (TcpStream, TcpStream)) {
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    one.write_all(b"still there").unwrap();
    let mut heard = [0; 11];
    std::io::Read::read_exact(other, &mut heard).unwrap();
    assert_eq!(&heard, b"still there");
}

#[test]
fn the_worker_outlives_the_node_and_is_found_again() {
    let Some((_switch, mut nodes, pods)) = start() else { return };
    let mut connection = connect(&pods[0], &pods[1]);
    let before = pid_of_worker(&nodes[0]);
    // Nobody says anything to the worker: the process that did is gone.
    for _ in 0..3 {
        nodes[0].open();
        assert_eq!(pid_of_worker(&nodes[0]), before);
        check_connection(&mut connection);
        let peers = nodes.each_ref().map(Member::as_peer);
        nodes[0].set(peers.into());
        assert_eq!(pid_of_worker(&nodes[0]), before);
        check(&pods[0], &pods[1]);
        check(&pods[1], &pods[0]);
    }
}

#[test]
fn a_worker_that_is_killed_is_there_again_and_connections_of_pods_live_through_it() {
    let Some((_switch, nodes, pods)) = start() else { return };
    let mut connection = connect(&pods[0], &pods[1]);
    let node = &nodes[0];
    let _following = node.follow();
    for _ in 0..3 {
        let before = pid_of_worker(node);
        kill_worker(node);
        let is_back = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            pid_of_worker(node) != before
        });
        assert!(is_back, "worker {before} was killed");
        check_connection(&mut connection);
        check(&pods[1], &pods[0]);
        let is_whole = |it: &Status| it.fault.is_none();
        let mut status = node.network().status();
        let whole = async { tokio::time::timeout(PATIENCE, status.wait_for(is_whole)).await };
        assert!(node.runtime.block_on(whole).is_ok());
    }
}

#[test]
fn without_peers_the_worker_ends() {
    let Some((_switch, nodes, _pods)) = start() else { return };
    let pid = Pid::from_raw(pid_of_worker(&nodes[0])).unwrap();
    let pidfd = linux::process::open(pid).unwrap();
    nodes[0].set_peers(&[&nodes[0]]);
    let status = linux::process::wait(std::os::fd::AsFd::as_fd(&pidfd)).unwrap();
    assert_eq!(status.code(), 0);
}

/// A packet of UDP from port 7 to port 5000 of the other, with three bytes in it.
fn packet(source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0];
    for address in [source, destination] {
        let IpAddr::V4(address) = address else { unreachable!() };
        packet.extend(address.octets());
    }
    let word = |it: &[u8]| u32::from(u16::from_be_bytes([it[0], it[1]]));
    let sum: u32 = packet.chunks(2).map(word).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0, 7, 0x13, 0x88, 0, 11, 0, 0, b'l', b'i', b'e']);
    packet
}

#[test]
fn only_peers_are_heard_and_only_what_is_theirs() {
    let Some((switch, nodes, pods)) = start() else { return };
    let to = ("192.0.2.1", packets::PORT);
    let (own, others) = (pods[0].address, pods[1].address);
    let listener = pods[0].namespace.run(|| UdpSocket::bind((own, 5000)).unwrap()).unwrap();
    listener.set_read_timeout(Some(SILENCE)).unwrap();
    let mut buffer = [0; 100];
    // Whoever is no peer, from the right port: the world, which is between the nodes.
    let stranger = switch.world.run(|| UdpSocket::bind(("192.0.2.100", packets::PORT)).unwrap());
    let stranger = stranger.unwrap();
    stranger.send_to(&packet(others, own), to).unwrap();
    assert!(listener.recv_from(&mut buffer).is_err());
    // A program on a peer that is not its worker.
    let program = nodes[1].namespace.run(|| UdpSocket::bind("192.0.2.2:0").unwrap()).unwrap();
    program.send_to(&packet(others, own), to).unwrap();
    assert!(listener.recv_from(&mut buffer).is_err());
    // The peer itself, about others' pods, and to others.
    kill_worker(&nodes[1]);
    let lying = || {
        (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            UdpSocket::bind(("192.0.2.2", packets::PORT)).ok()
        })
    };
    let liar = nodes[1].namespace.run(lying).unwrap().unwrap();
    let elsewhere: IpAddr = "10.244.9.9".parse().unwrap();
    for lie in [packet(elsewhere, own), packet(own, own), vec![0x45; 40], vec![], vec![6; 2000]] {
        liar.send_to(&lie, to).unwrap();
        assert!(listener.recv_from(&mut buffer).is_err(), "{lie:?}");
    }
    // All this harms nobody.
    liar.send_to(&packet(others, own), to).unwrap();
    let (length, sender) = listener.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], sender.ip()), (&b"lie"[..], others));
}

#[test]
fn whoever_asks_for_pods_that_nobody_has_is_told() {
    let Some((_switch, _nodes, pods)) = start() else { return };
    let answer = ask(&pods[0].namespace, "10.244.77.7:80").unwrap_err();
    assert_eq!(answer.kind(), std::io::ErrorKind::NetworkUnreachable);
}
