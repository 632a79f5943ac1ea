//! Kernel settings that pods may ask for: those that cannot reach beyond the pod, and those that
//! the node's owner allows at their own risk. Whom a setting reaches, `linux::sysctl` knows. Reason and texts as upstream's (pkg/kubelet/sysctl).

use k8s_openapi::api::core::v1::PodSpec;
use linux::sysctl::{Isolation, Name, OwnNamespaces, Pattern};

use super::{Candidate, Handler, Rejection};

/// With the kernel since which each has a value for every namespace, as upstream v1.36 lists them.
const SAFE: &[(&str, (u32, u32))] = &[
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];

pub(super) struct Sysctls;

impl Handler for Sysctls {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        let kernel = &candidate.machine.kernel_version;
        admit(candidate.spec, kernel, candidate.allowed_unsafe_sysctls)
    }
}

/// Of a kernel that does not say which one it is, only what every kernel isolates is allowed.
fn admit(spec: &PodSpec, kernel: &str, allowed: &[Pattern]) -> Result<(), Rejection> {
    let kernel = version(kernel);
    let sysctls = spec.security_context.iter().flat_map(|it| it.sysctls.iter().flatten());
    for sysctl in sysctls {
        validate(&sysctl.name, spec, kernel, allowed).map_err(|problem| {
            ("SysctlForbidden".to_owned(), format!("forbidden sysctl: {problem}"))
        })?;
    }
    Ok(())
}

fn validate(
    text: &str,
    spec: &PodSpec,
    kernel: (u32, u32),
    allowed: &[Pattern],
) -> Result<(), String> {
    let not_listed = || format!("{text:?} not allowlisted");
    let name = Name::parse(text).ok_or_else(not_listed)?;
    let is_safe = |(safe, since): &(&str, (u32, u32))| name.as_str() == *safe && kernel >= *since;
    let is_listed = SAFE.iter().any(is_safe) || allowed.iter().any(|it| it.matches(&name));
    let isolation = name.isolation().filter(|_| is_listed).ok_or_else(not_listed)?;
    let own = OwnNamespaces {
        ipc: spec.host_ipc != Some(true),
        network: spec.host_network != Some(true),
    };
    if !isolation.is_within(own) {
        let namespace = match isolation {
            Isolation::Ipc => "IPC",
            Isolation::Network => "Net",
        };
        return Err(format!("{:?} not allowed with host {namespace} enabled", name.as_str()));
    }
    Ok(())
}

/// Major and minor of `6.18.44-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use linux::sysctl::Pattern;
    use serde_json::json;

    use super::admit;

    #[test]
    fn only_safe_settings_and_those_that_were_allowed_pass() {
        let check = |name: &str, host: &str, allowed: &[&str], expected: Result<(), &str>| {
            let mut spec = json!({ "containers": [],
                "securityContext": { "sysctls": [{ "name": name, "value": "1" }] } });
            if !host.is_empty() {
                spec[host] = json!(true);
            }
            let allowed: Vec<_> = allowed.iter().map(|it| Pattern::parse(it).unwrap()).collect();
            let spec = serde_json::from_value(spec).unwrap();
            let admitted = admit(&spec, "6.1.0-1-amd64", &allowed);
            let admitted = admitted.map_err(|(reason, message)| {
                assert_eq!(reason, "SysctlForbidden");
                message
            });
            assert_eq!(
                admitted.as_ref().map_err(|it| it.as_str()),
                expected.as_ref().map_err(|it| *it),
                "{name}"
            );
        };
        check("net.ipv4.tcp_syncookies", "", &[], Ok(()));
        check("net/ipv4/tcp_syncookies", "", &[], Ok(()));
        check("kernel.shm_rmid_forced", "", &[], Ok(()));
        let forbidden = |name: &str| format!("forbidden sysctl: {name:?} not allowlisted");
        for name in [
            "vm.swappiness",
            "vm/swappiness",
            "kernel.core_pattern",
            "net.core.somaxconn",
            "kernel.msgmax",
            "net.ipv4.tcp_syncookies/../../../vm/swappiness",
            "../vm/swappiness",
        ] {
            check(name, "", &[], Err(&forbidden(name)));
        }
        check("net.core.somaxconn", "", &["net.core.*"], Ok(()));
        check("net/core/somaxconn", "", &["net.core.somaxconn"], Ok(()));
        check("kernel.msgmax", "", &["kernel.msg*"], Ok(()));
        // Allowed, but nothing isolates it.
        check("kernel.msg_next_id", "", &["kernel.msg*"], Err(&forbidden("kernel.msg_next_id")));
        let of_host =
            "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled";
        check("net.ipv4.tcp_syncookies", "hostNetwork", &[], Err(of_host));
        let of_host =
            "forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled";
        check("kernel/shm_rmid_forced", "hostIPC", &[], Err(of_host));
    }

    #[test]
    fn old_kernels_isolate_less() {
        let admitted = |kernel: &str| {
            let spec = json!({ "containers": [], "securityContext": {
                "sysctls": [{ "name": "net.ipv4.tcp_rmem", "value": "1" }] } });
            admit(&serde_json::from_value(spec).unwrap(), kernel, &[]).is_ok()
        };
        assert!(admitted("4.15.0"));
        assert!(admitted("6.18.44-fc-v490"));
        assert!(!admitted("4.14.99"));
        assert!(!admitted(""));
    }
}
