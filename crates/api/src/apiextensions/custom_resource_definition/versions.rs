//! What a definition says of its versions. What all of them have in common is the definition's own, in
//! upstream's internal form, and has its paths there.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceSubresourceScale, JSONSchemaProps,
    SelectableField,
};
use serde_json::{Value, json};

use apimachinery::cel::rules::Costs;
use apimachinery::{FieldErrors, Path};

use super::validation::{validate_label, validate_names};
use super::{CustomResourceDefinition, CustomResourceDefinitionVersion, schemas, selectable};

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const WARNING_BYTES_MAX: usize = 256;

pub(super) fn validate(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    errors: &mut FieldErrors,
) {
    let spec = Path::new("spec");
    let versions = &crd.spec.versions;
    let shared = Shared::of(versions);
    for (index, version) in versions.iter().enumerate() {
        let path = spec.child("versions").index(index);
        validate_label(&path.child("name"), &version.name, errors);
        validate_deprecation(version, &path.child("deprecationWarning"), errors);
        let parts = shared.parts(Whose::Version, version, has_status(version));
        parts.validate((&path, &path.child("schema")), costs_of(version, stored), errors);
    }
    validate_set(crd, &spec.child("versions"), errors);
    // An older form of the definition had one version alone: that is the first.
    let first = versions.first();
    if let Some(first) = first.filter(|it| !it.name.is_empty()) {
        validate_label(&spec.child("version"), &first.name, errors);
    }
    validate_names(crd, &spec.child("names"), errors);
    if let Some(first) = first {
        let parts = shared.parts(Whose::Definition, first, versions.iter().any(has_status));
        parts.validate((&spec, &spec.child("validation")), costs_of(first, stored), errors);
    }
}

pub(super) fn schema_of(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|it| it.status.is_some())
}

fn validate_set(crd: &CustomResourceDefinition, path: &Path, errors: &mut FieldErrors) {
    let names: Vec<&str> = crd.spec.versions.iter().map(|it| it.name.as_str()).collect();
    let shown = match names.as_slice() {
        [] => Value::Null,
        names => names.iter().map(|it| json!({ "name": it })).collect(),
    };
    if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
        errors.invalid(path, shown.clone(), "must contain unique version names");
    }
    if crd.spec.versions.iter().filter(|it| it.storage).count() != 1 {
        errors.invalid(path, shown, "must have exactly one version marked as storage version");
    }
}

/// Rules of a schema that was accepted before are not too dear now.
fn costs_of(
    version: &CustomResourceDefinitionVersion,
    stored: Option<&CustomResourceDefinition>,
) -> Costs {
    let mut before = stored.into_iter().flat_map(|it| &it.spec.versions);
    match before.find(|it| it.name == version.name) {
        Some(before) if before.schema == version.schema => Costs::Accepted,
        _ => Costs::Judged,
    }
}

fn validate_deprecation(
    version: &CustomResourceDefinitionVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(warning) = version.deprecation_warning.as_deref() else { return };
    if version.deprecated != Some(true) {
        errors.invalid(path, warning, "can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_BYTES_MAX {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    let is_unprintable = |it: char| it.is_control() || (it.is_whitespace() && it != ' ');
    if let Some(index) = warning.find(is_unprintable) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {index}"
        );
        errors.invalid(path, warning, &detail);
    }
}

/// Which parts all versions have in common.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(versions: &[CustomResourceDefinitionVersion]) -> Self {
        let Some((first, others)) = versions.split_first() else {
            return Self { schema: true, subresources: true, columns: true, selectable: true };
        };
        let all =
            |is_same: &dyn Fn(&CustomResourceDefinitionVersion) -> bool| others.iter().all(is_same);
        let schema = all(&|it| it.schema == first.schema);
        Self {
            schema,
            subresources: all(&|it| it.subresources == first.subresources),
            columns: all(&|it| columns_of(it) == columns_of(first)),
            // They are looked up in the schema that stands beside them.
            selectable: schema && all(&|it| selectable_of(it) == selectable_of(first)),
        }
    }

    /// Those of the version alone, or those that it has in common with all.
    fn parts<'a>(
        &self,
        whose: Whose,
        version: &'a CustomResourceDefinitionVersion,
        has_status: bool,
    ) -> Parts<'a> {
        let takes = |is_shared: bool| is_shared == (whose == Whose::Definition);
        let subresources = version.subresources.as_ref().filter(|_| takes(self.subresources));
        Parts {
            whose,
            schema: schema_of(version).filter(|_| takes(self.schema)),
            has_status,
            scale: subresources.and_then(|it| it.scale.as_ref()),
            columns: if takes(self.columns) { columns_of(version) } else { &[] },
            selectable: if takes(self.selectable) { selectable_of(version) } else { &[] },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Definition,
    Version,
}

