//! Says by BGP which pods are here, and hears where the others are: from the other nodes, or from
//! routers.
//!
//! With whom, and what is said ([`Wanted`]), and what is taken of what is heard (`choice`) is decided
//! purely; `task` owns the sessions, and `line` alone has a socket.
//! Promises: who dies and comes back finds the routes that the kernel still has, and leaves them until
//! its neighbors have said all again. Does not pass anything on.

mod choice;
mod follow;
mod line;
mod task;
mod wanted;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use stdx::Cidr;

pub(crate) use follow::follow;
pub(crate) use wanted::Wanted;

/// Where BGP is spoken.
const PORT: u16 = 179;
/// What Calico and others use among nodes.
pub const AS_DEFAULT: u32 = 64_512;
/// For so long neighbors keep the routes of who is away, and we keep ours until they have said all.
const RESTART_TIME: Duration = Duration::from_secs(120);

/// How BGP is spoken here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    pub own_as: u32,
    /// Routers in place of the other nodes; none: each node speaks with each.
    pub peers: Vec<(u32, IpAddr)>,
    /// Of all sessions: who does not know it is not heard. Not empty, at most 80 bytes.
    pub password: Option<String>,
}

impl Default for Bgp {
    fn default() -> Self {
        Self { own_as: AS_DEFAULT, peers: Vec::new(), password: None }
    }
}

/// What neighbors have said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The next hop of each range.
    pub(crate) routes: BTreeMap<Cidr, IpAddr>,
    /// All neighbors have said all, or had time enough.
    pub(crate) is_complete: bool,
    /// Why there is no session with a neighbor.
    pub(crate) down: BTreeMap<IpAddr, String>,
}

impl Heard {
    /// What was heard before, or found in the kernel, holds until all was said.
    pub(crate) fn after(mut self, before: &Self) -> Self {
        if !self.is_complete {
            for (range, next_hop) in &before.routes {
                self.routes.entry(*range).or_insert(*next_hop);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(routes: &[(&str, &str)], is_complete: bool) -> Heard {
        let routes =
            routes.iter().map(|(range, hop)| (range.parse().unwrap(), hop.parse().unwrap()));
        Heard { routes: routes.collect(), is_complete, down: BTreeMap::new() }
    }

    #[test]
    fn what_was_there_holds_until_all_was_said() {
        let before = heard(&[("10.1.0.0/24", "192.0.2.1"), ("10.2.0.0/24", "192.0.2.2")], false);
        let first = heard(&[("10.1.0.0/24", "192.0.2.9")], false).after(&before);
        let expected = [("10.1.0.0/24", "192.0.2.9"), ("10.2.0.0/24", "192.0.2.2")];
        assert_eq!(first, heard(&expected, false));
        let last = heard(&[("10.1.0.0/24", "192.0.2.9")], true).after(&first);
        assert_eq!(last, heard(&[("10.1.0.0/24", "192.0.2.9")], true));
    }
}
