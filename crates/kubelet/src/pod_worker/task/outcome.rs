//! What an operation's end changes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Task, is_older};
use crate::pod_worker::ops::Outcome;
use crate::pod_worker::step::Op;

impl Task {
    pub(super) fn finish(&mut self, op: Op, outcome: Outcome) {
        let now = self.now();
        self.memory.in_flight.remove(&op);
        match &op {
            Op::Sandbox | Op::StopSandbox(_) | Op::RemoveSandbox(_) => self.list_sandboxes(),
            _ => {}
        }
        match outcome {
            Outcome::Cancelled => {}
            Outcome::Failed => self.memory.failed(&op, now),
            Outcome::NotStarted { reason, message } => {
                self.memory.not_started(&op, reason, message, now);
            }
            Outcome::Volumes { wanted, paths, renew_at } => {
                self.memory.set_up(wanted, paths);
                self.renew_at = renew_at;
            }
            Outcome::Written(pod) => {
                self.memory.done(&op);
                self.written(pod);
            }
            Outcome::Done => {
                self.memory.done(&op);
                self.is_ended |= op == Op::End;
            }
        }
    }

    fn written(&mut self, pod: Option<Arc<Pod>>) {
        let Some(pod) = pod else { return };
        if let Some(sent) = &mut self.memory.sent {
            sent.version.clone_from(&pod.metadata.resource_version);
        }
        if self.desired.borrow().is_static {
            let mut shown = Pod::clone(&self.pod);
            shown.status.clone_from(&pod.status);
            shown.metadata.resource_version.clone_from(&pod.metadata.resource_version);
            self.pod = Arc::new(shown);
        } else if !is_older(&pod, &self.pod) {
            self.pod = pod;
        }
    }
}
