//! What is wrong with an Ingress.

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS,
};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_path_segment, is_port_name, is_wildcard_dns_subdomain,
};

use super::{CLASS_ANNOTATION, annotated_class, entry_points};
use crate::addresses;
use crate::check::{self, text};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// What a path that is compared piece by piece may not have inside, and not at its end.
const BAD_SEQUENCES: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: &[&str] = &["/..", "/."];

/// What was stored before it was checked may stay.
#[derive(Default)]
struct Tolerated {
    secret_names: bool,
    rules_of_wildcards: bool,
}

impl Tolerated {
    fn of(stored: &IngressSpec) -> Self {
        let is_bad_secret = |it: &IngressTLS| !secret_problems(it).is_empty();
        let is_bad_rule = |it: &IngressRule| {
            let mut errors = FieldErrors::new();
            validate_rule(it, &Path::root(), &mut errors);
            is_wildcard(it) && !errors.is_empty()
        };
        Self {
            secret_names: stored.tls.iter().flatten().any(is_bad_secret),
            rules_of_wildcards: stored.rules.iter().flatten().any(is_bad_rule),
        }
    }
}

pub(super) fn validate(ingress: &Ingress, stored: Option<&Ingress>, errors: &mut FieldErrors) {
    let stored = stored.and_then(|it| it.spec.as_ref());
    let tolerated = stored.map(Tolerated::of).unwrap_or_default();
    let absent = IngressSpec::default();
    let spec = ingress.spec.as_ref().unwrap_or(&absent);
    let path = Path::new("spec");
    let rules = spec.rules.as_deref().unwrap_or_default();
    if rules.is_empty() && spec.default_backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        let shown = spec.rules.as_ref().map_or(Value::Null, |_| Value::Array(Vec::new()));
        errors.invalid(&path, shown, detail);
    }
    if let Some(backend) = &spec.default_backend {
        validate_backend(backend, &path.child("defaultBackend"), errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("rules").index(index);
        validate_host(rule, &path.child("host"), errors);
        if !(is_wildcard(rule) && tolerated.rules_of_wildcards) {
            validate_rule(rule, &path, errors);
        }
    }
    for (index, tls) in spec.tls.iter().flatten().enumerate() {
        validate_tls(tls, &tolerated, &path.child("tls").index(index), errors);
    }
    if let Some(class) = &spec.ingress_class_name {
        check::format(class, &is_dns_subdomain(class), &path.child("ingressClassName"), errors);
    }
}

/// Both ways to name a class name the same one.
pub(super) fn validate_class(ingress: &Ingress, errors: &mut FieldErrors) {
    let class = ingress.spec.as_ref().and_then(|it| it.ingress_class_name.as_ref());
    if let (Some(annotated), Some(class)) = (annotated_class(ingress), class)
        && annotated != class
    {
        let path = Path::new("annotations").child(CLASS_ANNOTATION);
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(&path, annotated.as_str(), detail);
    }
}

fn is_wildcard(rule: &IngressRule) -> bool {
    text(rule.host.as_ref()).contains('*')
}

fn host_problems(host: &str) -> Vec<String> {
    if host.contains('*') { is_wildcard_dns_subdomain(host) } else { is_dns_subdomain(host) }
}

