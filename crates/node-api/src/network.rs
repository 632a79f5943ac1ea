//! Attaching a sandbox to the pod network, and how that network is.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

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

/// How a sandbox's network namespace is found while the sandbox lives. Holding it does not keep the
/// namespace.
pub trait Namespace: fmt::Debug + Send + Sync {
    /// Opened now, and surely the sandbox's own. `None`: it has ended, and the namespace with it.
    fn open(&self) -> io::Result<Option<OwnedFd>>;
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub pod: PodRef,
    pub sandbox: SandboxId,
    pub namespace: Arc<dyn Namespace>,
    pub host_ports: Vec<HostPort>,
}

/// How the network is. What was lost is mended by whoever implements it, without being asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What is wrong with what all pods share, in words.
    pub fault: Option<String>,
    /// Sandboxes that lost their network at some time, as long as they are attached.
    pub losses: BTreeMap<SandboxId, Loss>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub pod: PodRef,
    /// What was lost last, in words; and why it could not be mended, if it could not.
    pub what: String,
    /// How often it was lost: who looks seldom still sees that it was.
    pub times: u32,
    pub is_mended: bool,
    /// Something in the pod takes it away again and again, or does not let it be mended. No matter
    /// of the node's: else any pod that may change its own network could take the node away from
    /// the others.
    pub is_pods_own: bool,
}

impl Status {
    /// Why the node cannot be said to have a network now; `None` if it has.
    pub fn not_ready(&self) -> Option<String> {
        let of_pods = self.losses.values().filter(|it| !it.is_mended && !it.is_pods_own);
        let of_pods = of_pods.map(|it| format!("pod {}: {}", it.pod, it.what));
        let all: Vec<String> = self.fault.iter().cloned().chain(of_pods).collect();
        match all.as_slice() {
            [] => None,
            few if few.len() <= SHOWN_MAX => Some(few.join("; ")),
            many => Some(format!(
                "{}; and {} more",
                many[..SHOWN_MAX].join("; "),
                many.len() - SHOWN_MAX
            )),
        }
    }
}

/// A sentence has no more reasons.
const SHOWN_MAX: usize = 3;

pub trait PodNetwork: Send + Sync {
    /// Gives the namespace an address, routes and a way out. The same sandbox again gets the same
    /// addresses. On an error nothing is left behind.
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>>;
    /// Frees the addresses. The namespace may be gone already.
    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()>;
    /// Frees what belongs to none of these, and connects those anew that lost their network
    /// meanwhile: called once after a start, with the sandboxes that live.
    fn keep_only(&self, sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()>;
    /// Follows it from now on.
    fn status(&self) -> watch::Receiver<Status>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodUid;

    fn loss(name: &str, is_mended: bool, is_pods_own: bool) -> (SandboxId, Loss) {
        let pod = PodRef { namespace: "n".into(), name: name.into(), uid: PodUid::new(name) };
        let what = "its link is gone".to_owned();
        (SandboxId::new(name), Loss { pod, what, times: 1, is_mended, is_pods_own })
    }

    #[test]
    fn the_node_speaks_of_what_is_not_mended_and_not_a_pods_own_doing() {
        let check = |fault: Option<&str>, losses: &[(SandboxId, Loss)], expected: Option<&str>| {
            let losses = losses.iter().cloned().collect();
            let status = Status { fault: fault.map(str::to_owned), losses };
            assert_eq!(status.not_ready().as_deref(), expected);
        };
        check(None, &[], None);
        check(Some("no bridge"), &[], Some("no bridge"));
        check(None, &[loss("a", true, false), loss("b", false, true)], None);
        let two = [loss("a", false, false), loss("b", true, false)];
        check(Some("no bridge"), &two, Some("no bridge; pod n/a: its link is gone"));
        let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|it| loss(it, false, false)).into();
        let text = "pod n/a: its link is gone; pod n/b: its link is gone; pod n/c: its link is gone; and 2 more";
        check(None, &many, Some(text));
    }
}
