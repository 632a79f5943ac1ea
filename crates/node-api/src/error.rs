//! What can go wrong on a node, as far as a kubelet tells it apart.

use crate::{ContainerId, SandboxId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("sandbox {0} does not exist")]
    NoSandbox(SandboxId),
    #[error("container {0} does not exist")]
    NoContainer(ContainerId),
    #[error("container {0} is not running")]
    NotRunning(ContainerId),
    /// The container could not be set up; what it wanted is at fault (no such file, no such user,
    /// ...). Upstream's reason: `StartError` or `CreateContainerError`.
    #[error("{0}")]
    Refused(String),
    /// Asked for by name, and not done: never silently left out.
    #[error("{what} is not supported by this node's container runtime")]
    Unsupported { what: String },
    #[error(transparent)]
    Image(#[from] crate::images::Error),
    #[error("no pod address is free in {range}")]
    AddressesExhausted { range: String },
    #[error("host port {port}/{protocol} is taken by {holder}")]
    HostPortTaken { port: u16, protocol: &'static str, holder: String },
    #[error("command did not finish within {0:?}")]
    TimedOut(std::time::Duration),
    /// It may answer later, and go on where it was.
    #[error("the holder of sandbox {0} lives but does not answer")]
    NotResponding(SandboxId),
    /// The machine is at fault: a syscall, a file, a kernel feature.
    #[error("{doing}")]
    Node {
        doing: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into() }
    }

    pub fn node(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Node { doing: doing.into(), source: source.into() }
    }
}