fn validate_host(rule: &IngressRule, path: &Path, errors: &mut FieldErrors) {
    let host = text(rule.host.as_ref());
    if host.is_empty() {
        return;
    }
    if addresses::read_ip(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
    check::format(host, &host_problems(host), path, errors);
}

fn validate_tls(tls: &IngressTLS, tolerated: &Tolerated, path: &Path, errors: &mut FieldErrors) {
    for (index, host) in tls.hosts.iter().flatten().enumerate() {
        check::format(host, &host_problems(host), &path.child("hosts").index(index), errors);
    }
    if !tolerated.secret_names {
        let name = text(tls.secret_name.as_ref());
        check::format(name, &secret_problems(tls), &path.child("secretName"), errors);
    }
}

fn secret_problems(tls: &IngressTLS) -> Vec<String> {
    let name = text(tls.secret_name.as_ref());
    if name.is_empty() { Vec::new() } else { is_dns_subdomain(name) }
}

fn validate_rule(rule: &IngressRule, path: &Path, errors: &mut FieldErrors) {
    if let Some(http) = &rule.http {
        validate_http(http, &path.child("http").child("paths"), errors);
    }
}

fn validate_http(http: &HTTPIngressRuleValue, path: &Path, errors: &mut FieldErrors) {
    if http.paths.is_empty() {
        errors.required(path, "");
    }
    for (index, it) in http.paths.iter().enumerate() {
        validate_path(it, &path.index(index), errors);
    }
}

fn validate_path(it: &HTTPIngressPath, path: &Path, errors: &mut FieldErrors) {
    let text = text(it.path.as_ref());
    let path_text = path.child("path");
    let is_absolute = text.starts_with('/');
    let is_absolute_or_none = is_absolute || text.is_empty();
    let relative = "must be an absolute path";
    match it.path_type.as_str() {
        "" => return errors.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !is_absolute {
                errors.invalid(&path_text, text, relative);
            }
            for bad in BAD_SEQUENCES.iter().filter(|it| text.contains(**it)) {
                errors.invalid(&path_text, text, &format!("must not contain '{bad}'"));
            }
            for bad in BAD_ENDS.iter().filter(|it| text.ends_with(**it)) {
                errors.invalid(&path_text, text, &format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" if is_absolute_or_none => {}
        "ImplementationSpecific" => errors.invalid(&path_text, text, relative),
        other => errors.not_supported(&path.child("pathType"), other, PATH_TYPES),
    }
    validate_backend(&it.backend, &path.child("backend"), errors);
}

fn validate_backend(backend: &IngressBackend, path: &Path, errors: &mut FieldErrors) {
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => {
            errors.invalid(path, "", "cannot set both resource and service backends");
        }
        (Some(resource), None) => validate_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => validate_service(service, path, errors),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn validate_service(service: &IngressServiceBackend, path: &Path, errors: &mut FieldErrors) {
    let path_service = path.child("service");
    let path_name = path_service.child("name");
    if service.name.is_empty() {
        errors.required(&path_name, "");
    } else {
        check::format(&service.name, &is_dns_label(&service.name), &path_name, errors);
    }
    let port = service.port.clone().unwrap_or_default();
    let (name, number) = (text(port.name.as_ref()), port.number.unwrap_or(0));
    let path_port = path_service.child("port");
    match (name.is_empty(), number) {
        (true, 0) => errors.required(path, "port name or number is required"),
        (true, _) => check::port_number(number, &path_port.child("number"), errors),
        (false, 0) => check::format(name, &is_port_name(name), &path_port.child("name"), errors),
        (false, _) => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

fn validate_reference(
    reference: &TypedLocalObjectReference,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(group) = &reference.api_group {
        check::format(group, &is_dns_subdomain(group), &path.child("apiGroup"), errors);
    }
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        let path = path.child(field);
        if value.is_empty() {
            errors.required(&path, "");
        } else {
            check::format(value, &is_path_segment(value), &path, errors);
        }
    }
}

pub(super) fn validate_status(ingress: &Ingress, stored: &Ingress, errors: &mut FieldErrors) {
    let known: Vec<&str> = entry_points(stored).iter().filter_map(|it| it.ip.as_deref()).collect();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    for (index, point) in entry_points(ingress).iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (text(point.ip.as_ref()), text(point.hostname.as_ref()));
        if !ip.is_empty() {
            addresses::validate_older_ip(ip, &known, &path.child("ip"), errors);
        }
        if !hostname.is_empty() {
            let path = path.child("hostname");
            check::format(hostname, &is_dns_subdomain(hostname), &path, errors);
            if addresses::read_ip(hostname).is_some() {
                errors.invalid(&path, hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}
