//! Services at the sockets of this node by eBPF; what arrives as packets by nftables, in a table of
//! its own. See `README.md`.

mod addresses;
mod apply;
mod attachments;
mod ended;
mod layout;
mod maps;
mod program;
mod ruleset;
#[cfg(test)]
mod tests;

use super::Mode;

pub const MODE: Mode = Mode { name: "ebpf", open: apply::open, purge: apply::purge };

/// Of the mode that works at sockets.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("mode ebpf needs {what}: choose the mode nftables, or add it")]
    Missing {
        what: &'static str,
        #[source]
        source: Option<linux::bpf::Error>,
    },
    #[error("find the cgroups of this machine")]
    FindCgroups { source: linux::cgroups::Error },
    #[error("open cgroup {}", path.display())]
    OpenCgroup { path: std::path::PathBuf, source: std::io::Error },
    #[error("find the network namespace of this node")]
    FindNamespace { source: linux::network_namespace::Error },
    #[error("{n_entries} entries are more than {map} can hold")]
    TooMany { map: &'static str, n_entries: usize },
    #[error("serve Services at sockets")]
    Kernel { source: linux::bpf::Error },
    #[error("end sockets that are connected to endpoints that are gone")]
    EndSockets { source: linux::netlink::Error },
    #[error("read the addresses of this node")]
    ReadAddresses { source: linux::netlink::Error },
}

impl From<linux::bpf::Error> for SocketError {
    fn from(source: linux::bpf::Error) -> Self {
        Self::Kernel { source }
    }
}
