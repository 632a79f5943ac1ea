//! What a node has in place of files of the machine: who it is, which boot of it this is, whom it
//! asks for names.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use node_api::resolv_conf;
use stdx::Random;

use super::place::Place;
use crate::data_dir::make_private;

/// A file of the node, and the one of the machine that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) name: &'static str,
    pub(super) over: &'static str,
}

pub(super) const ALL: &[Cover] = &[
    // Whoever looks at it learns that a node that was dead and is back has lost what was in memory.
    Cover { name: "boot-id", over: "/proc/sys/kernel/random/boot_id" },
    Cover { name: "hostname", over: "/etc/hostname" },
    Cover { name: "machine-id", over: "/etc/machine-id" },
    RESOLV_CONF,
];
const RESOLV_CONF: Cover = Cover { name: "resolv.conf", over: "/etc/resolv.conf" };

/// Where systemd-resolved has what stands behind its stub on the loopback.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";

/// Before a boot.
pub(super) fn write(place: &Place, random: &Random) -> io::Result<()> {
    make_private(&place.directory)?;
    let file = |name: &str| place.directory.join(name);
    fs::write(file("boot-id"), format!("{}\n", random.uuid()))?;
    fs::write(file("hostname"), format!("{}\n", place.name))?;
    let id = file("machine-id");
    if !id.exists() {
        fs::write(id, format!("{}\n", random.uuid().replace('-', "")))?;
    }
    write_resolv_conf(place)
}

/// The machine may be in another network than when the node booted. In place: the node sees this
/// very file.
pub(super) fn write_resolv_conf(place: &Place) -> io::Result<()> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let text = resolv_conf(&read(RESOLV_CONF.over), &read(BEHIND_STUB), &place.machine_dns);
    fs::write(place.directory.join(RESOLV_CONF.name), text)
}

/// What listens on the machine's loopback, a node does not reach: it asks whoever stands behind it,
/// and if nobody is known, the cluster's DNS on the machine, which does.
fn resolv_conf(own: &str, behind_stub: &str, machine: &[IpAddr]) -> String {
    let reached = |text: &str| {
        let mut dns = resolv_conf::parse(text);
        dns.servers.retain(|it| !it.is_loopback());
        dns
    };
    let mut dns = reached(own);
    if dns.servers.is_empty() {
        dns.servers = reached(behind_stub).servers;
    }
    if dns.servers.is_empty() {
        dns.servers = machine.to_vec();
    }
    resolv_conf::render(&dns)
}

/// Where a file of the machine really is, by whatever links. `None`: there is none to be covered.
pub(super) fn real(path: &str) -> Option<PathBuf> {
    fs::canonicalize(Path::new(path)).ok()
}

#[cfg(test)]
mod tests {
    use super::resolv_conf;

    #[test]
    fn a_node_asks_whom_it_reaches() {
        let machine = ["10.244.0.1".parse().unwrap()];
        let check = |own: &str, behind: &str, expected: &str| {
            assert_eq!(resolv_conf(own, behind, &machine), expected);
        };
        check(
            "search a.example\nnameserver 192.0.2.1\n",
            "",
            "search a.example\nnameserver 192.0.2.1\n",
        );
        check(
            "nameserver 127.0.0.53\noptions edns0\n",
            "nameserver 192.0.2.2\n",
            "nameserver 192.0.2.2\noptions edns0\n",
        );
        check("nameserver 127.0.0.1\n", "", "nameserver 10.244.0.1\n");
        check("nameserver 127.0.0.1\nnameserver 192.0.2.3\n", "", "nameserver 192.0.2.3\n");
    }
}
