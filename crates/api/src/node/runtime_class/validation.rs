//! What is wrong with a RuntimeClass.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::api::node::v1::{Overhead, RuntimeClass, Scheduling};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, validate_labels};

use crate::core::pod_spec::validation::{validate_resources, validate_tolerations};
use crate::{check, codec};

pub(super) fn validate(class: &RuntimeClass, errors: &mut FieldErrors) {
    let (handler, path) = (class.handler.as_str(), Path::new("handler"));
    if handler.is_empty() {
        errors.required(&path, "");
    } else {
        check::format(handler, &is_dns_label(handler), &path, errors);
    }
    if let Some(overhead) = &class.overhead {
        validate_overhead(overhead, &Path::new("overhead"), errors);
    }
    if let Some(scheduling) = &class.scheduling {
        validate_scheduling(scheduling, &Path::new("scheduling"), errors);
    }
}

pub(super) fn validate_update(
    class: &RuntimeClass,
    stored: &RuntimeClass,
    errors: &mut FieldErrors,
) {
    let is_same = class.handler == stored.handler;
    check::immutable(is_same, class.handler.as_str(), &Path::new("handler"), errors);
}

/// The rules, and the paths, are those of the limits of a container.
fn validate_overhead(overhead: &Overhead, path: &Path, errors: &mut FieldErrors) {
    let limits = overhead.pod_fixed.clone();
    validate_resources(&ResourceRequirements { limits, ..Default::default() }, path, errors);
}

fn validate_scheduling(scheduling: &Scheduling, path: &Path, errors: &mut FieldErrors) {
    if let Some(selector) = &scheduling.node_selector {
        validate_labels(selector, &path.child("nodeSelector"), errors);
    }
    let tolerations = scheduling.tolerations.as_deref().unwrap_or_default();
    let path = path.child("tolerations");
    validate_tolerations(tolerations, &path, errors);
    let mut seen = BTreeSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let Toleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
        if !seen.insert((key, operator, value, effect)) {
            errors.duplicate(&path.index(index), codec::tree(toleration));
        }
    }
}
