//! How pods reach pods of other nodes: one folder per way.
//!
//! A back end says what should be in the kernel, from what it is told of this node and of the
//! others. It asks and changes nothing itself: observing, comparing and applying are the same for
//! all, so a restart is the same as a change, and to leave is to want nothing.

mod host_gw;
mod none;

use std::fmt;

use crate::kernel_state::KernelState;
use crate::node::{Peer, ThisNode};

pub(crate) trait Backend: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether pods of the peer can be reached this way; if not, why not.
    fn validate(&self, node: &ThisNode, peer: &Peer) -> Result<(), String>;

    /// All that should be in the kernel. What it wants of a pod does not depend on other pods or on
    /// peers: a pod that comes changes its own link alone. Of peers that are not valid nothing is
    /// wanted.
    fn desired(&self, node: &ThisNode, peers: &[Peer]) -> KernelState;
}

/// Alphabetical.
pub(crate) const ALL: &[&dyn Backend] = &[&host_gw::HostGw, &none::NoPath];

pub const HOST_GW: &str = "host-gw";
pub const NONE: &str = "none";

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|it| it.name())
}

pub(crate) fn find(name: &str) -> Result<&'static dyn Backend, String> {
    ALL.iter().copied().find(|it| it.name() == name).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        format!("there is no pod network {name:?}: it is one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_ends_are_found_by_name_and_others_are_refused() {
        for name in names() {
            assert_eq!(find(name).unwrap().name(), name);
        }
        let expected = "there is no pod network \"pigeons\": it is one of host-gw, none";
        assert_eq!(find("pigeons").unwrap_err(), expected);
    }
}
