//! What is about Windows in a pod: users and credentials of its containers, processes on the host,
//! and what a pod for Windows cannot have.

use k8s_openapi::api::core::v1::{PodSpec, SecurityContext, WindowsSecurityContextOptions};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::security::containers;
use crate::check;

const CREDENTIAL_KIB_MAX: usize = 64;
const DOMAIN_LENGTH_END: usize = 256;
const USER_LENGTH_MAX: usize = 104;
const NETBIOS_LENGTH_MAX: usize = 15;
const LABEL_LENGTH_MAX: usize = 63;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

pub(super) fn validate_options(
    options: Option<&WindowsSecurityContextOptions>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(options) = options else { return };
    if let Some(name) = &options.gmsa_credential_spec_name {
        let path = path.child("gmsaCredentialSpecName");
        check::format(name, &is_dns_subdomain(name), &path, errors);
    }
    if let Some(spec) = &options.gmsa_credential_spec {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&path, "", "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_KIB_MAX * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_KIB_MAX} KiB");
            errors.invalid(&path, spec.as_str(), &detail);
        }
    }
    if let Some(user) = &options.run_as_user_name {
        for problem in problems_of_user(user) {
            errors.invalid(&path.child("runAsUserName"), user.as_str(), &problem);
        }
    }
}

/// `DOMAIN\USER`, or the user alone.
fn problems_of_user(text: &str) -> Vec<String> {
    let said = |what: &str| vec![format!("runAsUserName {what}")];
    if text.is_empty() {
        return said("cannot be an empty string");
    }
    if text.chars().any(|it| it.is_ascii_control()) {
        return said("cannot contain control characters");
    }
    let (domain, user) = match text.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return said("cannot contain more than one backslash"),
    };
    let mut problems = Vec::new();
    if domain.is_some_and(|it| it.len() >= DOMAIN_LENGTH_END) {
        problems.push(format!("Domain length must be under {DOMAIN_LENGTH_END} characters"));
    }
    if domain.is_some_and(|it| !is_netbios(it) && !is_dns(it)) {
        problems.push("Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        problems.push("User cannot be empty".to_owned());
    } else if user.len() > USER_LENGTH_MAX {
        let what = format!("User length must not be longer than {USER_LENGTH_MAX} characters");
        problems.push(what);
    }
    if !user.is_empty() && user.chars().all(|it| it == '.' || it == ' ') {
        problems.push("User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let what = r#"User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        problems.push(what.to_owned());
    }
    problems.into_iter().map(|it| format!("runAsUserName's {it}")).collect()
}

fn is_netbios(domain: &str) -> bool {
    let is_bad = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    let length = domain.chars().count();
    (1..=NETBIOS_LENGTH_MAX).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(is_bad)
}

fn is_dns(domain: &str) -> bool {
    let is_label = |it: &str| {
        (1..=LABEL_LENGTH_MAX).contains(&it.len())
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
            && !it.starts_with('-')
            && !it.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// Either all containers are processes of the host, or none is.
pub(super) fn validate_host_process(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let context = spec.security_context.as_ref();
    let of_pod = context.and_then(|it| it.windows_options.as_ref()?.host_process);
    let all = containers(spec, path);
    let mut n_on_host = 0;
    for (path, container) in &all {
        let context = container.security_context.as_ref();
        let own = context.and_then(|it| it.windows_options.as_ref()?.host_process);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            errors.invalid(
                &path.child("securityContext").child("windowsOptions").child("hostProcess"),
                own,
                &format!(
                    "pod hostProcess value must be identical if both are specified, was {of_pod}"
                ),
            );
        }
        n_on_host += usize::from(own.or(of_pod) == Some(true));
    }
    if n_on_host == 0 {
        return;
    }
    if n_on_host != all.len() {
        let detail = "If pod contains any hostProcess containers then all containers must be \
                      HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if spec.host_network != Some(true) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, detail);
    }
}

/// What only other systems have.
pub(super) fn validate_pod(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let context = path.child("securityContext");
    let absent = Default::default();
    let it = spec.security_context.as_ref().unwrap_or(&absent);
    let has_sysctls = it.sysctls.as_ref().is_some_and(|it| !it.is_empty());
    for (path, is_set) in [
        (context.child("appArmorProfile"), it.app_armor_profile.is_some()),
        (context.child("seLinuxOptions"), it.se_linux_options.is_some()),
        (path.child("hostUsers"), spec.host_users.is_some()),
        (path.child("hostPID"), spec.host_pid == Some(true)),
        (path.child("hostIPC"), spec.host_ipc == Some(true)),
        (context.child("seccompProfile"), it.seccomp_profile.is_some()),
        (context.child("fsGroup"), it.fs_group.is_some()),
        (context.child("fsGroupChangePolicy"), it.fs_group_change_policy.is_some()),
        (context.child("sysctls"), has_sysctls),
        (path.child("shareProcessNamespace"), spec.share_process_namespace.is_some()),
        (context.child("runAsUser"), it.run_as_user.is_some()),
        (context.child("runAsGroup"), it.run_as_group.is_some()),
        (context.child("supplementalGroups"), it.supplemental_groups.is_some()),
        (context.child("supplementalGroupsPolicy"), it.supplemental_groups_policy.is_some()),
        (context.child("seLinuxChangePolicy"), it.se_linux_change_policy.is_some()),
    ] {
        if is_set {
            errors.forbidden(&path, NOT_ON_WINDOWS);
        }
    }
    for (path, container) in containers(spec, path) {
        if let Some(context) = &container.security_context {
            validate_container(context, &path.child("securityContext"), errors);
        }
    }
}

fn validate_container(context: &SecurityContext, path: &Path, errors: &mut FieldErrors) {
    for (field, is_set) in [
        ("appArmorProfile", context.app_armor_profile.is_some()),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        ("seccompProfile", context.seccomp_profile.is_some()),
        ("capabilities", context.capabilities.is_some()),
        ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
        ("privileged", context.privileged.is_some()),
        ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
        ("procMount", context.proc_mount.is_some()),
        ("runAsUser", context.run_as_user.is_some()),
        ("runAsGroup", context.run_as_group.is_some()),
    ] {
        if is_set {
            errors.forbidden(&path.child(field), NOT_ON_WINDOWS);
        }
    }
}
