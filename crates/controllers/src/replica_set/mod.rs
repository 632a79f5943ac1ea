//! ReplicaSets: see `replicas`.

#[cfg(test)]
mod tests;

use api::apps::replica_set::ReplicaSet;
use apimachinery::selector::{self, Labels};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::flags::at_least_one;
use crate::replicas::{self, Failure, ReplicaOwner, Status};
use crate::workload::Workload;
use crate::{Descriptor, Flags, conditions};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "replicaset-controller",
    aliases: &["replicaset"],
    identity: "replicaset-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start: |startup| {
        let workers = startup.settings::<Settings>().concurrent_replicaset_syncs;
        replicas::start::<ReplicaSet>(startup, workers);
    },
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// ReplicaSets that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_replicaset_syncs: usize,
}

const FAILURE: &str = "ReplicaFailure";

impl Workload for ReplicaSet {
    fn pod_selector(&self) -> Result<Labels, selector::Error> {
        Labels::from_selector(self.spec.as_ref().map(|it| &it.selector))
    }
}

impl ReplicaOwner for ReplicaSet {
    const REPORTER: &'static str = "replicaset-controller";
    const COUNTS_TERMINATING: bool = true;

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
            terminating: status.terminating_replicas.unwrap_or(0),
            observed_generation: status.observed_generation.unwrap_or(0),
            failure: conditions::find(stored, FAILURE).map(|it| Failure {
                reason: it.reason.clone().unwrap_or_default(),
                message: it.message.clone().unwrap_or_default(),
            }),
        }
    }

    fn with_status(&self, status: Status, now: Timestamp) -> Self {
        let mut replica_set = self.clone();
        let stored = replica_set.status.take().and_then(|it| it.conditions);
        let mut conditions = stored.unwrap_or_default();
        match status.failure {
            None => conditions::remove(&mut conditions, FAILURE),
            Some(failure) => conditions::set(
                &mut conditions,
                ReplicaSetCondition {
                    type_: FAILURE.to_owned(),
                    status: "True".to_owned(),
                    reason: Some(failure.reason),
                    message: Some(failure.message),
                    last_transition_time: Some(conditions::time(now)),
                },
            ),
        }
        replica_set.status = Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: Some(status.fully_labeled).filter(|it| *it != 0),
            ready_replicas: Some(status.ready).filter(|it| *it != 0),
            available_replicas: Some(status.available).filter(|it| *it != 0),
            terminating_replicas: Some(status.terminating),
            observed_generation: Some(status.observed_generation),
            conditions: (!conditions.is_empty()).then_some(conditions),
        });
        replica_set
    }
}
