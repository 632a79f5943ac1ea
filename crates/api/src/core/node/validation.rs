//! What is wrong with a Node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};

use apimachinery::FieldErrors;
use apimachinery::field::{Cause, Path};
use apimachinery::validation::{is_cidr, is_label_value, is_qualified_name};

use super::annotations;
use crate::check::{self, text};
use crate::core::resource_names;

const UNSORTED: &str = "list must be sorted alphabetically";

pub(super) fn validate(node: &Node, errors: &mut FieldErrors) {
    if let Some(it) = &node.metadata.annotations {
        annotations::validate(it, errors);
    }
    let taints = node.spec.as_ref().and_then(|it| it.taints.as_deref()).unwrap_or_default();
    // Upstream names this path, though taints are in the spec; clients may match it.
    validate_taints(taints, &Path::new("metadata").child("taints"), errors);
    let ranges = node.spec.as_ref().and_then(|it| it.pod_cidrs.as_deref()).unwrap_or_default();
    validate_ranges(ranges, &Path::new("spec").child("podCIDRs"), errors);
    let Some(status) = &node.status else { return };
    let features = status.declared_features.as_deref().unwrap_or_default();
    validate_features(features, &Path::new("status").child("declaredFeatures"), errors);
    for (field, quantities) in
        [("capacity", &status.capacity), ("allocatable", &status.allocatable)]
    {
        for (name, quantity) in quantities.iter().flatten() {
            let path = Path::new("status").child(field).child(name);
            resource_names::validate_amount(name, quantity, &path, errors);
        }
    }
}

/// Of pods: one of each family at most.
fn validate_ranges(ranges: &[String], path: &Path, errors: &mut FieldErrors) {
    let mut has_bad = false;
    for (index, range) in ranges.iter().enumerate() {
        let problems = is_cidr(range);
        has_bad |= !problems.is_empty();
        check::format(range, &problems, &path.index(index), errors);
    }
    if ranges.len() < 2 || has_bad {
        return;
    }
    let n_v6 = ranges.iter().filter(|it| it.contains(':')).count();
    if n_v6 == 0 || n_v6 == ranges.len() || ranges.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(path, ranges.to_vec(), detail);
    }
}

/// `MyFeature` or `MyFeature/mySubFeature`, sorted, each once.
fn validate_features(features: &[String], path: &Path, errors: &mut FieldErrors) {
    for (index, feature) in features.iter().enumerate() {
        let mut parts = feature.split('/');
        let is_upper = feature.starts_with(|it: char| it.is_ascii_uppercase());
        let is_name = |it: &str| !it.is_empty() && it.chars().all(|it| it.is_ascii_alphanumeric());
        if !is_upper || !parts.all(is_name) {
            let detail = format!(
                "invalid feature name {feature:?}: must start with an UpperCamelCase segment, with \
                 subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), \
                 and contain only alphanumeric characters and slashes"
            );
            errors.invalid(&path.index(index), feature.as_str(), &detail);
        }
        let Some(next) = features.get(index + 1) else { continue };
        if feature == next {
            errors.duplicate(&path.index(index + 1), next.as_str());
        } else if feature > next {
            errors.invalid(&path.index(index + 1), next.as_str(), UNSORTED);
        }
    }
}

pub(super) fn validate_taints(taints: &[Taint], path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        check::format(&taint.key, &is_qualified_name(&taint.key), &path.child("key"), errors);
        let value = text(taint.value.as_ref());
        let messages = is_label_value(value);
        if !messages.is_empty() {
            errors.invalid(&path.child("value"), value, &messages.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check::one_of_listed(&taint.effect, &effects, &path.child("effect"), errors);
        if !seen.insert((&taint.key, &taint.effect)) {
            let shown = serde_json::to_string(taint).unwrap_or_default();
            let detail = "taints must be unique by key and effect pair";
            errors.push(&path, Cause::Duplicate, format!("Duplicate value: {shown}: {detail}"));
        }
    }
}

pub(super) fn validate_update(node: &Node, stored: &Node, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    let addresses = node.status.iter().flat_map(|it| it.addresses.iter().flatten());
    for (index, address) in addresses.enumerate() {
        if !seen.insert((&address.type_, &address.address)) {
            let shown = serde_json::to_value(address).unwrap_or_default();
            errors.duplicate(&Path::new("status").child("addresses").index(index), shown);
        }
    }
    let absent = NodeSpec::default();
    let spec = node.spec.as_ref().unwrap_or(&absent);
    let old = stored.spec.as_ref().unwrap_or(&absent);
    let path = Path::new("spec");
    let ranges = old.pod_cidrs.as_deref().unwrap_or_default();
    if !ranges.is_empty() && spec.pod_cidrs.as_deref().unwrap_or_default() != ranges {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(&path.child("podCIDRs"), detail);
    }
    let provider = text(old.provider_id.as_ref());
    if !provider.is_empty() && text(spec.provider_id.as_ref()) != provider {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&path.child("providerID"), detail);
    }
    if text(spec.external_id.as_ref()) != text(old.external_id.as_ref()) {
        errors.forbidden(&path.child("externalID"), "may not be updated");
    }
}
