//! What is wrong with a pod spec: every problem, with its path.

pub(crate) mod annotations;
mod claims;
mod containers;
mod downward;
mod handlers;
mod label_keys;
mod mounts;
mod pod_resources;
mod projections;
mod resources;
mod scheduling;
mod security;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod volumes;
mod windows;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec, ResourceRequirements};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{self, is_dns_label, is_dns_subdomain};

use crate::check::{self, text};

pub(crate) use containers::{validate_image, validate_images};
pub(crate) use resources::validate_resources;
pub use scheduling::validate_tolerations;
pub(crate) use scheduling::{Values, allowed_values, validate_node_selector};
pub(crate) use volumes::{validate_claim_names, validate_of_pod};

/// A name field that may be absent.
fn validate_name(name: Option<&String>, is_label: bool, path: &Path, errors: &mut FieldErrors) {
    let name = text(name);
    if !name.is_empty() {
        let messages = if is_label { is_dns_label(name) } else { is_dns_subdomain(name) };
        check::format(name, &messages, path, errors);
    }
}

/// For pods and templates. The order is upstream's (`ValidatePodSpec`), so that several problems
/// are told of alike. `values` are those that node affinity may require.
pub(crate) fn validate_spec(spec: &PodSpec, values: Values, path: &Path, errors: &mut FieldErrors) {
    volumes::validate_volumes(spec, &path.child("volumes"), errors);
    claims::validate_of_pod(spec, &path.child("resourceClaims"), errors);
    let pod = containers::Pod {
        volumes: &mounts::volumes(spec),
        claims: &claims::names(spec),
        has_host_users: spec.host_users != Some(false),
        restart_policy: text(spec.restart_policy.as_ref()),
    };
    containers::validate_containers(spec, &pod, path, errors);
    pod_resources::validate(spec, &path.child("resources"), errors);
    containers::validate_host_network(spec, &path.child("containers"), errors);
    check::one_of_listed(
        text(spec.restart_policy.as_ref()),
        &["Always", "OnFailure", "Never"],
        &path.child("restartPolicy"),
        errors,
    );
    check::one_of(
        text(spec.dns_policy.as_ref()),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &path.child("dnsPolicy"),
        errors,
    );
    scheduling::validate_selector(spec, path, errors);
    let context = spec.security_context.clone().unwrap_or_default();
    security::validate_pod(&context, spec, &path.child("securityContext"), errors);
    scheduling::validate_affinity_of(spec, values, path, errors);
    validate_dns(spec, &path.child("dnsConfig"), errors);
    validate_readiness_gates(spec, &path.child("readinessGates"), errors);
    scheduling::validate_gates(spec, path, errors);
    scheduling::validate_spread_of(spec, path, errors);
    windows::validate_host_process(spec, path, errors);
    security::validate_namespaces(spec, path, errors);
    validate_own_fields(spec, path, errors);
    security::validate_os(spec, path, errors);
    volumes::validate_env_files(spec, path, errors);
}

/// Names and numbers of the pod itself.
fn validate_own_fields(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let account = spec.service_account_name.as_ref();
    validate_name(account, false, &path.child("serviceAccountName"), errors);
    validate_name(spec.node_name.as_ref(), false, &path.child("nodeName"), errors);
    if let Some(seconds) = spec.active_deadline_seconds {
        let path = path.child("activeDeadlineSeconds");
        check::in_range(seconds, 1, i64::from(i32::MAX), &path, errors);
    }
    validate_name(spec.hostname.as_ref(), true, &path.child("hostname"), errors);
    validate_name(spec.subdomain.as_ref(), true, &path.child("subdomain"), errors);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    validate_tolerations(tolerations, &path.child("tolerations"), errors);
    validate_host_aliases(spec, &path.child("hostAliases"), errors);
    let class = spec.priority_class_name.as_ref();
    validate_name(class, false, &path.child("priorityClassName"), errors);
    validate_name(spec.runtime_class_name.as_ref(), false, &path.child("runtimeClassName"), errors);
    let policy = text(spec.preemption_policy.as_ref());
    let known = ["PreemptLowerPriority", "Never"];
    if !policy.is_empty() && !known.contains(&policy) {
        errors.not_supported_as_listed(&path.child("preemptionPolicy"), policy, &known);
    }
    if let Some(overhead) = &spec.overhead {
        let overhead =
            ResourceRequirements { limits: Some(overhead.clone()), ..Default::default() };
        validate_resources(&overhead, &path.child("overhead"), errors);
    }
}

fn validate_readiness_gates(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = path.index(index).child("conditionType");
        let name = &gate.condition_type;
        check::format(name, &validation::is_qualified_name(name), &path, errors);
    }
}

fn validate_host_aliases(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.index(index);
        check::format(&alias.ip, &validation::is_ip(&alias.ip), &path.child("ip"), errors);
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            let path = path.child("hostnames").index(index);
            check::format(name, &is_dns_subdomain(name), &path, errors);
        }
    }
}

/// `path` is that of `dnsConfig`.
fn validate_dns(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let n_servers = spec.dns_config.iter().flat_map(|it| it.nameservers.iter().flatten()).count();
    if text(spec.dns_policy.as_ref()) == "None" && n_servers == 0 {
        return match spec.dns_config {
            None => errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(_) => errors.required(
                &path.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ),
        };
    }
    if let Some(config) = &spec.dns_config {
        validate_dns_config(config, path, errors);
    }
}

fn validate_dns_config(config: &PodDNSConfig, path: &Path, errors: &mut FieldErrors) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_CHARS_MAX: usize = 2048;
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if servers.len() > SERVERS_MAX {
        let detail = format!("must not have more than {SERVERS_MAX} nameservers");
        errors.invalid(&path.child("nameservers"), servers.to_vec(), &detail);
    }
    for (index, server) in servers.iter().enumerate() {
        let path = path.child("nameservers").index(index);
        check::format(server, &validation::is_ip(server), &path, errors);
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    let path_searches = path.child("searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(&path_searches, searches.to_vec(), &detail);
    }
    if searches.join(" ").len() > SEARCH_CHARS_MAX {
        errors.invalid(
            &path_searches,
            searches.to_vec(),
            "must not have more than 2048 characters (including spaces) in the search list",
        );
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, it)| *it != ".") {
        // Underscores are common in search domains.
        let domain = search.strip_suffix('.').unwrap_or(search).replace('_', "a");
        check::format(search, &is_dns_subdomain(&domain), &path_searches.index(index), errors);
    }
    for (index, option) in config.options.iter().flatten().enumerate() {
        if text(option.name.as_ref()).is_empty() {
            errors.required(&path.child("options").index(index), "must not be empty");
        }
    }
}
