//! Containers of all three sorts: names, images, ports, environment, mounts, probes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, PodSpec,
    ResourceRequirements,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain, is_env_var_name, is_port_name};

use super::super::{as_container, is_sidecar};
use super::downward::{self, Reader};
use super::handlers::{refuse_handlers, validate_handlers};
use super::mounts::{self, Volumes};
use super::{claims, resources, security};
use crate::check::{self, text};

type Names = BTreeSet<String>;

const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// What a container's fields are checked against.
pub(super) struct Pod<'a> {
    pub(super) volumes: &'a Volumes,
    /// Of devices.
    pub(super) claims: &'a Names,
    /// No user namespace of its own.
    pub(super) has_host_users: bool,
    pub(super) restart_policy: &'a str,
}

pub(super) fn validate_containers(
    spec: &PodSpec,
    pod: &Pod<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if spec.containers.is_empty() {
        errors.required(&path.child("containers"), "");
    }
    let mut names = Names::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(index);
        validate_container(container, pod, &path, errors);
        validate_unique(container, &mut names, &path, errors);
        validate_handlers(container, spec, &path, errors);
        validate_restart(container, &path, errors);
    }
    let mut host_ports = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(index);
        validate_host_ports(container, &mut host_ports, &path, errors);
    }
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = path.child("initContainers").index(index);
        validate_container(container, pod, &path, errors);
        // Without a policy, upstream leaves the rules of these alone.
        if container.restart_policy.is_some() {
            validate_restart(container, &path, errors);
        } else if container.restart_policy_rules.as_ref().is_some_and(|it| !it.is_empty()) {
            errors.required(&path.child("restartPolicy"), NO_POLICY);
        }
        validate_unique(container, &mut names, &path, errors);
        // They run one after the other: each may have the ports of the others.
        validate_host_ports(container, &mut BTreeSet::new(), &path, errors);
        if is_sidecar(container) {
            validate_handlers(container, spec, &path, errors);
        } else {
            let detail = "may not be set for init containers without restartPolicy=Always";
            refuse_handlers(container, detail, &path, errors);
            refuse_restart(container, &path.child("resizePolicy"), errors);
        }
    }
    validate_ephemeral(spec, pod, &mut names, path, errors);
}

fn validate_unique(
    container: &Container,
    names: &mut Names,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !container.name.is_empty() && !names.insert(container.name.clone()) {
        errors.duplicate(&path.child("name"), container.name.as_str());
    }
}

/// An init container that ends by itself is never started again for its size.
fn refuse_restart(container: &Container, path: &Path, errors: &mut FieldErrors) {
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let path = path.index(index).child("restartPolicy");
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path, policy.restart_policy.as_str(), detail);
        }
    }
}

fn validate_ephemeral(
    spec: &PodSpec,
    pod: &Pod<'_>,
    names: &mut Names,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let targets: Names = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .map(|it| it.name.clone())
        .collect();
    for (index, ephemeral) in spec.ephemeral_containers.iter().flatten().enumerate() {
        let path = path.child("ephemeralContainers").index(index);
        let container = as_container(ephemeral);
        validate_container(&container, pod, &path, errors);
        validate_image(container.image.as_ref(), &path, errors);
        validate_unique(&container, names, &path, errors);
        let target = text(ephemeral.target_container_name.as_ref());
        if !target.is_empty() && !targets.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        let detail = "cannot be set for an Ephemeral Container";
        refuse_handlers(&container, detail, &path, errors);
        if container.ports.as_ref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path.child("ports"), detail);
        }
        if container.resources.as_ref().is_some_and(|it| *it != ResourceRequirements::default()) {
            errors.forbidden(&path.child("resources"), detail);
        }
        if container.resize_policy.as_ref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path.child("resizePolicy"), detail);
        }
        if container.restart_policy.is_some() {
            errors.forbidden(&path.child("restartPolicy"), detail);
        }
        if container.restart_policy_rules.as_ref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path.child("restartPolicyRules"), detail);
        }
        for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
            let path = path.child("volumeMounts").index(index);
            for (field, value) in
                [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)]
            {
                if !text(value.as_ref()).is_empty() {
                    errors.forbidden(&path.child(field), detail);
                }
            }
        }
    }
}

