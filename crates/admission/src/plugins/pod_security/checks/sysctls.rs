//! Kernel settings that reach nobody but the pod.

use super::Subject;
use super::text::Violation;

/// With the minor version that they are allowed from.
const SAFE: &[(u64, &str)] = &[
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

fn judge_in(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    let is_safe = |name: &str| SAFE.iter().any(|it| it.0 <= minor && it.1 == name);
    let sysctls = pod.security().into_iter().flat_map(|it| it.sysctls.iter().flatten());
    let bad: Vec<&str> = sysctls.map(|it| it.name.as_str()).filter(|name| !is_safe(name)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    judge_in(pod, 0)
}

pub(super) fn judge_since_27(pod: &Subject<'_>) -> Option<Violation> {
    judge_in(pod, 27)
}

pub(super) fn judge_since_29(pod: &Subject<'_>) -> Option<Violation> {
    judge_in(pod, 29)
}

pub(super) fn judge_since_32(pod: &Subject<'_>) -> Option<Violation> {
    judge_in(pod, 32)
}
