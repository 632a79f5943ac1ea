//! What an operation's end changes in what the worker remembers.

use std::time::Duration;

use super::{Task, is_older};
use crate::pod_worker::ops::Outcome;
use crate::pod_worker::step::Op;
use crate::pod_worker::view::Trouble;

/// Upstream's numbers for images that cannot be pulled, and for volumes.
const PULL_FIRST: Duration = Duration::from_secs(10);
const PULL_MAX: Duration = Duration::from_secs(300);
const VOLUMES_FIRST: Duration = Duration::from_millis(500);
const VOLUMES_MAX: Duration = Duration::from_secs(122);

impl Task {
    pub(super) fn finish(&mut self, op: Op, outcome: Outcome) {
        self.memory.in_flight.remove(&op);
        match &op {
            Op::Sandbox | Op::StopSandbox(_) | Op::RemoveSandbox(_) => self.list_sandboxes(),
            _ => {}
        }
        match outcome {
            Outcome::Failed => self.failed(&op),
            Outcome::Cancelled => {}
            Outcome::NotStarted { reason, message } => self.not_started(&op, reason, message),
            Outcome::Volumes { wanted, paths, renew_at } => {
                self.memory.retries.remove(&op);
                self.memory.volumes.done = wanted;
                self.memory.volumes.paths = Some(paths);
                self.renew_at = renew_at;
            }
            Outcome::Written(pod) => {
                self.memory.retries.remove(&op);
                self.written(pod);
            }
            Outcome::Done => {
                self.memory.retries.remove(&op);
                self.done(op);
            }
        }
    }

    fn done(&mut self, op: Op) {
        match op {
            Op::Cgroup => self.memory.has_cgroup = true,
            Op::StopSandbox(id) => {
                self.memory.stopped.insert(id);
            }
            Op::TearDown => self.memory.is_torn_down = true,
            Op::Start(name) => {
                self.memory.troubles.remove(&name);
            }
            Op::Delete => self.memory.is_deleted = true,
            Op::End => self.is_ended = true,
            Op::Volumes
            | Op::Sandbox
            | Op::Stop(..)
            | Op::RemoveContainer(_)
            | Op::RemoveSandbox(_)
            | Op::Tell(_)
            | Op::Status => {}
        }
    }

    fn failed(&mut self, op: &Op) {
        let now = self.now();
        match op {
            Op::Volumes => self.memory.failed(op, now, VOLUMES_FIRST, VOLUMES_MAX),
            _ => self.memory.failed_default(op, now),
        }
    }

    fn not_started(&mut self, op: &Op, reason: &'static str, message: String) {
        let now = self.now();
        // These leave a run that ended: the wait after it is that of a crash.
        if !matches!(reason, "RunContainerError" | "PostStartHookError") {
            self.memory.failed(op, now, PULL_FIRST, PULL_MAX);
        }
        if let Op::Start(name) = op {
            let trouble = Trouble { reason, message, since: now };
            self.memory.troubles.insert(name.clone(), trouble);
        }
    }

    fn written(&mut self, pod: Option<std::sync::Arc<k8s_openapi::api::core::v1::Pod>>) {
        let Some(pod) = pod else { return };
        if let Some(sent) = &mut self.memory.sent {
            sent.version.clone_from(&pod.metadata.resource_version);
        }
        if self.desired.borrow().is_static {
            let mut shown = k8s_openapi::api::core::v1::Pod::clone(&self.pod);
            shown.status.clone_from(&pod.status);
            shown.metadata.resource_version.clone_from(&pod.metadata.resource_version);
            self.pod = std::sync::Arc::new(shown);
        } else if !is_older(&pod, &self.pod) {
            self.pod = pod;
        }
    }
}
