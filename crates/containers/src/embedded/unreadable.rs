//! What was found and cannot be read: left as it is, and named to whoever asks.

use std::sync::Arc;

use node_api::{ContainerId, PodRef, PodUid, SandboxId};

use super::process::Process;

/// A sandbox, or a container of one that can be read itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub sandbox: SandboxId,
    pub container: Option<ContainerId>,
    /// As far as that can be read.
    pub pod: Option<PodRef>,
    pub why: String,
}

/// With what has to be left alone.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) report: Unreadable,
    /// The holder of an unreadable sandbox, if it lives.
    pub(super) holder: Option<Arc<Process>>,
    /// Containers that are there, whatever they are.
    pub(super) containers: Vec<ContainerId>,
    /// Something of it may be running: the same must not be started beside it.
    pub(super) may_run: bool,
}

impl Kept {
    /// One that still runs.
    pub(super) fn is_sandbox_of(&self, pod: &PodUid) -> bool {
        let Unreadable { container, pod: owner, .. } = &self.report;
        self.may_run && container.is_none() && owner.as_ref().is_some_and(|it| it.uid == *pod)
    }

    /// One that still runs, in a sandbox that can be read.
    pub(super) fn is_container_of(&self, sandbox: &SandboxId) -> bool {
        self.may_run && self.report.container.is_some() && self.report.sandbox == *sandbox
    }
}
