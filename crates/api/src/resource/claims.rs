//! What a claim asks for, in claims themselves and in templates of them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceSubRequest,
    DeviceToleration, ExactDeviceRequest, ResourceClaimSpec,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::configuration::{self, CONFIGS_MAX, Seen};
use super::{bounded, names, taints};
use crate::check::{self, text};

/// As many as devices can be allocated.
pub(super) const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;

const EXACT_COUNT: &str = "ExactCount";
const ALLOCATION_MODES: &[&str] = &["All", EXACT_COUNT];

pub(super) fn apply_defaults(spec: &mut ResourceClaimSpec) {
    let claim = spec.devices.get_or_insert_default();
    for request in claim.requests.iter_mut().flatten() {
        if let Some(exactly) = &mut request.exactly {
            default_count(&mut exactly.allocation_mode, &mut exactly.count);
            default_operators(&mut exactly.tolerations);
        }
        for alternative in request.first_available.iter_mut().flatten() {
            default_count(&mut alternative.allocation_mode, &mut alternative.count);
            default_operators(&mut alternative.tolerations);
        }
    }
}

/// One device, unless it says otherwise.
pub(super) fn default_count(mode: &mut Option<String>, count: &mut Option<i64>) {
    if text(mode.as_ref()).is_empty() {
        *mode = Some(EXACT_COUNT.to_owned());
    }
    if mode.as_deref() == Some(EXACT_COUNT) && count.unwrap_or(0) == 0 {
        *count = Some(1);
    }
}

fn default_operators(tolerations: &mut Option<Vec<DeviceToleration>>) {
    for toleration in tolerations.iter_mut().flatten() {
        if text(toleration.operator.as_ref()).is_empty() {
            toleration.operator = Some("Equal".to_owned());
        }
    }
}

/// The names of requests, with those of their alternatives.
pub(super) struct RequestNames<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> RequestNames<'a> {
    pub(super) fn of(spec: &'a ResourceClaimSpec) -> Self {
        let requests = spec.devices.iter().flat_map(|it| it.requests.iter().flatten());
        let names = |it: &'a DeviceRequest| {
            it.first_available.iter().flatten().map(|it| it.name.as_str()).collect()
        };
        Self(requests.map(|it| (it.name.as_str(), names(it))).collect())
    }

    /// `request`, or `request/alternative`.
    pub(super) fn validate(&self, name: &str, path: &Path, errors: &mut FieldErrors) {
        let unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let parts: Vec<&str> = name.split('/').collect();
        let is_known = match parts[..] {
            [request] => self.0.contains_key(request),
            [request, alternative] => {
                self.0.get(request).is_some_and(|it| it.contains(alternative))
            }
            _ => return errors.invalid(path, name, unknown),
        };
        for part in parts {
            names::validate_label(part, path, errors);
        }
        if !is_known {
            errors.invalid(path, name, unknown);
        }
    }

    pub(super) fn validate_all(
        &self,
        all: Option<&Vec<String>>,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        let all = all.map_or(&[][..], Vec::as_slice);
        bounded::set(all, REQUESTS_MAX, (path, errors), String::clone, |it, path, errors| {
            self.validate(it, path, errors);
        });
    }
}

pub(super) fn validate(spec: &ResourceClaimSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(claim) = &spec.devices else { return };
    let (path, known) = (path.child("devices"), RequestNames::of(spec));
    validate_requests(claim, &path.child("requests"), errors);
    let constraints = claim.constraints.as_deref().unwrap_or_default();
    let constraints_path = path.child("constraints");
    bounded::list(constraints, CONSTRAINTS_MAX, &constraints_path, errors, |it, path, errors| {
        validate_constraint(it, &known, path, errors);
    });
    let configs = claim.config.as_deref().unwrap_or_default();
    bounded::list(configs, CONFIGS_MAX, &path.child("config"), errors, |it, path, errors| {
        known.validate_all(it.requests.as_ref(), &path.child("requests"), errors);
        configuration::validate_opaque(it.opaque.as_ref(), Seen::New, path, errors);
    });
}

