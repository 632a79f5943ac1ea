//! What a pod may ask of the kernel: users, profiles, kernel settings, namespaces, and how its
//! mounts are seen.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
    VolumeMount,
};
use linux::sysctl::{Isolation, Name};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::super::as_container;
use super::containers::Pod;
use super::windows;
use crate::check::{self, text};
use crate::core::volume_sources::relative;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path, as the kernel has it, without its null byte.
pub(super) const PROFILE_LENGTH_MAX: usize = 4095;
const HOSTNAME_LENGTH_MAX: usize = 64;

pub(super) fn validate_pod(
    context: &PodSecurityContext,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    check::id(context.fs_group, &path.child("fsGroup"), errors);
    check::id(context.run_as_user, &path.child("runAsUser"), errors);
    check::id(context.run_as_group, &path.child("runAsGroup"), errors);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        check::id(Some(*group), &path.child("supplementalGroups").index(index), errors);
    }
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    validate_sysctls(context, spec, &path.child("sysctls"), errors);
    let change = context.fs_group_change_policy.as_deref();
    validate_policy(
        change,
        &["Always", "OnRootMismatch"],
        &path.child("fsGroupChangePolicy"),
        errors,
    );
    validate_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    let options = context.windows_options.as_ref();
    windows::validate_options(options, &path.child("windowsOptions"), errors);
    validate_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
    let groups = context.supplemental_groups_policy.as_deref();
    let path_groups = path.child("supplementalGroupsPolicy");
    validate_policy(groups, &["Merge", "Strict"], &path_groups, errors);
    // Upstream does not name what a feature that is off is for.
    let relabel = context.se_linux_change_policy.as_deref().filter(|it| *it != "MountOption");
    validate_policy(relabel, &["Recursive"], &path.child("seLinuxChangePolicy"), errors);
}

fn validate_policy(value: Option<&str>, supported: &[&str], path: &Path, errors: &mut FieldErrors) {
    if let Some(value) = value.filter(|it| !supported.contains(it)) {
        errors.not_supported(path, value, supported);
    }
}

fn validate_sysctls(
    context: &PodSecurityContext,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = path.index(index).child("name");
        let text = sysctl.name.as_str();
        let name = Name::parse(text);
        if text.is_empty() {
            errors.required(&path, "");
        } else if name.is_none() {
            errors.invalid(
                &path,
                text,
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        } else if !seen.insert(text) {
            errors.duplicate(&path, text);
        }
        let host = match name.and_then(|it| it.isolation()) {
            Some(Isolation::Network) if spec.host_network == Some(true) => "hostNetwork",
            Some(Isolation::Ipc) if spec.host_ipc == Some(true) => "hostIPC",
            _ => continue,
        };
        errors.invalid(&path, text, &format!("may not be specified when '{host}' is true"));
    }
}

pub(super) fn validate_container(
    context: &SecurityContext,
    pod: &Pod<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    check::id(context.run_as_user, &path.child("runAsUser"), errors);
    check::id(context.run_as_group, &path.child("runAsGroup"), errors);
    if let Some(proc_mount) = &context.proc_mount {
        let path = path.child("procMount");
        let supported = ["Default", "Unmasked"];
        if !supported.contains(&proc_mount.as_str()) {
            errors.not_supported(&path, proc_mount.as_str(), &supported);
        }
        if pod.has_host_users && proc_mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&path, proc_mount.as_str(), detail);
        }
    }
    validate_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    validate_escalation(context, path, errors);
    let options = context.windows_options.as_ref();
    windows::validate_options(options, &path.child("windowsOptions"), errors);
    validate_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
}

fn validate_escalation(context: &SecurityContext, path: &Path, errors: &mut FieldErrors) {
    if context.allow_privilege_escalation != Some(false) {
        return;
    }
    let value = || serde_json::to_value(context).unwrap_or_default();
    if context.privileged == Some(true) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(path, value(), detail);
    }
    let mut added = context.capabilities.iter().flat_map(|it| it.add.iter().flatten());
    if added.any(|it| it == "CAP_SYS_ADMIN") {
        errors.invalid(
            path,
            value(),
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        );
    }
}

/// A profile of the node's is named by a path below its folder; the kubelet looks again.
fn validate_seccomp(profile: Option<&SeccompProfile>, path: &Path, errors: &mut FieldErrors) {
    let Some(profile) = profile else { return };
    if profile.type_.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    }
    check::one_of_if_set(&profile.type_, PROFILES, &path.child("type"), errors);
    let path = path.child("localhostProfile");
    match (&profile.localhost_profile, profile.type_ == "Localhost") {
        (None, true) => errors.required(&path, "must be set when seccomp type is Localhost"),
        (Some(name), true) => relative(name, &path, errors),
        (Some(_), false) => {
            let value: Value = serde_json::to_value(profile).unwrap_or_default();
            errors.invalid(&path, value, "can only be set when seccomp type is Localhost");
        }
        (None, false) => {}
    }
}

