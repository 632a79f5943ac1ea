//! Fields that objects can be chosen by.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::SelectableField;

use apimachinery::schema::{SchemaRef, Type};
use apimachinery::{FieldErrors, Path};

use crate::apiextensions::json_path::JsonPath;

const FIELDS_MAX: usize = 8;

pub(super) fn validate(
    fields: &[SelectableField],
    schema: &SchemaRef,
    all: &Path,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = all.index(index).child("jsonPath");
        let text = field.json_path.as_str();
        if text.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Ok(parsed) = JsonPath::parse(text) else {
            let detail = format!("is an invalid path: expected [ or . but got: {text}");
            errors.invalid(&path, text, &detail);
            continue;
        };
        match parsed.fields() {
            Some(names) if names[0] == "metadata" => {
                errors.invalid(&path, text, "must not point to fields in metadata");
            }
            Some(names) if is_selectable(schema, &names) => {}
            _ => errors.invalid(
                &path,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and \
                 strings with formats are allowed.",
            ),
        }
        if !seen.insert(text) {
            errors.duplicate(&path, text);
        }
    }
    if seen.len() > FIELDS_MAX {
        errors.too_many(all, seen.len(), FIELDS_MAX);
    }
}

fn is_selectable(schema: &SchemaRef, fields: &[&str]) -> bool {
    let found =
        fields.iter().try_fold(schema.clone(), |it, name| it.properties.get(*name).cloned());
    found.is_some_and(|it| matches!(it.kind, Type::String | Type::Boolean | Type::Integer))
}
