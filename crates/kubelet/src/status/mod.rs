//! A pod's status, computed from what is on the node. Pure; words, reasons and their order as
//! upstream has them (pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go).

mod conditions;
mod containers;
mod patch;
mod phase;
mod resize;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod_worker::{Cause, Ending, Life, View};

pub(crate) use patch::patch;

/// Times in the API have whole seconds.
fn seconds(at: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Starts from what the API shows, so that what others wrote stays.
pub(crate) fn compute(view: &View, life: &Life) -> PodStatus {
    let absent = PodStatus::default();
    let old = view.status().unwrap_or(&absent);
    if let Life::Terminating(ending) | Life::Terminated(ending) = life
        && ending.cause == Cause::Finished
    {
        return old.clone();
    }
    if let Life::Terminated(Ending { cause: Cause::Rejected { reason, message }, .. }) = life {
        return rejected(view, old, reason, message);
    }
    let mut status = old.clone();
    status.qos_class = Some(class(view, old));
    status.start_time.get_or_insert_with(|| seconds(view.now));
    status.observed_generation = view.generation;
    addresses(view, life, &mut status);
    let statuses = containers::compute(view, life, old);
    let phase = phase::compute(view, life, &statuses);
    status.init_container_statuses = non_empty(statuses.init);
    status.container_statuses = non_empty(statuses.main);
    status.ephemeral_container_statuses = non_empty(statuses.ephemeral);
    status.phase = Some(phase.to_owned());
    if old.phase.as_deref() != Some(phase) {
        (status.reason, status.message) = (None, None);
    }
    if let Life::Terminating(ending) | Life::Terminated(ending) = life
        && ending.cause == Cause::DeadlineExceeded
    {
        status.phase = Some("Failed".to_owned());
        status.reason = Some("DeadlineExceeded".to_owned());
        status.message =
            Some("Pod was active on the node longer than the specified deadline".to_owned());
    }
    conditions::set(view, &mut status);
    resize::set(view, &mut status);
    status
}

/// Once said, it stays.
fn class(view: &View, old: &PodStatus) -> String {
    let said = old.qos_class.clone().filter(|it| !it.is_empty());
    said.unwrap_or_else(|| api::core::pod::qos_class(view.spec()).to_owned())
}

fn rejected(view: &View, old: &PodStatus, reason: &str, message: &str) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("Pod was rejected: {message}")),
        qos_class: Some(class(view, old)),
        start_time: Some(old.start_time.clone().unwrap_or_else(|| seconds(view.now))),
        observed_generation: view.generation,
        ..old.clone()
    }
}

/// A pod keeps its addresses after its sandbox is gone: that is where it was.
fn addresses(view: &View, life: &Life, status: &mut PodStatus) {
    let texts = |it: &[std::net::IpAddr]| it.iter().map(ToString::to_string).collect::<Vec<_>>();
    let hosts = texts(&view.host_ips);
    status.host_ip = hosts.first().cloned();
    status.host_ips = Some(hosts.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    let pod = if view.spec().host_network == Some(true) {
        hosts
    } else {
        match (view.sandbox(), life) {
            (Some(sandbox), _) => texts(&sandbox.addresses),
            (None, Life::Terminating(_) | Life::Terminated(_)) => return,
            (None, Life::Starting | Life::Running) => Vec::new(),
        }
    };
    status.pod_ip = pod.first().cloned();
    status.pod_ips = non_empty(Some(pod.into_iter().map(|ip| PodIP { ip }).collect()));
}

fn non_empty<T>(items: Option<Vec<T>>) -> Option<Vec<T>> {
    items.filter(|it| !it.is_empty())
}
