//! Labels whose values a pod gives itself, in pod affinity and topology spread.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::check;

/// `path` is that of the term. The selector of a pod has the values of its labels by now, so that
/// a key is there once too often only where the selector has it a second time.
pub(super) fn validate(
    matching: &[String],
    mismatching: &[String],
    selector: Option<&LabelSelector>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let of_matching = path.child("matchLabelKeys");
    validate_names(matching, selector, &of_matching, errors);
    validate_names(mismatching, selector, &path.child("mismatchLabelKeys"), errors);
    if let Some(selector) = selector {
        validate_once(matching, selector, path, errors);
    }
    let mismatching: BTreeSet<&String> = mismatching.iter().collect();
    for (index, key) in matching.iter().enumerate().filter(|(_, it)| mismatching.contains(it)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(&of_matching.index(index), key.as_str(), detail);
    }
}

fn validate_names(
    keys: &[String],
    selector: Option<&LabelSelector>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !keys.is_empty() && selector.is_none() {
        return errors.forbidden(path, "must not be specified when labelSelector is not set");
    }
    for (index, key) in keys.iter().enumerate() {
        check::format(key, &is_qualified_name(key), &path.index(index), errors);
    }
}

/// The path of a problem is upstream's: the place in the list of keys, but not that list's name.
fn validate_once(keys: &[String], selector: &LabelSelector, path: &Path, errors: &mut FieldErrors) {
    let places: BTreeMap<&String, usize> =
        keys.iter().enumerate().map(|(index, key)| (key, index)).collect();
    let mut seen: BTreeSet<&String> =
        selector.match_labels.iter().flatten().map(|it| it.0).collect();
    for expression in selector.match_expressions.iter().flatten() {
        let key = &expression.key;
        let is_second = !seen.insert(key);
        if let Some(index) = places.get(key).filter(|_| is_second) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&path.index(*index), key.as_str(), detail);
        }
    }
}