fn validate_container(container: &Container, pod: &Pod<'_>, path: &Path, errors: &mut FieldErrors) {
    let path_name = path.child("name");
    if container.name.is_empty() {
        errors.required(&path_name, "");
    } else {
        check::format(&container.name, &is_dns_label(&container.name), &path_name, errors);
    }
    if text(container.image.as_ref()).is_empty() {
        errors.required(&path.child("image"), "");
    }
    check::one_of(
        text(container.termination_message_policy.as_ref()),
        &["FallbackToLogsOnError", "File"],
        &path.child("terminationMessagePolicy"),
        errors,
    );
    validate_ports(container.ports.as_deref().unwrap_or_default(), &path.child("ports"), errors);
    for (index, env) in container.env.iter().flatten().enumerate() {
        validate_env(env, &path.child("env").index(index), errors);
    }
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        validate_env_from(source, index, &path.child("envFrom"), errors);
    }
    mounts::validate(container, pod.volumes, path, errors);
    check::one_of(
        text(container.image_pull_policy.as_ref()),
        &["Always", "IfNotPresent", "Never"],
        &path.child("imagePullPolicy"),
        errors,
    );
    if let Some(resources) = &container.resources {
        let path = path.child("resources");
        resources::validate_resources(resources, &path, errors);
        let used = resources.claims.as_deref().unwrap_or_default();
        claims::validate_used(used, pod.claims, &path.child("claims"), errors);
    }
    validate_resize_policy(container, pod, &path.child("resizePolicy"), errors);
    if let Some(context) = &container.security_context {
        security::validate_container(context, pod, &path.child("securityContext"), errors);
    }
}

/// What happens when a container ends, by its exit code.
fn validate_restart(container: &Container, path: &Path, errors: &mut FieldErrors) {
    const RULES_MAX: usize = 20;
    const CODES_MAX: usize = 255;
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    let path_policy = path.child("restartPolicy");
    match container.restart_policy.as_deref() {
        None if rules.is_empty() => return,
        None => errors.required(&path_policy, NO_POLICY),
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => errors.not_supported(&path_policy, other, &["Always", "Never", "OnFailure"]),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.too_many(&path, rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        if !["Restart", "RestartAllContainers"].contains(&rule.action.as_str()) {
            let known = ["Restart", "RestartAllContainers"];
            errors.not_supported(&path.child("action"), rule.action.as_str(), &known);
        }
        let path = path.child("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            errors.required(&path, "must be specified");
            continue;
        };
        if !["In", "NotIn"].contains(&codes.operator.as_str()) {
            let operator = codes.operator.as_str();
            errors.not_supported(&path.child("operator"), operator, &["In", "NotIn"]);
        }
        let n_codes = codes.values.as_ref().map_or(0, Vec::len);
        if n_codes > CODES_MAX {
            errors.too_many(&path.child("values"), n_codes, CODES_MAX);
        }
    }
}

/// Of pods, and not of templates: somebody may still fill those in.
pub(crate) fn validate_images(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let lists = [
        ("containers", spec.containers.as_slice()),
        ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
    ];
    for (field, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            validate_image(container.image.as_ref(), &path.child(field).index(index), errors);
        }
    }
}

pub(crate) fn validate_image(image: Option<&String>, path: &Path, errors: &mut FieldErrors) {
    let image = text(image);
    if image != image.trim() {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(&path.child("image"), image, detail);
    }
}

/// What a resize of each resource does to the container.
fn validate_resize_policy(
    container: &Container,
    pod: &Pod<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut names = BTreeSet::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        if !names.insert(policy.resource_name.as_str()) {
            errors.duplicate(&path.index(index), policy.resource_name.as_str());
        }
        let known: [(&str, &[&str]); 2] = [
            (&policy.resource_name, &["cpu", "memory"]),
            (&policy.restart_policy, &["NotRequired", "RestartContainer"]),
        ];
        for (value, known) in known {
            if value.is_empty() {
                errors.required(path, "");
            } else if !known.contains(&value) {
                errors.not_supported(path, value, known);
            }
        }
        if pod.restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, policy.restart_policy.as_str(), detail);
        }
    }
}

fn validate_ports(ports: &[ContainerPort], path: &Path, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            let messages = is_port_name(name);
            check::format(name, &messages, &path.child("name"), errors);
            if messages.is_empty() && !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        if port.container_port == 0 {
            errors.required(&path.child("containerPort"), "");
        } else {
            check::port_number(port.container_port, &path.child("containerPort"), errors);
        }
        if let Some(host_port) = port.host_port.filter(|it| *it != 0) {
            check::port_number(host_port, &path.child("hostPort"), errors);
        }
        let protocol = text(port.protocol.as_ref());
        check::one_of(protocol, &["SCTP", "TCP", "UDP"], &path.child("protocol"), errors);
    }
}

