//! What is wrong with a StorageClass.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::TopologySelectorTerm;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::StorageClass;
use crate::check::{self, text};
use crate::storage::parameters;
use crate::{codec, semantic};

const RECLAIM_POLICIES: &[&str] = &["Delete", "Retain"];
const BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

pub(super) fn validate(class: &StorageClass, errors: &mut FieldErrors) {
    parameters::validate_driver(&class.provisioner, &Path::new("provisioner"), errors);
    parameters::validate(class.parameters.as_ref(), &Path::new("parameters"), errors);
    let policy = text(class.reclaim_policy.as_ref());
    check::one_of_if_set(policy, RECLAIM_POLICIES, &Path::new("reclaimPolicy"), errors);
    let path = Path::new("volumeBindingMode");
    match class.volume_binding_mode.as_deref() {
        None => errors.required(&path, ""),
        Some(mode) if !BINDING_MODES.contains(&mode) => {
            errors.not_supported(&path, mode, BINDING_MODES);
        }
        Some(_) => {}
    }
    let n_terms = class.allowed_topologies.iter().flatten().count();
    let mut terms: Vec<Meaning<'_>> = vec![Meaning::new(); n_terms];
    for (index, term) in class.allowed_topologies.iter().flatten().enumerate() {
        let path = Path::new("allowedTopologies").index(index);
        let meaning = validate_term(term, &path, errors);
        // Upstream begins with as many empty ones.
        for _ in terms.iter().filter(|it| **it == meaning) {
            errors.duplicate(&path.child("matchLabelExpressions"), "");
        }
        terms.push(meaning);
    }
}

/// What the term means, however it is written: the values of each key.
type Meaning<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn validate_term<'a>(
    term: &'a TopologySelectorTerm,
    path: &Path,
    errors: &mut FieldErrors,
) -> Meaning<'a> {
    let mut meaning = Meaning::new();
    for (index, requirement) in term.match_label_expressions.iter().flatten().enumerate() {
        let path = path.child("matchLabelExpressions").index(index);
        let path_values = path.child("values");
        if requirement.values.is_empty() {
            errors.required(&path_values, "");
        }
        let mut values = BTreeSet::new();
        for (index, value) in requirement.values.iter().enumerate() {
            if !values.insert(value.as_str()) {
                errors.duplicate(&path_values.index(index), value.as_str());
            }
        }
        let (key, path_key) = (requirement.key.as_str(), path.child("key"));
        check::format(key, &is_qualified_name(key), &path_key, errors);
        if meaning.insert(key, values).is_some() {
            errors.duplicate(&path_key, key);
        }
    }
    meaning
}

/// What volumes were made by does not change.
pub(super) fn validate_update(
    class: &StorageClass,
    stored: &StorageClass,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal(&class.parameters, &stored.parameters);
    let shown = codec::tree(&class.parameters);
    check::immutable(is_same, shown, &Path::new("parameters"), errors);
    for (field, value, old) in [
        ("provisioner", &Some(class.provisioner.clone()), &Some(stored.provisioner.clone())),
        ("reclaimPolicy", &class.reclaim_policy, &stored.reclaim_policy),
        ("volumeBindingMode", &class.volume_binding_mode, &stored.volume_binding_mode),
    ] {
        check::immutable(value == old, codec::tree(value), &Path::new(field), errors);
    }
}
