//! What is done to a container from outside: lifecycle hooks and probes.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, PodSpec, Probe,
    SleepAction, TCPSocketAction,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::check::{self, text};

/// Lifecycle hooks and probes, where they are allowed.
pub(super) fn validate_handlers(
    container: &Container,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(lifecycle) = &container.lifecycle {
        let path = path.child("lifecycle");
        if let Some(handler) = &lifecycle.post_start {
            validate_hook(handler, spec, &path.child("postStart"), errors);
        }
        if let Some(handler) = &lifecycle.pre_stop {
            validate_hook(handler, spec, &path.child("preStop"), errors);
        }
    }
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (field, probe) in probes {
        let Some(probe) = probe else { continue };
        let path = path.child(field);
        validate_probe(probe, &path, errors);
        let successes = probe.success_threshold.unwrap_or(1);
        if field != "readinessProbe" && successes != 1 {
            errors.invalid(&path.child("successThreshold"), successes, "must be 1");
        }
        if field == "readinessProbe" && probe.termination_grace_period_seconds.is_some() {
            errors.invalid(
                &path.child("terminationGracePeriodSeconds"),
                probe.termination_grace_period_seconds,
                "must not be set for readinessProbes",
            );
        }
    }
}

pub(super) fn refuse_handlers(
    container: &Container,
    detail: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (field, is_set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if is_set {
            errors.forbidden(&path.child(field), detail);
        }
    }
}

fn validate_hook(
    handler: &LifecycleHandler,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let ways = [
        handler.exec.as_ref().map(Way::Exec),
        handler.http_get.as_ref().map(Way::Http),
        handler.tcp_socket.as_ref().map(Way::Tcp),
        handler.sleep.as_ref().map(|it| Way::Sleep(it, spec.termination_grace_period_seconds)),
    ];
    validate_one(ways.into_iter().flatten(), path, errors);
}

fn validate_probe(probe: &Probe, path: &Path, errors: &mut FieldErrors) {
    let ways = [
        probe.exec.as_ref().map(Way::Exec),
        probe.http_get.as_ref().map(Way::Http),
        probe.tcp_socket.as_ref().map(Way::Tcp),
        probe.grpc.as_ref().map(Way::Grpc),
    ];
    validate_one(ways.into_iter().flatten(), path, errors);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        check::non_negative(number.unwrap_or(0), &path.child(field), errors);
    }
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|it| *it <= 0) {
        let path = path.child("terminationGracePeriodSeconds");
        errors.invalid(&path, seconds, "must be greater than 0");
    }
}

/// How a container is asked or told.
enum Way<'a> {
    Exec(&'a ExecAction),
    Http(&'a HTTPGetAction),
    Tcp(&'a TCPSocketAction),
    Grpc(&'a GRPCAction),
    /// With the time that the pod has to end.
    Sleep(&'a SleepAction, Option<i64>),
}

impl Way<'_> {
    fn field(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Http(_) => "httpGet",
            Self::Tcp(_) => "tcpSocket",
            Self::Grpc(_) => "grpc",
            Self::Sleep(..) => "sleep",
        }
    }

    fn validate(&self, path: &Path, errors: &mut FieldErrors) {
        match self {
            Self::Exec(exec) => {
                if exec.command.as_ref().is_none_or(Vec::is_empty) {
                    errors.required(&path.child("command"), "");
                }
            }
            Self::Http(http) => validate_http(http, path, errors),
            Self::Tcp(tcp) => check::port_number_or_name(&tcp.port, &path.child("port"), errors),
            Self::Grpc(grpc) => check::port_number(grpc.port, &path.child("port"), errors),
            Self::Sleep(sleep, grace) => {
                if let Some(grace) = grace.filter(|it| !(0..=*it).contains(&sleep.seconds)) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.invalid(path, sleep.seconds, &detail);
                }
            }
        }
    }
}

fn validate_http(http: &HTTPGetAction, path: &Path, errors: &mut FieldErrors) {
    if text(http.path.as_ref()).is_empty() {
        errors.required(&path.child("path"), "");
    }
    check::port_number_or_name(&http.port, &path.child("port"), errors);
    let scheme = text(http.scheme.as_ref());
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '-';
    for header in http.http_headers.iter().flatten() {
        if header.name.is_empty() || !header.name.chars().all(is_letter) {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                          'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            errors.invalid(&path.child("httpHeaders"), header.name.as_str(), detail);
        }
    }
}

/// The first counts.
fn validate_one<'a>(
    mut ways: impl Iterator<Item = Way<'a>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    match ways.next() {
        None => errors.required(path, "must specify a handler type"),
        Some(way) => way.validate(&path.child(way.field()), errors),
    }
    for way in ways {
        errors.forbidden(&path.child(way.field()), "may not specify more than 1 handler type");
    }
}
