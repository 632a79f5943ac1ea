//! Checks that the access reviews share.

use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_label_value, is_qualified_name};

use crate::check::text;

/// A review asks about a resource or about a path, not both.
pub(super) fn validate_attributes(
    resource: Option<&ResourceAttributes>,
    path_attributes: Option<&NonResourceAttributes>,
    errors: &mut FieldErrors,
) {
    let path = Path::new("spec");
    match (resource, path_attributes) {
        (Some(_), Some(it)) => errors.invalid(
            &path.child("nonResourceAttributes"),
            shown(it),
            "cannot be specified in combination with resourceAttributes",
        ),
        (None, None) => errors.invalid(
            &path.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
}

/// Of what is asked about resources: which of them.
pub(super) fn validate_selectors(resource: Option<&ResourceAttributes>, errors: &mut FieldErrors) {
    let path = Path::new("spec.resourceAttributes");
    let Some(resource) = resource else { return };
    if let Some(selector) = &resource.field_selector {
        validate_field_selector(selector, &path.child("fieldSelector"), errors);
    }
    if let Some(selector) = &resource.label_selector {
        validate_label_selector(selector, &path.child("labelSelector"), errors);
    }
}

/// Paths are named as in JSON, and shown as Go names them.
pub(super) fn shown(attributes: &NonResourceAttributes) -> Value {
    let text = |it: &Option<String>| Value::from(text(it.as_ref()));
    Value::Object(
        [("Path", text(&attributes.path)), ("Verb", text(&attributes.verb))]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
    )
}

fn validate_field_selector(
    selector: &FieldSelectorAttributes,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let requirements = selector.requirements.as_deref().unwrap_or_default();
    validate_one_form(text(selector.raw_selector.as_ref()), requirements.len(), path, errors);
    for (index, it) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        if it.key.is_empty() {
            errors.required(&path.child("key"), "must be specified");
        }
        let n_values = it.values.as_ref().map_or(0, Vec::len);
        validate_values(&it.operator, n_values, &path.child("values"), errors);
    }
}

fn validate_label_selector(
    selector: &LabelSelectorAttributes,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let requirements = selector.requirements.as_deref().unwrap_or_default();
    validate_one_form(text(selector.raw_selector.as_ref()), requirements.len(), path, errors);
    for (index, it) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        let values = it.values.as_deref().unwrap_or_default();
        validate_values(&it.operator, values.len(), &path.child("values"), errors);
        for problem in is_qualified_name(&it.key) {
            errors.invalid(&path.child("key"), it.key.as_str(), &problem);
        }
        for (index, value) in values.iter().enumerate() {
            for problem in is_label_value(value) {
                errors.invalid(&path.child("values").index(index), value.as_str(), &problem);
            }
        }
    }
}

/// As text, or as requirements.
fn validate_one_form(raw: &str, n_requirements: usize, path: &Path, errors: &mut FieldErrors) {
    match (raw.is_empty(), n_requirements) {
        (true, 0) => errors.required(
            &path.child("requirements"),
            &format!("when {path} is specified, requirements or rawSelector is required"),
        ),
        (false, 1..) => errors.invalid(
            &path.child("rawSelector"),
            raw,
            "may not specified at the same time as requirements",
        ),
        _ => {}
    }
}

/// Operators that are not known may be those of a newer client, and are taken.
fn validate_values(operator: &str, n_values: usize, path: &Path, errors: &mut FieldErrors) {
    match operator {
        "In" | "NotIn" if n_values == 0 => {
            errors.required(path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if n_values > 0 => errors
            .forbidden(path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        _ => {}
    }
}

pub(super) fn validate_spec(spec: &SubjectAccessReviewSpec, errors: &mut FieldErrors) {
    let resource = spec.resource_attributes.as_ref();
    validate_attributes(resource, spec.non_resource_attributes.as_ref(), errors);
    let user = text(spec.user.as_ref());
    if user.is_empty() && spec.groups.as_ref().is_none_or(Vec::is_empty) {
        let path = Path::new("spec").child("user");
        errors.invalid(&path, user, "at least one of user or group must be specified");
    }
    validate_selectors(resource, errors);
}

/// Reviews are questions, not objects: what their metadata said would be lost. `detail` says of
/// which kind the metadata may have a namespace.
pub(super) fn validate_metadata(meta: &ObjectMeta, detail: &str, errors: &mut FieldErrors) {
    let mut rest = meta.clone();
    rest.managed_fields = None;
    if detail != MUST_BE_EMPTY {
        rest.namespace = None;
    }
    if !is_empty(&rest) {
        let shown = serde_json::to_value(meta).unwrap_or_default();
        errors.invalid(&Path::new("metadata"), shown, detail);
    }
}

pub(super) const MUST_BE_EMPTY: &str = "must be empty";

/// Whether nothing is said in it: empty texts, lists and maps say nothing.
fn is_empty(meta: &ObjectMeta) -> bool {
    let is_nothing = |it: &Value| match it {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    };
    crate::codec::tree(meta).as_object().is_none_or(|it| it.values().all(is_nothing))
}
