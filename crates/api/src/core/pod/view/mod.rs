//! What those keep of a pod who follow every pod of the cluster: controllers, the scheduler,
//! simulated nodes. All of them keep the same view, so that there is one of it in the process.

mod claims;
mod held;
mod job;
mod spec;
#[cfg(test)]
mod tests;
mod volumes;

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Pod, resize};
use crate::object::{Meta, Stored};
use crate::{Interned, Pairs, View};

pub use claims::{ClaimsPart, PodClaim};
use held::{Actual, Held};
pub use job::{Exit, JobPart};
pub use spec::{ContainerView, PodSpecView, PortView};
pub use volumes::VolumeClaimsPart;

/// A pod's place, state and owners, and what it asks for. Whoever needs another field adds it, as
/// long as the others can bear it: it is kept for each pod, but for `spec`, of which there is one
/// for all pods that ask for the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    pub created: Option<Timestamp>,
    pub deletion: Option<Box<Deletion>>,
    pub generation: Option<i64>,
    /// What it costs to delete it rather than another one: an annotation.
    pub deletion_cost: i32,
    /// Empty: not bound.
    pub node_name: Interned,
    pub spec: Arc<PodSpecView>,
    /// Empty: the kubelet has not said yet, as `Pending`.
    pub phase: Interned,
    /// `status.podIPs`, or `status.podIP` alone.
    pub addresses: Box<[Box<str>]>,
    pub is_ready: bool,
    /// Somebody else than its node has not said yet that it may be ready: a readiness gate.
    pub is_gated: bool,
    /// Since when it is ready, if it is and says so.
    pub ready_since: Option<Timestamp>,
    /// When its node first saw it.
    pub started: Option<Timestamp>,
    /// When it became ready or stopped being so, if its node has said which of both it is.
    pub ready_changed: Option<Timestamp>,
    /// Why it has no node, if somebody has said.
    pub unscheduled: Option<Box<Unscheduled>>,
    /// Why somebody is about to delete it, if somebody has said.
    pub disruption: Option<Box<Disruption>>,
    /// How often the container that was restarted most was.
    pub restarts: i32,
    /// Of pods of Jobs: what only a Job asks.
    pub job: Option<Box<JobPart>>,
    /// Of pods that claim devices: what only those ask who make the claims.
    pub claims: Option<Box<ClaimsPart>>,
    /// Of pods with volumes that are claims: which.
    pub volume_claims: Option<Box<VolumeClaimsPart>>,
    /// What a simulated node is told to do with it: an annotation.
    pub simulation: Option<Interned>,
}

/// The annotation that tells a simulated node how the containers of a pod go on.
pub const SIMULATION: &str = "simulator.xebec.local/containers";

/// That somebody wants the pod gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// When its grace is over.
    pub deadline: Timestamp,
    pub grace_seconds: i64,
}

/// The condition `PodScheduled` of a pod that fits nowhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Unscheduled {
    pub reason: Interned,
    pub message: Box<str>,
    pub since: Option<Timestamp>,
}

/// The condition `DisruptionTarget`, while it is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Disruption {
    pub reason: Interned,
    pub since: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Parts {
    metadata: Option<Metadata>,
    spec: Option<spec::Parts>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
    generation: Option<i64>,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    deletion_cost: Option<Interned>,
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    completion_index: Option<Interned>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    index_failures: Option<Interned>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    index_ignored_failures: Option<Interned>,
    #[serde(rename = "simulator.xebec.local/containers")]
    simulation: Option<Interned>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<Interned>,
    start_time: Option<Timestamp>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<Address>>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    resource_claim_statuses: Option<Vec<claims::ClaimStatus>>,
    extended_resource_claim_status: Option<claims::ClaimStatus>,
}

#[derive(Deserialize)]
struct Address {
    ip: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: Interned,
    status: Interned,
    reason: Option<Interned>,
    message: Option<Box<str>>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: Option<Interned>,
    restart_count: Option<i32>,
    state: Option<State>,
    allocated_resources: Option<Pairs>,
    resources: Option<Actual>,
}

#[derive(Deserialize)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    exit_code: Option<i32>,
    finished_at: Option<Timestamp>,
}

