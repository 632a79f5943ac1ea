//! A network namespace with a loopback, and a place for a worker in it.

use std::os::fd::AsFd as _;
use std::process::Command;

use linux::netlink::route::{LinkChange, RouteSocket};
use linux::network_namespace::NetworkNamespace;
use linux::process::{Pid, Signal};
use packets::{Place, Worker};

pub(crate) struct Bed {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) place: Place,
    _directory: tempfile::TempDir,
}

impl Bed {
    /// `None`, and says why, where namespaces cannot be made.
    pub(crate) fn make() -> Option<Self> {
        let namespace = match NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(err) => {
                println!("SKIPPED: {err}: {}", err.source);
                return None;
            }
        };
        let mut routes = RouteSocket::open_in(&namespace.path()).unwrap();
        let loopback = routes.link("lo").unwrap().unwrap();
        let up = LinkChange { is_up: Some(true), ..LinkChange::default() };
        routes.change_link(&loopback, up).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(directory.path().join("worker"), std::env::current_exe().unwrap());
        Some(Self { namespace, place, _directory: directory })
    }

    pub(crate) fn worker(&self) -> Worker {
        self.namespace.run(|| Worker::find_or_start(&self.place)).unwrap().unwrap()
    }

    pub(crate) fn pid(&self) -> i32 {
        let text = std::fs::read(self.place.directory.join("worker.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
        record["pid"].as_i64().unwrap().try_into().unwrap()
    }

    pub(crate) fn kill(&self) {
        let pidfd = linux::process::open(Pid::from_raw(self.pid()).unwrap()).unwrap();
        linux::process::kill(pidfd.as_fd(), Signal::KILL).unwrap();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        packets::purge(&self.place.directory).unwrap();
    }
}

/// Whether a process of this number runs a program of the tests.
pub(crate) fn lives(pid: i32) -> bool {
    let status = Command::new("cat").arg(format!("/proc/{pid}/cmdline")).output().unwrap();
    String::from_utf8_lossy(&status.stdout).contains(packets::ARGUMENT)
}
