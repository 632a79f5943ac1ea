//! ReplicationControllers: see `replicas`.

#[cfg(test)]
mod tests;

use api::core::replication_controller::ReplicationController;
use apimachinery::selector::{self, Labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationControllerCondition, ReplicationControllerStatus,
};

use crate::flags::at_least_one;
use crate::replicas::{self, Failure, ReplicaOwner, Status};
use crate::workload::Workload;
use crate::{Descriptor, Flags, conditions};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "replicationcontroller-controller",
    aliases: &["replicationcontroller"],
    identity: "replication-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start: |startup| {
        let workers = startup.settings::<Settings>().concurrent_rc_syncs;
        replicas::start::<ReplicationController>(startup, workers);
    },
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// ReplicationControllers that are worked on at once
    // Upstream spells it with underscores, too.
    #[arg(long, alias = "concurrent_rc_syncs", value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_rc_syncs: usize,
}

const FAILURE: &str = "ReplicaFailure";

impl Workload for ReplicationController {
    fn pod_selector(&self) -> Result<Labels, selector::Error> {
        let selector = self.spec.as_ref().and_then(|it| it.selector.as_ref());
        // An empty selector would take every pod of the namespace: it selects nothing.
        Ok(selector.filter(|it| !it.is_empty()).map_or_else(Labels::nothing, Labels::from_map))
    }
}

impl ReplicaOwner for ReplicationController {
    const REPORTER: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;

    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|it| it.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> Status {
        let Some(status) = &self.status else {
            return Status::default();
        };
        let stored = status.conditions.as_deref().unwrap_or_default();
        Status {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: 0,
            observed_generation: status.observed_generation.unwrap_or(0),
            failure: conditions::find(stored, FAILURE).map(|it| Failure {
                reason: it.reason.clone().unwrap_or_default(),
                message: it.message.clone().unwrap_or_default(),
            }),
        }
    }

    fn with_status(&self, status: Status, now: Timestamp) -> Self {
        let mut replication_controller = self.clone();
        let stored = replication_controller.status.take().and_then(|it| it.conditions);
        let mut conditions = stored.unwrap_or_default();
        match status.failure {
            None => conditions::remove(&mut conditions, FAILURE),
            Some(failure) => conditions::set(
                &mut conditions,
                ReplicationControllerCondition {
                    type_: FAILURE.to_owned(),
                    status: "True".to_owned(),
                    reason: Some(failure.reason),
                    message: Some(failure.message),
                    last_transition_time: Some(conditions::time(now)),
                },
            ),
        }
        replication_controller.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: Some(status.fully_labeled).filter(|it| *it != 0),
            ready_replicas: Some(status.ready).filter(|it| *it != 0),
            available_replicas: Some(status.available).filter(|it| *it != 0),
            observed_generation: Some(status.observed_generation),
            conditions: (!conditions.is_empty()).then_some(conditions),
        });
        replication_controller
    }
}