impl Status {
    fn addresses(&mut self) -> Box<[Box<str>]> {
        let all = self.pod_ips.take().unwrap_or_default().into_iter().filter_map(|it| it.ip);
        let all: Box<[Box<str>]> = all.collect();
        if all.is_empty() { self.pod_ip.take().into_iter().collect() } else { all }
    }

    fn condition(&self, kind: &str, status: &str) -> Option<&Condition> {
        let found = self.conditions.iter().flatten().find(|it| it.kind.as_str() == kind);
        found.filter(|it| it.status.as_str() == status)
    }

    fn is_gated(&self, gates: Option<&[spec::Gate]>) -> bool {
        gates
            .into_iter()
            .flatten()
            .filter_map(|it| it.condition_type.as_deref())
            .any(|it| self.condition(it, "True").is_none())
    }

    fn ready_changed(&self) -> Option<Timestamp> {
        let found = self.conditions.iter().flatten().find(|it| it.kind.as_str() == "Ready");
        found.and_then(|it| it.last_transition_time)
    }

    fn unscheduled(&self) -> Option<Box<Unscheduled>> {
        let condition = self.condition("PodScheduled", "False")?;
        Some(Box::new(Unscheduled {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            since: condition.last_transition_time,
        }))
    }

    fn disruption(&self) -> Option<Box<Disruption>> {
        let condition = self.condition("DisruptionTarget", "True")?;
        let reason = condition.reason.clone().unwrap_or_default();
        Some(Box::new(Disruption { reason, since: condition.last_transition_time }))
    }

    fn held(&self) -> Held<'_> {
        let lists = [&self.container_statuses, &self.init_container_statuses];
        let pending = self.condition(resize::PENDING, "True");
        Held {
            statuses: lists.into_iter().flatten().flatten().collect(),
            is_infeasible: pending
                .is_some_and(|it| it.reason.as_deref() == Some(resize::INFEASIBLE)),
        }
    }

    fn restarts(&self) -> i32 {
        let statuses = self.container_statuses.iter().flatten();
        statuses.filter_map(|it| it.restart_count).max().unwrap_or(0)
    }
}

impl View for PodView {
    fn resource() -> GroupVersionResource {
        <Pod as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { metadata, spec, status } = serde_json::from_slice(&stored.bytes)?;
        let (metadata, mut status) = (metadata.unwrap_or_default(), status.unwrap_or_default());
        let mut spec = spec.unwrap_or_default();
        let claims = claims::read(
            spec.resource_claims.take(),
            status.resource_claim_statuses.as_ref(),
            status.extended_resource_claim_status.take(),
        );
        let volume_claims = volumes::read(&stored.meta.key.name, spec.volumes.as_deref());
        let is_gated = status.is_gated(spec.readiness_gates.as_deref());
        let (node_name, spec) = spec.shared(&status.held());
        let grace_seconds = metadata.deletion_grace_period_seconds.unwrap_or(0);
        let annotations = metadata.annotations.unwrap_or_default();
        let cost = annotations.deletion_cost.as_ref();
        let ready = status.condition("Ready", "True");
        Ok(Self {
            meta: stored.meta.clone(),
            created: metadata.creation_timestamp,
            deletion: metadata
                .deletion_timestamp
                .map(|deadline| Box::new(Deletion { deadline, grace_seconds })),
            generation: metadata.generation,
            deletion_cost: cost.and_then(|it| it.parse().ok()).unwrap_or(0),
            node_name,
            is_ready: ready.is_some(),
            is_gated,
            ready_since: ready.and_then(|it| it.last_transition_time),
            started: status.start_time,
            ready_changed: status.ready_changed(),
            unscheduled: status.unscheduled(),
            disruption: status.disruption(),
            restarts: status.restarts(),
            job: job::read(&stored.meta, &annotations, &status, &spec),
            claims,
            volume_claims,
            simulation: annotations.simulation,
            spec,
            addresses: status.addresses(),
            phase: status.phase.unwrap_or_default(),
        })
    }
}

identified_by_meta!(PodView, Pod);

impl PodView {
    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        Some(self.node_name.as_str()).filter(|it| !it.is_empty())
    }

    /// Whether it ran to its end.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.meta.is_deleting
    }
}