fn validate_app_armor(profile: Option<&AppArmorProfile>, path: &Path, errors: &mut FieldErrors) {
    let Some(profile) = profile else { return };
    let missing = "must be set when AppArmor type is Localhost";
    if profile.type_.is_empty() {
        errors.required(&path.child("type"), "type is required when appArmorProfile is set");
    }
    check::one_of_if_set(&profile.type_, PROFILES, &path.child("type"), errors);
    let path = path.child("localhostProfile");
    match (&profile.localhost_profile, profile.type_.as_str()) {
        (None, "Localhost") => errors.required(&path, missing),
        (Some(name), "Localhost") => {
            if name.trim() != name {
                errors.invalid(&path, name.as_str(), "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&path, missing);
            }
            if name.len() > PROFILE_LENGTH_MAX {
                errors.too_long(&path, PROFILE_LENGTH_MAX);
            }
        }
        (Some(name), "RuntimeDefault" | "Unconfined") => {
            errors.invalid(&path, name.as_str(), "can only be set when AppArmor type is Localhost");
        }
        _ => {}
    }
}

pub(super) fn validate_propagation(
    mount: &VolumeMount,
    container: &Container,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let propagation = text(mount.mount_propagation.as_ref());
    let path_propagation = path.child("mountPropagation");
    check::one_of_if_set(
        propagation,
        &["Bidirectional", "HostToContainer", "None"],
        &path_propagation,
        errors,
    );
    let is_privileged =
        container.security_context.as_ref().is_some_and(|it| it.privileged == Some(true));
    if propagation == "Bidirectional" && !is_privileged {
        errors.forbidden(
            &path_propagation,
            "Bidirectional mount propagation is available only to privileged containers",
        );
    }
    let path = path.child("recursiveReadOnly");
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
            if !matches!(propagation, "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&path, detail);
            }
        }
        Some(other) => {
            errors.not_supported(&path, other, &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

/// The host's namespaces beside each other, and beside what would need the pod's own.
pub(super) fn validate_namespaces(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let is_set = |it: Option<bool>| it == Some(true);
    if spec.host_users == Some(false) {
        // Upstream writes two of these names with a capital.
        for (field, is_set) in [
            ("hostNetwork", is_set(spec.host_network)),
            ("HostPID", is_set(spec.host_pid)),
            ("HostIPC", is_set(spec.host_ipc)),
        ] {
            if is_set {
                errors.forbidden(&path.child(field), "when `hostUsers` is false");
            }
        }
        for (path, container) in containers(spec, path) {
            if container.volume_devices.is_some_and(|it| !it.is_empty()) {
                errors.forbidden(&path.child("volumeDevices"), "when `hostUsers` is false");
            }
        }
    }
    if let Some(name) = &spec.hostname_override {
        let path = path.child("hostnameOverride");
        if is_set(spec.set_hostname_as_fqdn) {
            errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
        }
        if is_set(spec.host_network) {
            errors.forbidden(&path, "may not be specified when hostNetwork is true");
        }
        if name.len() > HOSTNAME_LENGTH_MAX {
            errors.too_long(&path, HOSTNAME_LENGTH_MAX);
        }
        check::format(name, &is_dns_subdomain(name), &path, errors);
    }
}

/// Options of another system than the one that the pod says it is for.
pub(super) fn validate_os(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(os) = &spec.os else { return };
    match os.name.as_str() {
        "linux" => {}
        "windows" => return windows::validate_pod(spec, path, errors),
        "" => return errors.required(&path.child("os").child("name"), ""),
        other => return errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
    let detail = "windows options cannot be set for a linux pod";
    if spec.security_context.as_ref().is_some_and(|it| it.windows_options.is_some()) {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), detail);
    }
    for (path, container) in containers(spec, path) {
        if container.security_context.is_some_and(|it| it.windows_options.is_some()) {
            errors.forbidden(&path.child("securityContext").child("windowsOptions"), detail);
        }
    }
}

/// Every container, of all three sorts, with its path.
pub(super) fn containers(spec: &PodSpec, path: &Path) -> Vec<(Path, Container)> {
    let at = |field: &'static str| {
        let path = path.child(field);
        move |(index, it): (usize, Container)| (path.index(index), it)
    };
    let init = spec.init_containers.iter().flatten().cloned().enumerate();
    let own = spec.containers.iter().cloned().enumerate();
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(as_container).enumerate();
    init.map(at("initContainers"))
        .chain(own.map(at("containers")))
        .chain(ephemeral.map(at("ephemeralContainers")))
        .collect()
}