fn validate_requests(claim: &DeviceClaim, path: &Path, errors: &mut FieldErrors) {
    let requests = claim.requests.as_deref().unwrap_or_default();
    let name = |it: &DeviceRequest| it.name.clone();
    bounded::set(requests, REQUESTS_MAX, (path, errors), name, validate_request);
}

fn validate_request(request: &DeviceRequest, path: &Path, errors: &mut FieldErrors) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    names::validate_label(&request.name, &path.child("name"), errors);
    let alternatives = request.first_available.as_deref().unwrap_or_default();
    match (&request.exactly, alternatives) {
        (None, []) => errors.required(path, ONE),
        (Some(exactly), []) => {
            validate_wish(&exactly.into(), &path.child("exactly"), errors);
        }
        (None, all) => {
            let path = path.child("firstAvailable");
            let name = |it: &DeviceSubRequest| it.name.clone();
            bounded::set(all, ALTERNATIVES_MAX, (&path, errors), name, |it, path, errors| {
                names::validate_label(&it.name, &path.child("name"), errors);
                validate_wish(&it.into(), path, errors);
            });
        }
        (Some(_), _) => {
            let why = format!("{ONE}, but multiple fields are set");
            errors.invalid(path, serde_json::Value::Null, &why);
        }
    }
}

/// What a request and each of its alternatives say alike.
struct Wish<'a> {
    class: &'a str,
    selectors: &'a [DeviceSelector],
    mode: &'a str,
    count: i64,
    tolerations: &'a [DeviceToleration],
}

impl<'a> From<&'a ExactDeviceRequest> for Wish<'a> {
    fn from(it: &'a ExactDeviceRequest) -> Self {
        Self {
            class: &it.device_class_name,
            selectors: it.selectors.as_deref().unwrap_or_default(),
            mode: text(it.allocation_mode.as_ref()),
            count: it.count.unwrap_or(0),
            tolerations: it.tolerations.as_deref().unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a DeviceSubRequest> for Wish<'a> {
    fn from(it: &'a DeviceSubRequest) -> Self {
        Self {
            class: &it.device_class_name,
            selectors: it.selectors.as_deref().unwrap_or_default(),
            mode: text(it.allocation_mode.as_ref()),
            count: it.count.unwrap_or(0),
            tolerations: it.tolerations.as_deref().unwrap_or_default(),
        }
    }
}

fn validate_wish(wish: &Wish<'_>, path: &Path, errors: &mut FieldErrors) {
    let class_path = path.child("deviceClassName");
    if wish.class.is_empty() {
        errors.required(&class_path, "");
    } else {
        check::format(wish.class, &is_dns_subdomain(wish.class), &class_path, errors);
    }
    configuration::validate_selectors(wish.selectors, &path.child("selectors"), errors);
    match wish.mode {
        "All" if wish.count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.invalid(&path.child("count"), wish.count, why);
        }
        EXACT_COUNT if wish.count <= 0 => {
            errors.invalid(&path.child("count"), wish.count, "must be greater than zero");
        }
        "All" | EXACT_COUNT => {}
        other => errors.not_supported(&path.child("allocationMode"), other, ALLOCATION_MODES),
    }
    // As upstream: their number has no bound of its own.
    for (index, toleration) in wish.tolerations.iter().enumerate() {
        let path = path.child("tolerations").index(index);
        taints::validate_toleration(toleration, &path, errors);
    }
}

fn validate_constraint(
    constraint: &DeviceConstraint,
    known: &RequestNames<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    known.validate_all(constraint.requests.as_ref(), &path.child("requests"), errors);
    match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(name), _) => {
            names::validate_fully_qualified(name, &path.child("matchAttribute"), errors);
        }
        (None, Some(name)) => {
            names::validate_fully_qualified(name, &path.child("distinctAttribute"), errors);
        }
        (None, None) => errors.required(
            path,
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        ),
    }
}
