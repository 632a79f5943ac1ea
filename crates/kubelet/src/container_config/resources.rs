//! Requests and limits to what the kernel is told, for a container and for its pod.
//! <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/>

use std::collections::BTreeMap;
use std::time::Duration;

use api::core::pod::{qos_class, requests};
use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use node_api::containers::{CpuQuota, Resources};

use crate::allocation::Size;
use crate::pod_facts::Allocatable;

const SHARES_PER_CPU: i64 = 1024;
const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;
const PERIOD: Duration = Duration::from_millis(100);
/// The kernel takes no less.
const QUOTA_MIN: Duration = Duration::from_millis(1);

/// As upstream's `qos.GetContainerOOMScoreAdjust`: who asked for more is killed later.
const OOM_GUARANTEED: i64 = -997;
const OOM_BEST_EFFORT: i64 = 1000;

/// For one container on a node that has so much for pods.
pub fn of_container(pod: &Pod, container: &Container, node: &Allocatable) -> Resources {
    Size::of(pod, container).resources(&Resources {
        oom_score_adj: i32::try_from(oom_score(pod, container, node.memory)).ok(),
        hugepage_limits: node.huge_pages.limits(pod, container),
        ..Resources::default()
    })
}

/// For the pod's own cgroup: the sum of its containers, as far as all of them are limited.
pub fn of_pod(pod: &Pod) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let of = |totals: &BTreeMap<String, i64>, name: &str| totals.get(name).copied().unwrap_or(0);
    let limits = requests(&with_limits_as_requests(spec));
    let class = qos_class(spec);
    if class == "BestEffort" {
        return Resources { cpu_shares: Some(*SHARES.start()), ..Resources::default() };
    }
    let is_limited = |name: &str| class == "Guaranteed" || are_all_limited(spec, name);
    Resources {
        cpu_shares: Some(shares(of(&requests(spec), "cpu"))),
        cpu_quota: quota(of(&limits, "cpu")).filter(|_| is_limited("cpu")),
        memory_limit: bytes(of(&limits, "memory")).filter(|_| is_limited("memory")),
        ..Resources::default()
    }
}

fn are_all_limited(spec: &PodSpec, name: &str) -> bool {
    let of_pod = spec.resources.as_ref().and_then(|it| it.limits.as_ref());
    if !amount(of_pod, name).is_zero() {
        return true;
    }
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.all(|it| !amount(limits_of(it), name).is_zero())
}

/// So that limits are summed by the same rule as requests.
pub(super) fn with_limits_as_requests(spec: &PodSpec) -> PodSpec {
    let swap = |resources: &mut Option<ResourceRequirements>| {
        if let Some(resources) = resources {
            resources.requests = resources.limits.clone();
        }
    };
    let mut spec = spec.clone();
    swap(&mut spec.resources);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        swap(&mut container.resources);
    }
    spec
}

fn limits_of(container: &Container) -> Option<&BTreeMap<String, Quantity>> {
    container.resources.as_ref()?.limits.as_ref()
}

fn requests_of(container: &Container) -> Option<&BTreeMap<String, Quantity>> {
    container.resources.as_ref()?.requests.as_ref()
}

pub(crate) fn amount(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> Amount {
    let quantity = quantities.and_then(|it| it.get(name));
    quantity.and_then(|it| Amount::parse(&it.0).ok()).unwrap_or(Amount::ZERO)
}

pub(crate) fn shares(millis: i64) -> u64 {
    let shares = millis.max(0).saturating_mul(SHARES_PER_CPU) / 1000;
    shares.unsigned_abs().clamp(*SHARES.start(), *SHARES.end())
}

pub(crate) fn quota(millis: i64) -> Option<CpuQuota> {
    let millis = u64::try_from(millis).ok().filter(|it| *it > 0)?;
    // A thousandth of a CPU is a tenth of a millisecond in each period.
    let quota = Duration::from_micros(millis.saturating_mul(100));
    Some(CpuQuota { quota: quota.max(QUOTA_MIN), period: PERIOD })
}

pub(super) fn bytes(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|it| *it > 0)
}

fn oom_score(pod: &Pod, container: &Container, memory: i64) -> i64 {
    let Some(spec) = &pod.spec else { return OOM_BEST_EFFORT };
    if spec.priority_class_name.as_deref() == Some("system-node-critical") {
        return OOM_GUARANTEED;
    }
    let burstable = |container: &Container| {
        let request = amount(requests_of(container), "memory").value();
        let score = 1000 - request.saturating_mul(1000) / memory.max(1);
        // Never before those that asked for nothing, never after the guaranteed.
        score.clamp(1000 + OOM_GUARANTEED, OOM_BEST_EFFORT - 1)
    };
    match qos_class(spec) {
        "Guaranteed" => OOM_GUARANTEED,
        "BestEffort" => OOM_BEST_EFFORT,
        _ if container.restart_policy.as_deref() == Some("Always") => {
            // A sidecar goes no earlier than the first of those it serves.
            let served = spec.containers.iter().map(burstable).max();
            burstable(container).min(served.unwrap_or(OOM_BEST_EFFORT))
        }
        _ => burstable(container),
    }
}
