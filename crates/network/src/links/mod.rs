//! How a pod is joined to its node: one file per kind. Pure.
//!
//! A pod keeps the kind that it was joined with as long as it runs, whatever those get that come
//! later: nobody's gateway goes because a node was started with another `--network`.

mod gateway;
mod routed;

use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use node_api::{PodRef, SandboxId};
use serde::{Deserialize, Serialize};

use crate::node::PodRange;

pub(crate) use gateway::name as of_sandbox;
pub(crate) use routed::answers;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// The gateway is an address of the node. Also where nobody wrote down which kind it is: there
    /// was no other.
    #[default]
    Gateway,
    /// The gateway is nobody, and the link answers for it, as Calico has it.
    Routed,
}

impl Kind {
    /// Of the host's end: fifteen characters are the most that the kernel takes.
    pub(crate) fn name(self, sandbox: &SandboxId, pod: &PodRef) -> String {
        match self {
            Self::Gateway => gateway::name(sandbox),
            Self::Routed => routed::name(pod),
        }
    }

    /// By whom a pod with addresses in the range reaches everything else.
    pub(crate) fn gateway(self, range: &PodRange) -> IpAddr {
        match self {
            Self::Gateway => range.gateway(),
            Self::Routed => routed::gateway(range.family()),
        }
    }

    /// Of the host's end of the link of a pod with this first address.
    pub(crate) fn host_hardware(self, pod: IpAddr) -> HardwareAddress {
        match self {
            Self::Gateway => gateway::host_hardware(pod),
            Self::Routed => routed::HOST_HARDWARE,
        }
    }
}
