//! The node's conditions: one folder per source. Each says its condition, purely, from what was
//! observed, and what wakes the node's status before its time. Conditions of others stay.

mod disk_pressure;
mod memory_pressure;
mod pid_pressure;
mod ready;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use futures_util::future::{BoxFuture, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use node_api::network::Status;
use node_api::sandboxes::Status as RuntimeStatus;
use tokio::sync::watch;

pub(super) use ready::is_ready;

/// In upstream's order.
const SOURCES: &[&dyn Source] = &[
    &memory_pressure::MemoryPressure,
    &disk_pressure::DiskPressure,
    &pid_pressure::PidPressure,
    &ready::Ready,
];

trait Source: Sync {
    /// `type` of the condition.
    fn name(&self) -> &'static str;

    fn condition(&self, observed: &Observed) -> Condition;

    /// Returns when the condition may be another.
    fn wake(&self, _signals: &Signals) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    is_true: bool,
    reason: &'static str,
    message: Cow<'static, str>,
}

/// What conditions are made from, at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) network: Status,
    pub(super) runtime: RuntimeStatus,
}

/// Where it is observed.
#[derive(Clone)]
pub(super) struct Signals {
    pub(super) network: watch::Receiver<Status>,
    pub(super) runtime: watch::Receiver<RuntimeStatus>,
}

impl Signals {
    pub(super) fn observe(&mut self) -> Observed {
        Observed {
            network: self.network.borrow_and_update().clone(),
            runtime: self.runtime.borrow_and_update().clone(),
        }
    }
}

/// What all sources say.
pub(super) fn all(observed: &Observed) -> Vec<Condition> {
    SOURCES.iter().map(|it| it.condition(observed)).collect()
}

/// Returns when a source says something else than it `said`.
pub(super) async fn differ(signals: &mut Signals, said: &[Condition]) {
    while all(&signals.observe()) == said {
        select_all(SOURCES.iter().map(|it| it.wake(signals))).await;
    }
}

/// Returns when the value changed. When nobody will change it any more: never.
async fn change<T>(mut value: watch::Receiver<T>) {
    if value.changed().await.is_err() {
        std::future::pending().await
    }
}

/// On top of what others wrote into `old`. The time of a transition stays while the status does.
pub(super) fn render(
    old: Option<&NodeStatus>,
    observed: &Observed,
    now: Timestamp,
) -> Vec<NodeCondition> {
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let mut conditions = old.and_then(|it| it.conditions.clone()).unwrap_or_default();
    for (source, said) in SOURCES.iter().zip(all(observed)) {
        let mut condition = NodeCondition {
            type_: source.name().to_owned(),
            status: if said.is_true { "True" } else { "False" }.to_owned(),
            reason: Some(said.reason.to_owned()),
            message: Some(said.message.into_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(now.clone()),
        };
        match conditions.iter_mut().find(|it| it.type_ == condition.type_) {
            None => conditions.push(condition),
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time.clone_from(&known.last_transition_time);
                }
                *known = condition;
            }
        }
    }
    conditions
}