/// A pod on the network of its node has the ports of the node.
pub(super) fn validate_host_network(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    if spec.host_network != Some(true) {
        return;
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.index(index).child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            // A template may leave it out: its pods get it.
            if host_port != 0 && host_port != port.container_port {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.index(index).child("hostPort"), host_port, detail);
            }
        }
    }
}

fn validate_host_ports(
    container: &Container,
    taken: &mut BTreeSet<String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let path = path.child("ports").index(index);
        let host_port = port.host_port.unwrap_or(0);
        if host_port == 0 {
            continue;
        }
        let (protocol, host_ip) = (text(port.protocol.as_ref()), text(port.host_ip.as_ref()));
        let address = format!("{protocol}/{host_ip}/{host_port}");
        if !taken.insert(address.clone()) {
            errors.duplicate(&path.child("hostPort"), address);
        }
    }
}

fn validate_env(env: &EnvVar, path: &Path, errors: &mut FieldErrors) {
    if env.name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        check::format(&env.name, &is_env_var_name(&env.name), &path.child("name"), errors);
    }
    if let Some(source) = &env.value_from {
        let has_value = !text(env.value.as_ref()).is_empty();
        validate_env_source(source, has_value, &path.child("valueFrom"), errors);
    }
}

fn validate_env_source(
    source: &EnvVarSource,
    has_value: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut n_sources = 0;
    if let Some(field) = &source.field_ref {
        n_sources += 1;
        downward::validate_field(field, Reader::Variable, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = &source.resource_field_ref {
        n_sources += 1;
        let path = path.child("resourceFieldRef");
        downward::validate_resource(resource, Reader::Variable, &path, errors);
    }
    if let Some(key) = &source.config_map_key_ref {
        n_sources += 1;
        let path = path.child("configMapKeyRef");
        validate_key_ref(&key.name, &key.key, &path, errors);
    }
    if let Some(key) = &source.secret_key_ref {
        n_sources += 1;
        validate_key_ref(&key.name, &key.key, &path.child("secretKeyRef"), errors);
    }
    if let Some(key) = &source.file_key_ref {
        n_sources += 1;
        validate_file_key(key, &path.child("fileKeyRef"), errors);
    }
    if n_sources == 0 {
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if has_value {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if n_sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn validate_key_ref(name: &str, key: &str, path: &Path, errors: &mut FieldErrors) {
    check::format(name, &is_dns_subdomain(name), &path.child("name"), errors);
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        let messages = apimachinery::validation::is_config_key(key);
        check::format(key, &messages, &path.child("key"), errors);
    }
}

fn validate_file_key(key: &FileKeySelector, path: &Path, errors: &mut FieldErrors) {
    let FileKeySelector { key, volume_name, path: file, .. } = key;
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        check::format(key, &is_env_var_name(key), &path.child("key"), errors);
    }
    if volume_name.is_empty() {
        errors.required(&path.child("volumeName"), "");
    } else {
        let messages = is_dns_label(volume_name);
        check::format(volume_name, &messages, &path.child("volumeName"), errors);
    }
    if file.is_empty() {
        errors.required(&path.child("path"), "");
    } else if file.split('/').any(|it| it == "..") {
        errors.invalid(&path.child("path"), file.as_str(), "must not contain '..'");
    }
}

fn validate_env_from(source: &EnvFromSource, index: usize, list: &Path, errors: &mut FieldErrors) {
    let path = list.index(index);
    let prefix = text(source.prefix.as_ref());
    if !prefix.is_empty() {
        check::format(prefix, &is_env_var_name(prefix), &path.child("prefix"), errors);
    }
    let n_sources =
        usize::from(source.config_map_ref.is_some()) + usize::from(source.secret_ref.is_some());
    let names = [
        ("configMapRef", source.config_map_ref.as_ref().map(|it| &it.name)),
        ("secretRef", source.secret_ref.as_ref().map(|it| &it.name)),
    ];
    for (field, name) in names {
        let path = path.child(field).child("name");
        match name.map(String::as_str) {
            None => {}
            Some("") => errors.required(&path, ""),
            Some(name) => check::format(name, &is_dns_subdomain(name), &path, errors),
        }
    }
    if n_sources == 0 {
        errors.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`");
    } else if n_sources > 1 {
        errors.invalid(list, "", "may not have more than one field specified at a time");
    }
}
