//! Where a pod may run: tolerations, affinity, topology spread, gates.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name, validate_label_selector,
    validate_labels,
};

use super::label_keys;
use crate::check::{self, text};

/// A pod that a constraint does not allow anywhere waits.
const WAIT: &str = "DoNotSchedule";

pub(super) fn validate_selector(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    if let Some(selector) = &spec.node_selector {
        validate_labels(selector, &path.child("nodeSelector"), errors);
    }
}

pub(super) fn validate_affinity_of(
    spec: &PodSpec,
    values: Values,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(affinity) = &spec.affinity {
        validate_affinity(affinity, values, &path.child("affinity"), errors);
    }
}

/// Values that were stored before they were checked do not hinder other changes.
pub(crate) fn allowed_values(stored: &PodSpec) -> Values {
    let affinity = stored.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|it| it.node_selector_terms.as_slice());
    Values::taken(terms.unwrap_or_default())
}

pub(super) fn validate_spread_of(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    validate_spread(constraints, &path.child("topologySpreadConstraints"), errors);
}

pub(super) fn validate_gates(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let mut gates = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let path = path.child("schedulingGates").index(index);
        check::format(&gate.name, &is_qualified_name(&gate.name), &path, errors);
        if !gates.insert(&gate.name) {
            errors.duplicate(&path, gate.name.as_str());
        }
    }
}

pub fn validate_tolerations(tolerations: &[Toleration], path: &Path, errors: &mut FieldErrors) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let path_operator = path.child("operator");
        let key = text(toleration.key.as_ref());
        let operator = text(toleration.operator.as_ref());
        let value = text(toleration.value.as_ref());
        let effect = text(toleration.effect.as_ref());
        if !key.is_empty() {
            check::format(key, &is_qualified_name(key), &path.child("key"), errors);
        } else if operator != "Exists" {
            errors.invalid(
                &path_operator,
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            errors.invalid(
                &path.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                if let Some(message) = is_label_value(value).first() {
                    errors.invalid(&path_operator, value, message);
                }
            }
            "Exists" if !value.is_empty() => errors.invalid(
                &path_operator,
                value,
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            // Of a feature that is off.
            "Lt" | "Gt" => errors.not_supported_as_listed(
                &path_operator,
                operator,
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            _ => errors.not_supported(&path_operator, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            check::one_of_listed(effect, &EFFECTS, &path.child("effect"), errors);
        }
    }
}

fn validate_affinity(affinity: &Affinity, values: Values, path: &Path, errors: &mut FieldErrors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(it) = &affinity.node_affinity {
        validate_node_affinity(it, values, &path.child("nodeAffinity"), errors);
    }
    if let Some(it) = &affinity.pod_affinity {
        let path = path.child("podAffinity");
        let required = it.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = it.preferred_during_scheduling_ignored_during_execution.as_deref();
        validate_pod_terms(required.unwrap_or_default(), &path.child(REQUIRED), errors);
        validate_weighted_terms(preferred.unwrap_or_default(), &path.child(PREFERRED), errors);
    }
    if let Some(it) = &affinity.pod_anti_affinity {
        let path = path.child("podAntiAffinity");
        let required = it.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = it.preferred_during_scheduling_ignored_during_execution.as_deref();
        validate_pod_terms(required.unwrap_or_default(), &path.child(REQUIRED), errors);
        validate_weighted_terms(preferred.unwrap_or_default(), &path.child(PREFERRED), errors);
    }
}

fn validate_weight(weight: i32, path: &Path, errors: &mut FieldErrors) {
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_affinity(
    affinity: &NodeAffinity,
    values: Values,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        validate_node_selector(selector, values, &path, errors);
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (index, term) in preferred.enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        validate_weight(term.weight, &path, errors);
        let path = path.child("preference");
        // Of what is only preferred, any value is taken.
        validate_node_term(&term.preference, Values::AsTheyAre, &path, errors);
    }
}

/// What may stand in the values of a node selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Whatever a label may be.
    OfLabels,
    /// Anything: what was taken once stays.
    AsTheyAre,
}

impl Values {
    /// What may go on standing where `terms` were stored.
    pub(crate) fn taken(terms: &[NodeSelectorTerm]) -> Self {
        let expressions = terms.iter().flat_map(|it| it.match_expressions.iter().flatten());
        let mut values = expressions.flat_map(|it| it.values.iter().flatten());
        match values.any(|it| !is_label_value(it).is_empty()) {
            true => Self::AsTheyAre,
            false => Self::OfLabels,
        }
    }
}

pub(crate) fn validate_node_selector(
    selector: &NodeSelector,
    values: Values,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (index, term) in selector.node_selector_terms.iter().enumerate() {
        validate_node_term(term, values, &path.index(index), errors);
    }
}

fn validate_node_term(
    term: &NodeSelectorTerm,
    values: Values,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, requirement) in term.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        validate_requirement(requirement, &path, errors);
        let key = &requirement.key;
        check::format(key, &is_qualified_name(key), &path.child("key"), errors);
        let given = requirement.values.iter().flatten().enumerate();
        for (index, value) in given.filter(|_| values == Values::OfLabels) {
            check::format(
                value,
                &is_label_value(value),
                &path.child("values").index(index),
                errors,
            );
        }
    }
    for (index, requirement) in term.match_fields.iter().flatten().enumerate() {
        let path = path.child("matchFields").index(index);
        if !["In", "NotIn"].contains(&requirement.operator.as_str()) {
            let operator = requirement.operator.as_str();
            errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
        } else if requirement.values.as_ref().map_or(0, Vec::len) != 1 {
            errors.required(
                &path.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            );
        }
        if requirement.key != "metadata.name" {
            let key = requirement.key.as_str();
            errors.invalid(&path.child("key"), key, "not a valid field selector key");
            continue;
        }
        for (index, name) in requirement.values.iter().flatten().enumerate() {
            check::format(
                name,
                &is_dns_subdomain(name),
                &path.child("values").index(index),
                errors,
            );
        }
    }
}

