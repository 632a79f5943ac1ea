//! Nodes try the ways to each other: with packets as long as pods', from the gateway here to the
//! gateway there, so that both directions are tried and the other kernel answers by itself.
//!
//! What is asked next follows purely from what was answered (`step`), and when who is tried
//! (`book`); `line` alone has sockets. Few are tried at once: when they come or change, when the way
//! out of this machine changes, and seldom else. What can be repaired is ([`Repair`]), the rest is
//! said ([`Tried`]).

mod book;
mod line;
mod narrow;
mod step;
mod targets;
mod task;
mod told;

use std::collections::BTreeSet;
use std::net::IpAddr;

use stdx::Cidr;

pub(crate) use narrow::narrow;
pub(crate) use targets::targets;
pub(crate) use task::follow;
pub use told::{Tried, Unreached};

/// One range of pods of a peer, and the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) node: String,
    pub(crate) range: Cidr,
    /// The gateways of both sides.
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// Both machines in the network of the nodes, if the way is between two of one family.
    pub(crate) machines: Option<(IpAddr, IpAddr)>,
    /// As long as pods' packets are.
    pub(crate) mtu: u32,
    /// What packets are wrapped in, and by which link.
    pub(crate) tunnel: Option<Tunnel>,
    /// By what they leave this machine: something new is tried anew.
    pub(crate) uplinks: BTreeSet<Uplink>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    pub(crate) link: String,
    /// `UDP port 8472`
    pub(crate) wrapping: &'static str,
}

/// A link by which others are reached, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uplink {
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
}

/// What came of trying a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached {
        /// The longest packets that arrive, if not all do.
        fits: Option<u32>,
        checksums: Checksums,
    },
    /// Not even packets of the length that every way has to take.
    Narrow,
    Silent {
        /// The machine there, asked by itself.
        machine_answers: bool,
        /// Packets for that machine leave with another address than this node's.
        source: Option<IpAddr>,
    },
}

/// Of datagrams that are wrapped: some hardware computes those wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksums {
    Fine,
    /// They arrive since they are computed here.
    Repaired,
    /// Whoever computes them, datagrams do not arrive: somebody there forbids them.
    Unclear,
}

/// What is to be done about a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) range: Cidr,
    /// Longer packets are not sent there.
    pub(crate) mtu: Option<u32>,
}
