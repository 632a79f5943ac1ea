//! Names and limits of the cgroups above containers, as upstream's cgroupfs driver has them. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use node_api::PodUid;
use node_api::containers::{CpuQuota, Resources};

pub(crate) const ROOT: &str = "kubepods";
pub(crate) const CLASSES: &[&str] = &["burstable", "besteffort"];

const PERIOD: Duration = Duration::from_millis(100);
const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;
const QUOTA_MIN: Duration = Duration::from_millis(1);

/// `kubepods/burstable/pod<uid>`; guaranteed pods are one level higher.
pub(crate) fn name(spec: &PodSpec, uid: &PodUid) -> String {
    match api::core::pod::qos_class(spec) {
        "Guaranteed" => format!("{ROOT}/pod{uid}"),
        class => format!("{ROOT}/{}/pod{uid}", class.to_lowercase()),
    }
}

/// 1024 for each processor.
pub(crate) fn shares(cpu_millis: i64) -> u64 {
    let millis = u64::try_from(cpu_millis).unwrap_or(0);
    (millis * 1024 / 1000).clamp(SHARES_MIN, SHARES_MAX)
}

/// The limits of all containers together: a limit holds for the pod only if every container has one.
pub(crate) fn of_pod(spec: &PodSpec) -> Resources {
    let requests = api::core::pod::requests(spec);
    let cpu_limit = limit(spec, "cpu", Amount::millis);
    let memory_limit = limit(spec, "memory", Amount::value);
    Resources {
        cpu_shares: Some(shares(requests.get("cpu").copied().unwrap_or(0))),
        cpu_quota: cpu_limit.map(|it| {
            let quota = PERIOD * u32::try_from(it).unwrap_or(u32::MAX) / 1000;
            CpuQuota { quota: quota.max(QUOTA_MIN), period: PERIOD }
        }),
        memory_limit: memory_limit.and_then(|it| u64::try_from(it).ok()),
        pids_limit: None,
        oom_score_adj: None,
    }
}

/// The peak, counted as requests are: sidecars stay while later init containers run.
fn limit(spec: &PodSpec, resource: &str, read: fn(Amount) -> i64) -> Option<i64> {
    if let Some(own) = spec.resources.as_ref().and_then(|it| amount(it.limits.as_ref(), resource)) {
        return Some(read(own));
    }
    let of = |it: &Container| amount(it.resources.as_ref()?.limits.as_ref(), resource).map(read);
    let mut sum = 0i64;
    for container in &spec.containers {
        sum = sum.saturating_add(of(container)?);
    }
    let (mut sidecars, mut peak) = (0i64, 0i64);
    for container in spec.init_containers.iter().flatten() {
        let own = of(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.saturating_add(own);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars.saturating_add(own));
        }
    }
    Some(sum.saturating_add(sidecars).max(peak)).filter(|it| *it > 0)
}

fn amount(quantities: Option<&BTreeMap<String, Quantity>>, resource: &str) -> Option<Amount> {
    Amount::parse(&quantities?.get(resource)?.0).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use node_api::PodUid;
    use serde_json::{Value, json};

    use super::{name, of_pod};

    fn check(spec: Value, expected: &str) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let it = of_pod(&spec);
        let quota = it.cpu_quota.map(|it| it.quota.as_micros());
        let name = name(&spec, &PodUid::new("u"));
        let shares = it.cpu_shares.unwrap();
        assert_eq!(
            format!("{name} shares={shares} quota={quota:?} memory={:?}", it.memory_limit),
            expected
        );
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({ "name": "c", "resources": { "requests": requests, "limits": limits } })
    }

    #[test]
    fn a_pods_cgroup_has_its_class_and_the_sum_of_its_containers() {
        check(
            json!({ "containers": [{ "name": "c" }] }),
            "kubepods/besteffort/podu shares=2 quota=None memory=None",
        );
        let all = json!({ "cpu": "500m", "memory": "64Mi" });
        check(
            json!({ "containers": [container(all.clone(), all.clone()), container(all.clone(), all)] }),
            "kubepods/podu shares=1024 quota=Some(100000) memory=Some(134217728)",
        );
        check(
            json!({ "containers": [
                container(json!({ "cpu": "100m" }), json!({ "cpu": "1" })),
                container(json!({ "memory": "1Gi" }), json!({ "memory": "1Gi" }))] }),
            "kubepods/burstable/podu shares=102 quota=None memory=None",
        );
    }
}
