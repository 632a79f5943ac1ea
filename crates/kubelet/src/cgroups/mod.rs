//! Names of the cgroups above containers, as upstream's cgroupfs driver has them. Pure.

use k8s_openapi::api::core::v1::PodSpec;
use node_api::PodUid;

pub(crate) const ROOT: &str = "kubepods";
pub(crate) const CLASSES: &[&str] = &["burstable", "besteffort"];

const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;

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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use node_api::PodUid;
    use serde_json::{Value, json};

    use super::name;

    fn check(resources: Value, expected: &str) {
        let spec = json!({ "containers": [{ "name": "c", "resources": resources }] });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(name(&spec, &PodUid::new("u")), expected);
    }

    #[test]
    fn a_pods_cgroup_is_below_that_of_its_class() {
        check(json!({}), "kubepods/besteffort/podu");
        check(json!({ "requests": { "cpu": "1" } }), "kubepods/burstable/podu");
        let all = json!({ "cpu": "1", "memory": "1Gi" });
        check(json!({ "requests": all, "limits": all }), "kubepods/podu");
    }
}
