//! Objects within custom resources: they say what they are, and have metadata as every object has.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::SchemaRef;
use super::values::for_each_below;
use crate::field::{FieldErrors, Path};
use crate::names::{NameRule, Scope};
use crate::validation;

pub(super) fn validate(schema: &SchemaRef, value: &Value, path: &Path, errors: &mut FieldErrors) {
    if errors.is_full() {
        return;
    }
    if schema.is_embedded_resource && value.is_object() {
        validate_api_version(value.get("apiVersion"), &path.child("apiVersion"), errors);
        validate_kind(value.get("kind"), &path.child("kind"), errors);
        if let Some(metadata) = value.get("metadata") {
            validate_metadata(metadata, &path.child("metadata"), errors);
        }
    }
    for_each_below(schema, value, path, &mut |schema, value, path| {
        validate(schema, value, path, errors);
    });
}

/// The text, if it is one that has something in it.
fn text_of<'a>(value: Option<&'a Value>, path: &Path, errors: &mut FieldErrors) -> Option<&'a str> {
    match value {
        None => errors.required(path, ""),
        Some(Value::String(text)) if text.is_empty() => {
            errors.invalid(path, "", "must not be empty");
        }
        Some(Value::String(text)) => return Some(text),
        Some(other) => errors.invalid(path, other.clone(), "must be a string"),
    }
    None
}

fn validate_api_version(value: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    if let Some(text) = text_of(value, path, errors)
        && text.matches('/').count() > 1
    {
        errors.invalid(path, text, &format!("unexpected GroupVersion string: {text}"));
    }
}

fn validate_kind(value: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    let Some(kind) = text_of(value, path, errors) else { return };
    let problems = validation::is_dns1035_label(&kind.to_lowercase());
    if !problems.is_empty() {
        let what = "may have mixed case, but should otherwise match: ";
        errors.invalid(path, kind, &format!("{what}{}", problems.join(",")));
    }
}

/// What has another form than metadata was taken away, or refused, when it was read.
fn validate_metadata(value: &Value, path: &Path, errors: &mut FieldErrors) {
    let Ok(mut metadata) = serde_json::from_value::<ObjectMeta>(value.clone()) else { return };
    if metadata.name.as_deref().is_none_or(str::is_empty) {
        metadata.name = Some("fakename".to_owned());
    }
    let has_namespace = metadata.namespace.as_deref().is_some_and(|it| !it.is_empty());
    let scope = if has_namespace { Scope::Namespaced } else { Scope::Cluster };
    validation::validate_metadata_at(path, &metadata, scope, NameRule::PathSegment, errors);
}
