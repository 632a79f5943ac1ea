//! When there is a worker, and which.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use linux::process::Pid;
use linux::seqpacket::Connection;
use packets::{Listening, Part, Portal, Protocol, Tunnel, Worker};
use stdx::Cidr;

use crate::bed::{Bed, lives};

fn portal(id: &str) -> Portal {
    Portal {
        id: id.to_owned(),
        address: Ipv4Addr::LOCALHOST.into(),
        protocol: Protocol::Tcp,
        endpoints: Vec::new(),
        serving: Vec::new(),
        affinity: None,
    }
}

pub(crate) fn a_worker_is_found_again_and_one_that_was_killed_is_told_and_replaced() {
    let Some(bed) = Bed::make() else { return };
    assert!(Worker::find(&bed.place).unwrap().is_none());
    let port = bed.worker().open_portal(&portal("one")).unwrap();
    let before = bed.pid();
    // The node's program is gone, and a new one comes.
    let mut worker = bed.worker();
    assert_eq!((bed.pid(), worker.open_portal(&portal("one")).unwrap()), (before, port));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut listening = Listening::start(&bed.place, Part::Portals).unwrap().unwrap();
        bed.kill();
        assert_eq!(listening.next().await, None);
    });
    assert!(worker.open_portal(&portal("two")).is_err());
    let mut worker = bed.worker();
    assert_ne!(bed.pid(), before);
    assert!(!lives(before), "it was reaped");
    worker.open_portal(&portal("two")).unwrap();
}

pub(crate) fn of_many_that_look_at_once_one_starts_it() {
    let Some(bed) = Bed::make() else { return };
    let found: Vec<i32> = std::thread::scope(|scope| {
        let look = || {
            // They wait for each other for a moment only.
            let worker = (0..50).find_map(|_| {
                bed.namespace.run(|| Worker::find_or_start(&bed.place)).unwrap().ok()
            });
            let _worker = worker.unwrap();
            bed.pid()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(look)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    // One that has nothing to carry ends with the last connection, and another is started.
    assert!(found.iter().all(|it| *it > 0), "{found:?}");
    assert!(lives(bed.pid()) || found.contains(&bed.pid()));
}

pub(crate) fn a_worker_with_nothing_to_carry_ends() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let pidfd = linux::process::open(Pid::from_raw(bed.pid()).unwrap()).unwrap();
    worker.open_portal(&portal("one")).unwrap();
    drop(worker);
    let mut worker = bed.worker();
    worker.close_portal("one").unwrap();
    drop(worker);
    let status = linux::process::wait(std::os::fd::AsFd::as_fd(&pidfd)).unwrap();
    assert_eq!(status.code(), 0);
    assert!(Worker::find(&bed.place).unwrap().is_none());
}

pub(crate) fn purging_leaves_no_process_and_no_file() {
    let Some(bed) = Bed::make() else { return };
    bed.worker().open_portal(&portal("one")).unwrap();
    let pid = bed.pid();
    assert!(lives(pid));
    packets::purge(&bed.place.directory).unwrap();
    assert!(!lives(pid) && !bed.place.directory.exists());
    packets::purge(&bed.place.directory).unwrap();
}

pub(crate) fn nonsense_is_refused_and_harms_nobody() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let port = worker.open_portal(&portal("one")).unwrap();
    let stranger = Connection::connect(&bed.place.directory.join("sock")).unwrap();
    for bytes in [&b"nonsense"[..], b"{\"TakeLink\":{\"index\":1}}", b"{\"Hello\":{\"version\":0}}"]
    {
        stranger.send(bytes, &[]).unwrap();
        let answer = stranger.receive().unwrap().unwrap().bytes;
        assert!(answer.starts_with(b"{\"Refused\":"), "{}", String::from_utf8_lossy(&answer));
    }
    let endpoint = "10.0.0.1:80".parse().unwrap();
    let many = Portal { endpoints: vec![endpoint; packets::ENDPOINTS_MAX + 1], ..portal("many") };
    let refused = worker.open_portal(&many).unwrap_err().to_string();
    assert_eq!(refused, "the worker refuses: 1001 endpoints: at most 1000 are served");
    assert_eq!(worker.open_portal(&portal("one")).unwrap(), port);
}

pub(crate) fn more_ways_than_fit_in_a_message_are_carried() {
    let Some(bed) = Bed::make() else { return };
    let mut worker = bed.worker();
    let way = |n: u32| {
        let range = Cidr::containing(Ipv4Addr::from(0x0a00_0000 + n * 256).into(), 24).unwrap();
        (range, Ipv4Addr::from(0xc000_0200 + n))
    };
    let carry = |count: u32| Tunnel {
        local: None,
        own: Some("10.255.0.0/24".parse().unwrap()),
        ways: (0..count).map(way).collect::<BTreeMap<_, _>>(),
    };
    for count in [0, 1, 999, 1000, 1001, 5000] {
        worker.set_ways(&carry(count)).unwrap();
        assert_eq!(worker.tunnel().unwrap(), (None, carry(count)), "{count}");
    }
    let refused = worker.set_ways(&carry(5001)).unwrap_err().to_string();
    assert_eq!(refused, "the worker refuses: 1 ranges of pods are too many");
    // What it had holds.
    assert_eq!(worker.tunnel().unwrap(), (None, carry(5000)));
}
