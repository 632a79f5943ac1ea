//! What this machine must have to be a node. All that is missing is said at once, with what to do.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use linux::netlink::Error;
use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::RouteSocket;

/// Checked before anything is made.
pub(crate) fn validate() -> Result<()> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: containers need it; start with `sudo`".to_owned());
    } else {
        missing.extend(kernel_features());
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|it| format!("\n  - {it}")).collect();
    bail!(
        "this machine cannot be a node; it lacks{}\nA control plane alone, without a node, runs with `xebec up --node none`.",
        list.concat()
    )
}

fn kernel_features() -> Vec<String> {
    let mut missing = Vec::new();
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !file_systems.split_whitespace().any(|it| it == "overlay") {
        missing.push("overlayfs (CONFIG_OVERLAY_FS; try `modprobe overlay`)".to_owned());
    }
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
        && !Path::new("/sys/fs/cgroup/memory").exists()
    {
        missing.push("cgroups with the memory controller, mounted at /sys/fs/cgroup".to_owned());
    }
    for kind in ["net", "pid", "mnt", "uts", "ipc"] {
        if !Path::new("/proc/self/ns").join(kind).exists() {
            missing.push(format!("namespaces of the kind {kind:?} (CONFIG_NAMESPACES)"));
        }
    }
    let probes = [
        ("netlink for network links (CAP_NET_ADMIN)", probe_links()),
        ("nf_tables (CONFIG_NF_TABLES; try `modprobe nf_tables`)", probe_nftables()),
    ];
    for (what, probed) in probes {
        if let Err(err) = probed {
            missing.push(format!("{what}: {}", stdx::error_chain(&err)));
        }
    }
    missing
}

fn probe_links() -> Result<(), Error> {
    RouteSocket::open().map(|_| ())
}

/// Asks for a table that nobody has.
fn probe_nftables() -> Result<(), Error> {
    let id = TableId::new(TableFamily::Ip, "xebec-probe");
    Nftables::open(id).and_then(|mut it| it.observe()).map(|_| ())
}
