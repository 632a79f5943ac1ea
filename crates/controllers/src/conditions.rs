//! Status conditions of the kinds that have their own condition type: one way to find, set and
//! remove them.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    DaemonSetCondition, DeploymentCondition, ReplicaSetCondition, StatefulSetCondition,
};
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::api::core::v1::{NamespaceCondition, ReplicationControllerCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Shared, Time};

pub(crate) trait Condition {
    fn kind(&self) -> &str;
    fn status(&self) -> &str;
    fn reason(&self) -> &str;
    fn transition(&mut self) -> &mut Option<Time>;
}

macro_rules! condition {
    ($($kind:ty),*) => {$(
        impl Condition for $kind {
            fn kind(&self) -> &str {
                &self.type_
            }

            fn status(&self) -> &str {
                &self.status
            }

            fn reason(&self) -> &str {
                self.reason.as_deref().unwrap_or_default()
            }

            fn transition(&mut self) -> &mut Option<Time> {
                &mut self.last_transition_time
            }
        }
    )*};
}

condition!(
    DaemonSetCondition,
    DeploymentCondition,
    JobCondition,
    NamespaceCondition,
    ReplicaSetCondition,
    ReplicationControllerCondition,
    StatefulSetCondition
);

/// A condition that says what its object waits for, as long as it does. Upstream has none there.
pub(crate) const WAITING: &str = "Waiting";

pub(crate) trait Waiting: Condition + Sized {
    fn new(reason: &str, message: String, since: Time) -> Self;
    fn message(&self) -> &str;
}

macro_rules! waiting {
    ($($kind:ty),*) => {$(
        impl Waiting for $kind {
            fn new(reason: &str, message: String, since: Time) -> Self {
                Self {
                    type_: WAITING.to_owned(),
                    status: "True".to_owned(),
                    reason: Some(reason.to_owned()),
                    message: Some(message),
                    last_transition_time: Some(since),
                }
            }

            fn message(&self) -> &str {
                self.message.as_deref().unwrap_or_default()
            }
        }
    )*};
}

waiting!(DaemonSetCondition, NamespaceCondition, StatefulSetCondition);

impl Waiting for DeploymentCondition {
    fn new(reason: &str, message: String, since: Time) -> Self {
        Self {
            type_: WAITING.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(since.clone()),
            last_transition_time: Some(since),
        }
    }

    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }
}

/// Conditions with what is `said` now, a reason and a sentence, in place of what was said before.
/// The same as before is left as it is, so that nothing is written.
pub(crate) fn waiting<C: Waiting>(
    stored: Option<Vec<C>>,
    said: Option<(&str, String)>,
    now: Timestamp,
) -> Option<Vec<C>> {
    let mut conditions = stored.unwrap_or_default();
    let before = conditions.iter_mut().find(|it| it.kind() == WAITING);
    match (said, before) {
        (None, _) => remove(&mut conditions, WAITING),
        (Some((reason, message)), Some(before)) => {
            if (before.reason(), before.message()) != (reason, &message) {
                *before = C::new(reason, message, time(now));
            }
        }
        (Some((reason, message)), None) => conditions.push(C::new(reason, message, time(now))),
    }
    (!conditions.is_empty()).then_some(conditions)
}

/// Whole seconds, as the wire form has them: a finer time would look changed when it comes back.
pub(crate) fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

pub(crate) fn find<'a, C: Condition>(conditions: &'a [C], kind: &str) -> Option<&'a C> {
    conditions.iter().find(|it| it.kind() == kind)
}

pub(crate) fn remove<C: Condition>(conditions: &mut Vec<C>, kind: &str) {
    conditions.retain(|it| it.kind() != kind);
}

/// Replaces the condition of the same type. Status and reason unchanged: the stored one is kept, so
/// that nothing is written. Status unchanged: its transition time is kept.
pub(crate) fn set<C: Condition>(conditions: &mut Vec<C>, mut condition: C) {
    let Some(stored) = conditions.iter_mut().find(|it| it.kind() == condition.kind()) else {
        conditions.push(condition);
        return;
    };
    if stored.status() == condition.status() && stored.reason() == condition.reason() {
        return;
    }
    if stored.status() == condition.status() {
        *condition.transition() = stored.transition().clone();
    }
    *stored = condition;
}

/// The same for the condition type that kinds share, where the message counts as well.
pub(crate) fn set_shared(conditions: &mut Vec<Shared>, mut condition: Shared) {
    let Some(stored) = conditions.iter_mut().find(|it| it.type_ == condition.type_) else {
        conditions.push(condition);
        return;
    };
    if stored.status == condition.status {
        condition.last_transition_time = stored.last_transition_time.clone();
    }
    *stored = condition;
}