fn validate_requirement(it: &NodeSelectorRequirement, path: &Path, errors: &mut FieldErrors) {
    let n_values = it.values.as_ref().map_or(0, Vec::len);
    let path_values = path.child("values");
    match it.operator.as_str() {
        "In" | "NotIn" if n_values == 0 => {
            errors.required(&path_values, "must be specified when `operator` is 'In' or 'NotIn'")
        }
        "Exists" | "DoesNotExist" if n_values > 0 => errors.forbidden(
            &path_values,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if n_values != 1 => errors.required(
            &path_values,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
}

fn validate_pod_terms(terms: &[PodAffinityTerm], path: &Path, errors: &mut FieldErrors) {
    for (index, term) in terms.iter().enumerate() {
        validate_pod_term(term, &path.index(index), errors);
    }
}

fn validate_weighted_terms(
    terms: &[WeightedPodAffinityTerm],
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        validate_weight(term.weight, &path, errors);
        validate_pod_term(&term.pod_affinity_term, &path.child("podAffinityTerm"), errors);
    }
}

fn validate_pod_term(term: &PodAffinityTerm, path: &Path, errors: &mut FieldErrors) {
    let selector = term.label_selector.as_ref();
    if let Some(selector) = selector {
        validate_label_selector(selector, &path.child("labelSelector"), errors);
    }
    if let Some(selector) = &term.namespace_selector {
        validate_label_selector(selector, &path.child("namespaceSelector"), errors);
    }
    for namespace in term.namespaces.iter().flatten() {
        // The path is upstream's: of no field, and without an index.
        check::format(namespace, &is_dns_label(namespace), &path.child("namespace"), errors);
    }
    let matching = term.match_label_keys.as_deref().unwrap_or_default();
    let mismatching = term.mismatch_label_keys.as_deref().unwrap_or_default();
    label_keys::validate(matching, mismatching, selector, path, errors);
    let path = path.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.required(&path, "can not be empty");
    }
    check::format(&term.topology_key, &is_qualified_name(&term.topology_key), &path, errors);
}

fn validate_spread(
    constraints: &[TopologySpreadConstraint],
    path: &Path,
    errors: &mut FieldErrors,
) {
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    let last: BTreeMap<_, usize> =
        constraints.iter().enumerate().map(|(index, it)| (pair(it), index)).collect();
    for (index, it) in constraints.iter().enumerate() {
        let path = path.index(index);
        if it.max_skew <= 0 {
            errors.invalid(&path.child("maxSkew"), it.max_skew, "must be greater than zero");
        }
        if it.topology_key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = it.when_unsatisfiable.as_str();
        if ![WAIT, "ScheduleAnyway"].contains(&action) {
            let path = path.child("whenUnsatisfiable");
            errors.not_supported(&path, action, &[WAIT, "ScheduleAnyway"]);
        }
        // The one that comes again later is named, not the one that was there before.
        if last.get(&pair(it)) != Some(&index) {
            let shown = format!("{{{}, {action}}}", it.topology_key);
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), shown);
        }
        if let Some(domains) = it.min_domains {
            validate_min_domains(domains, action, &path.child("minDomains"), errors);
        }
        for (field, policy) in [
            ("nodeAffinityPolicy", &it.node_affinity_policy),
            ("nodeTaintsPolicy", &it.node_taints_policy),
        ] {
            let policy = policy.as_deref().unwrap_or("Honor");
            if !POLICIES.contains(&policy) {
                errors.not_supported(&path.child(field), policy, &POLICIES);
            }
        }
        let keys = it.match_label_keys.as_deref().unwrap_or_default();
        label_keys::validate(keys, &[], it.label_selector.as_ref(), &path, errors);
        if let Some(selector) = &it.label_selector {
            validate_label_selector(selector, &path.child("labelSelector"), errors);
        }
    }
}

/// What no two constraints have in common.
fn pair(it: &TopologySpreadConstraint) -> (&str, &str) {
    (&it.topology_key, &it.when_unsatisfiable)
}

fn validate_min_domains(domains: i32, action: &str, path: &Path, errors: &mut FieldErrors) {
    if domains <= 0 {
        errors.invalid(path, domains, "must be greater than zero");
    }
    if action != WAIT {
        let detail = format!("can only use minDomains if whenUnsatisfiable={WAIT}, not {action}");
        errors.invalid(path, domains, &detail);
    }
}
