//! What a runtime is told of a whole pod, for those that set a machine aside for each. The kernel is
//! told by the pod's cgroup, which has the overhead in its sums.

use api::core::pod::requests;
use k8s_openapi::api::core::v1::PodSpec;
use node_api::containers::Resources;

use super::resources::{amount, bytes, quota, shares, with_limits_as_requests};

/// What the containers ask for together.
pub fn of_sandbox(spec: &PodSpec) -> Resources {
    let spec = PodSpec { overhead: None, ..spec.clone() };
    let (requests, limits) = (requests(&spec), requests(&with_limits_as_requests(&spec)));
    let limit = |name: &str| limits.get(name).copied().unwrap_or(0);
    let request = requests.get("cpu").copied().unwrap_or_else(|| limit("cpu"));
    Resources {
        cpu_shares: Some(shares(request)),
        cpu_quota: quota(limit("cpu")),
        memory_limit: bytes(limit("memory")),
        ..Resources::default()
    }
}

/// What the pod costs beside them; its requests are its limits.
pub fn of_overhead(spec: &PodSpec) -> Resources {
    let Some(overhead) = spec.overhead.as_ref().filter(|it| !it.is_empty()) else {
        return Resources::default();
    };
    let cpu = amount(Some(overhead), "cpu").millis();
    Resources {
        cpu_shares: Some(shares(cpu)),
        cpu_quota: quota(cpu),
        memory_limit: bytes(amount(Some(overhead), "memory").value()),
        ..Resources::default()
    }
}
