//! What a worker remembers between steps; operations change it when they begin and end. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use node_api::ContainerId;
use node_api::containers::{Container as Run, Resources};

use super::operations::{Delays, On, Op, Operation, StartContainer};
use super::restart;
use crate::allocation::{Allocation, Size};

/// What the worker remembers between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// What is under way. Nothing that is here is asked for again.
    pub(crate) in_flight: BTreeSet<Op>,
    /// What failed, and when it is tried again.
    pub(crate) retries: BTreeMap<Op, Retry>,
    /// What the pod's cgroup was told; `None` until it was made, or found again.
    pub(crate) cgroup: Option<Resources>,
    /// What the pod was given is on disk.
    pub(crate) is_recorded: bool,
    /// What the node has agreed to and is on disk now, until the task has taken it.
    pub(crate) recorded: Option<Arc<Allocation>>,
    /// The pod's generation that a resize is under way for, until its end was told.
    pub(crate) resizing: Option<i64>,
    /// Why it came to no end the last time.
    pub(crate) resize_error: Option<String>,
    /// Runs that have another size than they were made with.
    pub(crate) resized: BTreeMap<ContainerId, Size>,
    /// What the kernel said of them.
    pub(crate) actual: BTreeMap<ContainerId, Size>,
    /// Runs that were stopped for another of another size, whatever their policy says.
    pub(crate) restarting: BTreeSet<ContainerId>,
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
    /// What the API answered to a write of the status, until the task has taken it.
    pub(crate) answered: Option<Arc<Pod>>,
    /// There may be other sandboxes than those that were listed last.
    pub(crate) is_sandbox_list_old: bool,
    pub(crate) is_deleted: bool,
    /// Nothing is left to do.
    pub(crate) is_ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) status: PodStatus,
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
    /// When the first of their tokens is due.
    pub(crate) renew_at: Option<Timestamp>,
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
    /// What could not be pulled, where it is not the container's own: that of a volume.
    pub(crate) image: Option<String>,
    pub(crate) since: Timestamp,
}

/// How long a container that keeps ending has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) delay: Duration,
    pub(crate) at: Timestamp,
}

impl Memory {
    /// A container that ended starts again: the next wait is longer.
    pub(crate) fn restarts(&mut self, name: &str, now: Timestamp) {
        let next = restart::next(self.crashes.get(name), now);
        self.crashes.insert(name.to_owned(), next);
    }

    /// After a failure: the next wait is twice as long.
    pub(crate) fn wait(&mut self, op: Op, delays: Delays, now: Timestamp) {
        let delay = match self.retries.get(&op) {
            Some(earlier) => earlier.delay.saturating_mul(2).min(delays.max),
            None => delays.first,
        };
        let at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        self.retries.insert(op, Retry { at, delay });
    }

    /// Something it depends on changed: do not wait.
    pub(crate) fn retry_now(&mut self, op: &Op) {
        if let Some(retry) = self.retries.get_mut(op) {
            retry.at = Timestamp::MIN;
        }
    }

    /// On whatever it works.
    pub(crate) fn is_under_way<T: Operation>(&self) -> bool {
        self.in_flight.iter().any(|it| it.on::<T>().is_some())
    }

    /// Whether it is not through with its start: its postStart hook runs.
    pub(crate) fn is_starting_run(&self, run: &Run) -> bool {
        let on = On::Container(run.config.name.clone());
        self.in_flight.contains(&Op::of::<StartContainer>(on))
    }

    pub(crate) fn is_starting(&self) -> bool {
        self.is_under_way::<StartContainer>()
    }
}
