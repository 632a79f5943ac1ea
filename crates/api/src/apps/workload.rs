//! What the kinds that make pods from a template have in common.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::{is_dns_label, validate_label_selector};

use crate::check::{self, text};
use crate::codec;
use crate::core::pod::warnings;
use crate::core::pod_spec;

/// A kind with `spec.selector`, which is mandatory.
///
/// The typed struct does not tell a selector that is empty from one that is absent, and users are
/// told which it is. So an empty one is marked when an object is read: it has a map of labels, with
/// none in it. JSON shows that as `{}`, and one without anything as null.
pub(crate) trait Selecting {
    fn selector_mut(&mut self) -> Option<&mut LabelSelector>;
}

macro_rules! selecting {
    ($($kind:ty,)*) => {
        $(impl Selecting for $kind {
            fn selector_mut(&mut self) -> Option<&mut LabelSelector> {
                self.spec.as_mut().map(|it| &mut it.selector)
            }
        })*
    };
}

selecting! { DaemonSet, Deployment, ReplicaSet, StatefulSet, }

/// An object that was read from `json`.
pub(crate) fn with_mark<T: Selecting>(mut object: T, json: &[u8]) -> T {
    #[derive(Deserialize)]
    struct Object {
        spec: Option<Spec>,
    }
    #[derive(Deserialize)]
    struct Spec {
        selector: Option<IgnoredAny>,
    }
    if let Some(selector) = object.selector_mut().filter(|it| is_absent(it))
        && let Ok(Object { spec: Some(Spec { selector: Some(_) }) }) = serde_json::from_slice(json)
    {
        selector.match_labels = Some(BTreeMap::new());
    }
    object
}

pub(crate) fn is_absent(selector: &LabelSelector) -> bool {
    *selector == LabelSelector::default()
}

/// Neither absent nor with any requirement.
fn is_empty(selector: &LabelSelector) -> bool {
    let n_labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
    let n_expressions = selector.match_expressions.as_ref().map_or(0, Vec::len);
    !is_absent(selector) && n_labels + n_expressions == 0
}

/// One that selects every pod of the namespace is never meant. `kind` in lower case.
pub(crate) fn validate_not_empty(
    selector: &LabelSelector,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if is_empty(selector) {
        errors.invalid(path, json!({}), &format!("empty selector is invalid for {kind}"));
    }
}

/// Checks `spec.selector` and returns what it selects, which is nothing when it is absent; `None`
/// when it is malformed. `kind` is for the text, in lower case.
pub(crate) fn validate_selector(
    selector: &LabelSelector,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) -> Option<Labels> {
    if is_absent(selector) {
        errors.required(path, "");
        return Some(Labels::nothing());
    }
    validate_label_selector(selector, path, errors);
    validate_not_empty(selector, kind, path, errors);
    Labels::from_selector(Some(selector)).ok()
}

/// Where a selector is malformed, the whole is named once more.
pub(crate) fn refuse_malformed(
    selector: &LabelSelector,
    detail: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    errors.invalid(path, codec::tree(selector), detail);
}

pub(crate) fn validate_selector_unchanged(
    selector: &LabelSelector,
    stored: &LabelSelector,
    errors: &mut FieldErrors,
) {
    if !crate::semantic::equal(selector, stored) {
        let is_none = *selector == LabelSelector::default();
        let shown = if is_none { Value::Null } else { codec::tree(selector) };
        errors.invalid(&Path::new("spec.selector"), shown, "field is immutable");
    }
}

/// The text form of a selector, for the `scale` subresource.
pub(crate) fn selector_text(selector: &LabelSelector) -> String {
    Labels::from_selector(Some(selector)).map(|it| it.to_string()).unwrap_or_default()
}

/// A count, or a percentage of one.
pub(crate) fn validate_count_or_percent(
    value: &IntOrString,
    path: &Path,
    errors: &mut FieldErrors,
) {
    match value {
        IntOrString::Int(number) => check::non_negative(*number, path, errors),
        IntOrString::String(text) => {
            if !is_percentage(text) {
                errors.invalid(
                    path,
                    text.as_str(),
                    "a valid percent string must be a numeric string followed by an ending '%' \
                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                );
            }
        }
    }
}

/// Of a percentage.
pub(crate) fn validate_at_most_all(value: &IntOrString, path: &Path, errors: &mut FieldErrors) {
    let is_percentage = matches!(value, IntOrString::String(text) if is_percentage(text));
    if is_percentage && number(value) > 100 {
        errors.invalid(path, check::int_or_string(value), "must not be greater than 100%");
    }
}

fn is_percentage(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
}

/// The number in a count or a percentage.
pub(crate) fn number(value: &IntOrString) -> i64 {
    match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
    }
}

/// Counts in a status: none negative, none above `status.replicas`.
pub(crate) fn validate_status_counts(
    replicas: i32,
    counts: &[(&str, i32)],
    errors: &mut FieldErrors,
) {
    let path = Path::new("status");
    check::non_negative(replicas, &path.child("replicas"), errors);
    for (field, count) in counts {
        let path = path.child(field);
        check::non_negative(*count, &path, errors);
        if *count > replicas {
            errors.invalid(&path, Value::from(*count), "cannot be greater than status.replicas");
        }
    }
}

/// How often a name was taken when one was made from a hash.
pub(crate) fn validate_collisions(
    count: Option<i32>,
    stored: Option<i32>,
    errors: &mut FieldErrors,
) {
    if count.unwrap_or(0) < stored.unwrap_or(0) {
        let path = Path::new("status.collisionCount");
        errors.invalid(&path, count.unwrap_or(0), "cannot be decremented");
    }
}

/// What warns about the pods of a template.
pub(crate) fn template_warnings(template: &PodTemplateSpec, path: &Path) -> Vec<String> {
    let Some(spec) = &template.spec else { return Vec::new() };
    let none = BTreeMap::new();
    let annotations = template.metadata.as_ref().and_then(|it| it.annotations.as_ref());
    warnings::of(spec, annotations.unwrap_or(&none), path)
}

/// What warns of a name that pods are called after.
pub(crate) fn name_warnings(metadata: &ObjectMeta) -> Vec<String> {
    let problems = is_dns_label(text(metadata.name.as_ref()));
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
         behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}

/// Whether an update is worth what its template warns of: not those of labels and finalizers.
pub(crate) fn is_new_generation(metadata: &ObjectMeta, stored: &ObjectMeta) -> bool {
    metadata.generation != stored.generation
}

/// Defaults of a template, which always has both of its halves.
pub(crate) fn apply_template_defaults(template: &mut PodTemplateSpec) {
    template.metadata.get_or_insert_default();
    pod_spec::defaults::apply(template.spec.get_or_insert_default());
}
