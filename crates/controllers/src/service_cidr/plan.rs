//! Whether a range is ready, and when one that was deleted may go. Pure.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::networking::{IPAddress, ServiceCIDR};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use stdx::Cidr;

use crate::{conditions, owners, pods};

pub(crate) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";
/// How long a range stays after its deletion, so that all servers know of it before it is free.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) struct Observed {
    pub range: Arc<ServiceCIDR>,
    /// All of them. Looked at only while the range is leaving, as are the addresses.
    pub ranges: Vec<Arc<ServiceCIDR>>,
    pub addresses: Vec<Arc<IPAddress>>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// These are its finalizers.
    Protect(Vec<String>),
    SetReady(Condition),
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    /// When to look again even if nothing changes.
    pub wait: Option<Duration>,
}

/// Whether the address is of a Service, and so keeps a range.
pub(crate) fn is_managed(address: &IPAddress) -> bool {
    let labels = address.metadata.labels.as_ref();
    labels.and_then(|it| it.get(MANAGED_BY)).is_some_and(|it| it == MANAGER)
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let range = &*observed.range;
    let finalizers = range.metadata.finalizers.clone().unwrap_or_default();
    let is_protected = finalizers.iter().any(|it| it == FINALIZER);
    if let Some(deleted) = &range.metadata.deletion_timestamp {
        if let Some(message) = explain(observed) {
            let condition = ready(range, "False", "Terminating", message, observed.now);
            return Plan { actions: condition.into_iter().collect(), wait: None };
        }
        let left = pods::remaining(deleted.0, GRACE, observed.now);
        if !left.is_zero() {
            return Plan { actions: Vec::new(), wait: Some(left) };
        }
        let rest = finalizers.into_iter().filter(|it| it != FINALIZER).collect();
        let actions = is_protected.then_some(Action::Protect(rest));
        return Plan { actions: actions.into_iter().collect(), wait: None };
    }
    if !is_protected {
        // What comes back wakes us for the condition.
        let all = finalizers.into_iter().chain([FINALIZER.to_owned()]).collect();
        return Plan { actions: vec![Action::Protect(all)], wait: None };
    }
    let message = "Kubernetes Service CIDR is ready".to_owned();
    let condition = ready(range, "True", "", message, observed.now);
    Plan { actions: condition.into_iter().collect(), wait: None }
}

fn ready(
    range: &ServiceCIDR,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Option<Action> {
    let stored = stored_condition(range);
    let is_same = stored
        .is_some_and(|it| (&*it.status, &*it.reason, &*it.message) == (status, reason, &*message));
    let since = stored.filter(|it| it.status == status).map(|it| it.last_transition_time.clone());
    (!is_same).then(|| {
        Action::SetReady(Condition {
            type_: READY.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(|| conditions::time(now)),
            observed_generation: None,
        })
    })
}

fn stored_condition(range: &ServiceCIDR) -> Option<&Condition> {
    let conditions = range.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions.unwrap_or_default().iter().find(|it| it.type_ == READY)
}

fn cidrs(range: &ServiceCIDR) -> Vec<Cidr> {
    let texts = range.spec.as_ref().and_then(|it| it.cidrs.as_deref()).unwrap_or_default();
    texts.iter().filter_map(|it| it.parse().ok()).collect()
}

fn holds(outer: Cidr, inner: Cidr) -> bool {
    outer.contains(inner.network()) && outer.prefix_length() <= inner.prefix_length()
}

/// What a range that is leaving waits for, with one address as an example: the one that was named
/// before, as long as it is true, so that nothing is written while others go. `None`: nothing.
pub(crate) fn explain(observed: &Observed) -> Option<String> {
    let own = cidrs(&observed.range);
    let is_other = |it: &&Arc<ServiceCIDR>| it.metadata.name != observed.range.metadata.name;
    let others: Vec<Cidr> =
        observed.ranges.iter().filter(is_other).flat_map(|it| cidrs(it)).collect();
    // Nothing is lost with a range that is part of others.
    if own.iter().all(|inner| others.iter().any(|outer| holds(*outer, *inner))) {
        return None;
    }
    let is_alone = |address: IpAddr| {
        own.iter().any(|it| it.contains(address)) && !others.iter().any(|it| it.contains(address))
    };
    let mut first = None;
    let stored = stored_condition(&observed.range).map(|it| it.message.as_str());
    for address in observed.addresses.iter().filter(|it| is_managed(it)) {
        let name = owners::name(&address.metadata);
        if !name.parse().is_ok_and(is_alone) {
            continue;
        }
        let message = message(name, address);
        if stored == Some(&message) {
            return Some(message);
        }
        first.get_or_insert(message);
    }
    first
}

fn message(name: &str, address: &IPAddress) -> String {
    let parent = &address.spec.parent_ref;
    let namespace = parent.namespace.as_deref().unwrap_or_default();
    format!(
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a \
         new ServiceCIDR: {name} of {} {namespace}/{}",
        parent.resource, parent.name
    )
}
