//! In which order groups and versions are shown. The first match decides which kind a short name
//! means, so the order is part of the contract.

use std::cmp::Ordering;

const GROUP_PRIORITY_CUSTOM: u32 = 1_000;

/// Higher comes first; groups of custom resources all have the last value.
pub fn group_priority(group: &str) -> u32 {
    match group {
        "" => 18_000,
        // Before all that APIServices can ask for.
        "apiregistration.k8s.io" => 20_001,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        "internal.apiserver.k8s.io" => 16_000,
        "storagemigration.k8s.io" => 15_800,
        _ => GROUP_PRIORITY_CUSTOM,
    }
}

/// Of a version within its group, as APIServices have it; higher comes first. Groups that are not
/// built in all have the last value.
pub fn version_priority(group: &str, version: &str) -> u32 {
    match (group, version) {
        ("", _) => 1,
        ("admissionregistration.k8s.io", "v1beta1") => 12,
        ("admissionregistration.k8s.io" | "internal.apiserver.k8s.io", "v1alpha1") => 9,
        ("autoscaling", "v2") => 30,
        ("coordination.k8s.io", "v1beta1") => 13,
        ("coordination.k8s.io", "v1alpha2") => 12,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        ("resource.k8s.io", "v1beta2") => 15,
        ("scheduling.k8s.io", "v1alpha2") => 2,
        _ => match parse(version) {
            _ if group_priority(group) == GROUP_PRIORITY_CUSTOM => 100,
            Some((2, ..)) | None => 15,
            Some((1, ..)) => 9,
            Some(_) => 1,
        },
    }
}

/// `v2, v1, v1beta2, v1beta1, v1alpha1`, then names of another form by alphabet.
pub fn version_order(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// (stability, major, minor): greater is preferred.
fn parse(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = rest
        .strip_prefix("beta")
        .map(|it| (1, it))
        .or_else(|| rest.strip_prefix("alpha").map(|it| (0, it)))?;
    Some((stability, major, minor.parse().ok()?))
}