struct Parts<'a> {
    whose: Whose,
    schema: Option<&'a JSONSchemaProps>,
    has_status: bool,
    scale: Option<&'a CustomResourceSubresourceScale>,
    columns: &'a [CustomResourceColumnDefinition],
    selectable: &'a [SelectableField],
}

impl Parts<'_> {
    fn validate(
        &self,
        (path, schema_path): (&Path, &Path),
        costs: Costs,
        errors: &mut FieldErrors,
    ) {
        let schema = self
            .schema
            .map(|it| schemas::validate(it, self.has_status, costs, schema_path, errors));
        if let Some(scale) = self.scale {
            validate_scale(scale, &path.child("subresources").child("scale"), errors);
        }
        for (index, column) in self.columns.iter().enumerate() {
            validate_column(column, &path.child("additionalPrinterColumns").index(index), errors);
        }
        let path = path.child("selectableFields");
        match schema {
            _ if self.selectable.is_empty() => {}
            Some(schema) => selectable::validate(self.selectable, &schema, &path, errors),
            None => {
                let detail = match self.whose {
                    Whose::Definition => "may only be set when validations.schema is included",
                    Whose::Version => {
                        "may only be set when `version.schema.openAPIV3Schema` is not included"
                    }
                };
                errors.invalid(&path, "", detail);
            }
        }
    }
}

fn columns_of(version: &CustomResourceDefinitionVersion) -> &[CustomResourceColumnDefinition] {
    version.additional_printer_columns.as_deref().unwrap_or_default()
}

fn selectable_of(version: &CustomResourceDefinitionVersion) -> &[SelectableField] {
    version.selectable_fields.as_deref().unwrap_or_default()
}

fn validate_column(column: &CustomResourceColumnDefinition, path: &Path, errors: &mut FieldErrors) {
    if column.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    match column.type_.as_str() {
        "" => errors.required(&path.child("type"), &one_of(COLUMN_TYPES)),
        kind if COLUMN_TYPES.contains(&kind) => {}
        other => errors.invalid(&path.child("type"), other, &one_of(COLUMN_TYPES)),
    }
    let format = column.format.as_deref().unwrap_or_default();
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.invalid(&path.child("format"), format, &one_of(COLUMN_FORMATS));
    }
    validate_path(&column.json_path, &path.child("JSONPath"), errors);
}

fn one_of(supported: &[&str]) -> String {
    format!("must be one of {}", supported.join(","))
}

/// Whether there is one, from a dot on. One that cannot be read leads nowhere.
fn validate_path(text: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    if text.is_empty() {
        errors.required(path, "");
    } else if !text.starts_with('.') {
        errors.invalid(path, text, "must be a simple json path starting with .");
    }
    text.starts_with('.')
}

fn validate_scale(scale: &CustomResourceSubresourceScale, path: &Path, errors: &mut FieldErrors) {
    let mut validate = |field: &str, text: &str, roots: &[&str]| {
        let path = path.child(field);
        if !validate_path(text, &path, errors) {
            return;
        }
        if !roots.iter().any(|it| text.starts_with(&format!(".{it}."))) {
            let names: Vec<String> = roots.iter().map(|it| format!(".{it}")).collect();
            let either = if names.len() > 1 { "either " } else { "" };
            let why = format!("should be a json path under {either}{}", names.join(" or "));
            errors.invalid(&path, text, &why);
        }
    };
    validate("specReplicasPath", &scale.spec_replicas_path, &["spec"]);
    validate("statusReplicasPath", &scale.status_replicas_path, &["status"]);
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|it| !it.is_empty()) {
        validate("labelSelectorPath", selector, &["spec", "status"]);
    }
}
