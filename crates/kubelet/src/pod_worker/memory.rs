//! What a worker remembers between steps, and what the end of an operation changes in it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use node_api::ContainerId;
use node_api::containers::Container as Run;

use super::restart;
use super::step::Op;

/// After a failure; the delay doubles up to the maximum.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(120);
/// Upstream's numbers for images that cannot be pulled, and for volumes.
const PULL_FIRST: Duration = Duration::from_secs(10);
const PULL_MAX: Duration = Duration::from_secs(300);
const VOLUMES_FIRST: Duration = Duration::from_millis(500);
const VOLUMES_MAX: Duration = Duration::from_secs(122);

/// What the worker remembers between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// What is under way. Nothing that is here is asked for again.
    pub(crate) in_flight: BTreeSet<Op>,
    /// What failed, and when it is tried again.
    pub(crate) retries: BTreeMap<Op, Retry>,
    pub(crate) has_cgroup: bool,
    pub(crate) volumes: VolumesMemory,
    /// Why a container does not run, by its name.
    pub(crate) troubles: BTreeMap<String, Trouble>,
    /// By container name.
    pub(crate) crashes: BTreeMap<String, Crash>,
    /// Exited runs whose wait was told by an event.
    pub(crate) told: BTreeSet<ContainerId>,
    /// Sandboxes that were stopped on purpose, or after they died.
    pub(crate) stopped: BTreeSet<node_api::SandboxId>,
    pub(crate) is_torn_down: bool,
    /// The status as it was last sent, and the version of the pod that came back.
    pub(crate) sent: Option<Sent>,
    pub(crate) is_deleted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) status: k8s_openapi::api::core::v1::PodStatus,
    pub(crate) version: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct VolumesMemory {
    /// Grows with every change of what the volumes are made from.
    pub(crate) wanted: u64,
    /// The `wanted` that was last set up.
    pub(crate) done: u64,
    /// `None` until they were all set up once.
    pub(crate) paths: Option<BTreeMap<String, PathBuf>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) at: Timestamp,
    pub(crate) delay: Duration,
}

/// Why a container waits, as its status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) since: Timestamp,
}

/// How long a container that keeps ending has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) delay: Duration,
    pub(crate) at: Timestamp,
}

impl Memory {
    /// After an operation that succeeded.
    pub(crate) fn done(&mut self, op: &Op) {
        self.retries.remove(op);
        match op {
            Op::Cgroup => self.has_cgroup = true,
            Op::StopSandbox(id) => {
                self.stopped.insert(id.clone());
            }
            Op::TearDown => self.is_torn_down = true,
            Op::Start(name) => {
                self.troubles.remove(name);
            }
            Op::Delete => self.is_deleted = true,
            Op::Volumes
            | Op::Sandbox
            | Op::Stop(..)
            | Op::RemoveContainer(_)
            | Op::RemoveSandbox(_)
            | Op::Tell(_)
            | Op::Status
            | Op::End => {}
        }
    }

    pub(crate) fn set_up(&mut self, wanted: u64, paths: BTreeMap<String, PathBuf>) {
        self.retries.remove(&Op::Volumes);
        self.volumes.done = wanted;
        self.volumes.paths = Some(paths);
    }

    pub(crate) fn failed(&mut self, op: &Op, now: Timestamp) {
        if *op == Op::Status {
            self.sent = None;
        }
        match op {
            Op::Volumes => self.wait(op, now, VOLUMES_FIRST, VOLUMES_MAX),
            _ => self.wait(op, now, RETRY_FIRST, RETRY_MAX),
        }
    }

    pub(crate) fn not_started(
        &mut self,
        op: &Op,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) {
        // These leave a run that ended: the wait after it is that of a crash.
        if !matches!(reason, "RunContainerError" | "PostStartHookError") {
            self.wait(op, now, PULL_FIRST, PULL_MAX);
        }
        if let Op::Start(name) = op {
            self.troubles.insert(name.clone(), Trouble { reason, message, since: now });
        }
    }

    /// A container that ended starts again: the next wait is longer.
    pub(crate) fn restarts(&mut self, name: &str, now: Timestamp) {
        let next = restart::next(self.crashes.get(name), now);
        self.crashes.insert(name.to_owned(), next);
    }

    fn wait(&mut self, op: &Op, now: Timestamp, least: Duration, most: Duration) {
        let delay = match self.retries.get(op) {
            Some(earlier) => earlier.delay.saturating_mul(2).min(most),
            None => least,
        };
        let at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        self.retries.insert(op.clone(), Retry { at, delay });
    }

    /// Something it depends on changed: do not wait.
    pub(crate) fn retry_now(&mut self, op: &Op) {
        if let Some(retry) = self.retries.get_mut(op) {
            retry.at = Timestamp::MIN;
        }
    }

    /// Whether it is not through with its start: its postStart hook runs.
    pub(crate) fn is_starting_run(&self, run: &Run) -> bool {
        self.in_flight.contains(&Op::Start(run.config.name.clone()))
    }

    pub(crate) fn is_starting(&self) -> bool {
        self.in_flight.iter().any(|it| matches!(it, Op::Start(_)))
    }
}
