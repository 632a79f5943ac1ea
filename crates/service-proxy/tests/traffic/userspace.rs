//! What is the business of mode userspace alone: its worker, which outlives the proxy, is replaced
//! when it is killed, and serves nobody but through a Service.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{Nftables, TableId};
use linux::process::{Pid, Signal};
use service_proxy::backends::Backend;

use super::nodes::{Connection, Nodes, tcp, udp};
use super::{Case, REFUSED, at, change, cluster, everywhere, is_refused, web};

/// The process that the others start; by hand it does nothing.
#[test]
#[ignore = "a process that other tests start"]
fn worker() {
    assert_eq!(packets::run(), ExitCode::SUCCESS);
}

fn carried(check: impl Fn(Case)) {
    everywhere(|case| {
        if case.is_carried() {
            check(case);
        }
    });
}

fn pid(nodes: &Nodes) -> i32 {
    let record = nodes.worker(cluster()).directory.join("worker.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    record["pid"].as_i64().unwrap().try_into().unwrap()
}

fn kill(nodes: &Nodes) {
    let pidfd = linux::process::open(Pid::from_raw(pid(nodes)).unwrap()).unwrap();
    linux::process::kill(pidfd.as_fd(), Signal::KILL).unwrap();
}

#[test]
fn a_worker_that_was_killed_is_told_and_another_serves() {
    carried(|case| {
        let Some((nodes, mut backend)) = case.setup(1, case.both(&[0])) else { return };
        let mut broken = Connection::open(&nodes.client, case.at_node(30080)).unwrap();
        assert_eq!(broken.ask(), Ok(case.masqueraded(0)));
        let before = pid(&nodes);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let disturbed = backend.disturbed();
            kill(&nodes);
            disturbed.await.unwrap();
        });
        assert!(broken.ask().is_err(), "what it carried breaks");
        backend.resync().unwrap();
        assert_ne!(pid(&nodes), before);
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
        assert_eq!(udp(&nodes.pods[0], case.at_cluster_ip(53)), Ok(case.masqueraded(0)));
    });
}

#[test]
fn a_start_finds_the_worker_and_its_ports_as_they_are() {
    carried(|case| {
        let Some((nodes, backend)) = case.setup(2, case.both(&[0])) else { return };
        let (before, doors) = (pid(&nodes), doors(&nodes, case));
        let mut connection = Connection::open(&nodes.client, case.at_cluster_ip(80)).unwrap();
        drop(backend);
        assert_eq!(connection.ask(), Ok(case.masqueraded(0)), "the proxy is gone");
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
        let mut backend = case.open(&nodes);
        backend.adopt().unwrap();
        backend.set(&web(), case.both(&[1]));
        backend.resync().unwrap();
        assert_eq!((pid(&nodes), self::doors(&nodes, case)), (before, doors));
        assert_eq!(connection.ask(), Ok(case.masqueraded(0)));
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(1)));
        // Nothing is left to serve: the ports are closed, the connection goes on.
        change(&mut *backend, Vec::new());
        assert_eq!(self::doors(&nodes, case), []);
        assert_eq!(connection.ask(), Ok(case.masqueraded(0)));
    });
}

/// Where the worker listens.
fn doors(nodes: &Nodes, case: Case) -> Vec<SocketAddr> {
    let id = TableId::new(table_family(case.family), cluster().table("doors"));
    let observed = nodes.node.run(|| Nftables::open(id).unwrap().observe().unwrap()).unwrap();
    let observed = observed.unwrap();
    let doors = observed.sets["doors"].elements.keys().map(|key| {
        let bytes = key.start.as_bytes();
        let length = usize::from(case.family.bits() / 8);
        let address = match case.family {
            stdx::Family::V4 => <[u8; 4]>::try_from(&bytes[4..8]).unwrap().into(),
            stdx::Family::V6 => <[u8; 16]>::try_from(&bytes[4..20]).unwrap().into(),
        };
        at(address, u16::from_be_bytes([bytes[4 + length], bytes[5 + length]]))
    });
    doors.collect()
}

#[test]
fn nobody_reaches_a_port_of_the_worker_but_by_the_service() {
    carried(|case| {
        let Some((nodes, _backend)) = case.setup(1, case.both(&[0])) else { return };
        let doors = doors(&nodes, case);
        assert_eq!(doors.len(), 2);
        for door in doors {
            for from in [&nodes.client, &nodes.pods[0], &nodes.node] {
                assert_eq!(tcp(from, door), REFUSED, "{door}");
                let answer = udp(from, door);
                assert!(is_refused(&answer), "{door}: {answer:?}");
            }
        }
    });
}

#[test]
fn a_guard_that_somebody_removed_is_there_again() {
    carried(|case| {
        let Some((nodes, mut backend)) = case.setup(1, case.both(&[0])) else { return };
        let id = TableId::new(table_family(case.family), cluster().table("doors"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let disturbed = backend.disturbed();
            nodes.node.run(|| Nftables::open(id).unwrap().purge().unwrap()).unwrap();
            disturbed.await.unwrap();
        });
        backend.resync().unwrap();
        for door in doors(&nodes, case) {
            assert_eq!(tcp(&nodes.client, door), REFUSED, "{door}");
        }
    });
}

#[test]
fn where_another_mode_serves_the_worker_ends_with_its_last_connection() {
    carried(|case| {
        let Some((nodes, backend)) = case.setup(1, case.both(&[0])) else { return };
        let mut connection = Connection::open(&nodes.client, case.at_node(30080)).unwrap();
        let pidfd = linux::process::open(Pid::from_raw(pid(&nodes)).unwrap()).unwrap();
        drop::<Box<dyn Backend>>(backend);
        service_proxy::backends::userspace::retire(&nodes.worker(cluster())).unwrap();
        assert_eq!(connection.ask(), Ok(case.masqueraded(0)));
        drop(connection);
        let status = linux::process::wait(pidfd.as_fd()).unwrap();
        assert_eq!(status.code(), 0);
    });
}
