//! Attaching a sandbox to the pod network.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Future, PodRef, SandboxId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    pub protocol: Protocol,
    /// `None`: every address of the node.
    pub host_address: Option<IpAddr>,
    pub host_port: u16,
    pub container_port: u16,
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub pod: PodRef,
    pub sandbox: SandboxId,
    /// A file that names the namespace, such as `/proc/4711/ns/net`.
    pub namespace: PathBuf,
    pub host_ports: Vec<HostPort>,
}

pub trait PodNetwork: Send + Sync {
    /// Gives the namespace an address, routes and a way out. The same sandbox again gets the same addresses. On an error
    /// nothing is left behind.
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>>;
    /// Frees the addresses. The namespace may be gone already.
    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()>;
    /// Frees what belongs to none of these: called once after a start.
    fn keep_only(&self, sandboxes: Vec<SandboxId>) -> Future<'_, ()>;
}
