//! Validation of custom resources: types first, then the value checks, with upstream's texts.

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::format::has_format;
use super::{ListType, Schema, SchemaRef, Type};
use crate::field::{Cause, FieldErrors, Path};

pub(super) fn validate(schema: &SchemaRef, value: &Value, path: &Path, errors: &mut FieldErrors) {
    let schema = schema.resolve();
    if value.is_null() && schema.nullable {
        return;
    }
    if !has_type(schema.kind, value) {
        wrong_type(type_name(schema.kind), value, path, errors);
        return;
    }
    match value {
        Value::Object(fields) => validate_fields(&schema, fields, path, errors),
        Value::Array(items) => validate_items(&schema, items, path, errors),
        Value::String(text) if schema.kind == Type::String && !has_format(&schema.format, text) => {
            let detail = format!("{path} in body must be of type {}: {text:?}", schema.format);
            errors.invalid(path, text.as_str(), &detail);
        }
        _ => {}
    }
    if let Some(Value::Object(checks)) = schema.checks.as_deref() {
        let compile = || checks.get("pattern").and_then(compile);
        let pattern = schema.pattern.get_or_init(|| compile().map(Box::new));
        if let (Value::String(text), Some(pattern)) = (value, pattern) {
            check_pattern(pattern, text, path, errors);
        }
        check(checks, value, path, errors);
    }
}

fn compile(pattern: &Value) -> Option<Regex> {
    Regex::new(pattern.as_str()?).ok()
}

fn check_pattern(pattern: &Regex, text: &str, path: &Path, errors: &mut FieldErrors) {
    if !pattern.is_match(text) {
        errors.invalid(path, text, &format!("{path} in body should match '{pattern}'"));
    }
}

fn has_type(kind: Type, value: &Value) -> bool {
    let is_whole =
        |it: &Number| it.is_i64() || it.is_u64() || it.as_f64().is_some_and(|it| it.fract() == 0.0);
    match (kind, value) {
        (Type::Any, _)
        | (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String | Type::IntOrString, Value::String(_))
        | (Type::Number, Value::Number(_))
        | (Type::Boolean, Value::Bool(_)) => true,
        (Type::Integer | Type::IntOrString, Value::Number(it)) => is_whole(it),
        _ => false,
    }
}

fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Any => "any",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString => "integer,string",
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(wanted: &str, value: &Value, path: &Path, errors: &mut FieldErrors) {
    let found = name_of(value);
    let detail = format!("{path} in body must be of type {wanted}: {found:?}");
    errors.push(path, Cause::TypeInvalid, format!("Invalid value: {found:?}: {detail}"));
}

fn validate_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    require(&schema.required, fields, path, errors);
    for (name, value) in fields {
        if let Some(field) = schema.properties.get(name) {
            validate(field, value, &path.child(name), errors);
        } else if let Some(values) = &schema.additional {
            validate(values, value, &path.child(name), errors);
        }
    }
    if schema.is_embedded_resource {
        for name in ["apiVersion", "kind"] {
            let is_set = fields.get(name).and_then(Value::as_str).is_some_and(|it| !it.is_empty());
            if !is_set {
                errors.required(&path.child(name), "must not be empty");
            }
        }
    }
}

fn require(names: &[String], fields: &Map<String, Value>, path: &Path, errors: &mut FieldErrors) {
    for name in names.iter().filter(|it| !fields.contains_key(*it)) {
        errors.required(&path.child(name), "");
    }
}

fn validate_items(schema: &Schema, items: &[Value], path: &Path, errors: &mut FieldErrors) {
    if let Some(item) = &schema.items {
        for (index, value) in items.iter().enumerate() {
            validate(item, value, &path.index(index), errors);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, value) in items.iter().enumerate() {
        let identity = match &schema.list_type {
            ListType::Atomic => return,
            ListType::Set => value.clone(),
            ListType::Map { keys } => {
                let present =
                    keys.iter().filter_map(|it| Some((it.clone(), value.get(it)?.clone())));
                Value::Object(present.collect())
            }
        };
        if !seen.insert(identity.to_string()) {
            errors.duplicate(&path.index(index), identity);
        }
    }
}

/// The value checks of one schema object, as JSON; also of the branches of allOf and the like, which may
/// restrict fields and items further.
fn check(checks: &Map<String, Value>, value: &Value, path: &Path, errors: &mut FieldErrors) {
    if let Some(Value::Array(allowed)) = checks.get("enum")
        && !allowed.contains(value)
    {
        let names: Vec<String> = allowed.iter().map(plain_text).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        errors.not_supported(path, value.clone(), &names);
    }
    match value {
        Value::Number(number) => check_number(checks, number, path, errors),
        Value::String(text) => check_string(checks, text, path, errors),
        Value::Array(items) => check_array(checks, items, path, errors),
        Value::Object(fields) => check_object(checks, fields, path, errors),
        Value::Null | Value::Bool(_) => {}
    }
    check_branches(checks, value, path, errors);
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn check_number(
    checks: &Map<String, Value>,
    number: &Number,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(value) = number.as_f64() else {
        return;
    };
    let flag = |key: &str| checks.get(key).and_then(Value::as_bool).unwrap_or_default();
    let bound = |key: &str| checks.get(key).and_then(|it| Some((it, it.as_f64()?)));
    let mut refuse = |what: String| {
        errors.invalid(path, Value::Number(number.clone()), &format!("{path} in body {what}"));
    };
    if let Some((text, min)) = bound("minimum") {
        match flag("exclusiveMinimum") {
            true if value <= min => refuse(format!("should be greater than {text}")),
            false if value < min => refuse(format!("should be greater than or equal to {text}")),
            _ => {}
        }
    }
    if let Some((text, max)) = bound("maximum") {
        match flag("exclusiveMaximum") {
            true if value >= max => refuse(format!("should be less than {text}")),
            false if value > max => refuse(format!("should be less than or equal to {text}")),
            _ => {}
        }
    }
    if let Some((text, factor)) = bound("multipleOf")
        && factor != 0.0
        && ((value / factor).round() - value / factor).abs() > 1e-9
    {
        refuse(format!("should be a multiple of {text}"));
    }
}

fn limit(checks: &Map<String, Value>, key: &str) -> Option<usize> {
    checks.get(key)?.as_u64().and_then(|it| usize::try_from(it).ok())
}

fn check_string(checks: &Map<String, Value>, text: &str, path: &Path, errors: &mut FieldErrors) {
    let n_chars = text.chars().count();
    if let Some(min) = limit(checks, "minLength").filter(|it| n_chars < *it) {
        let detail = format!("{path} in body should be at least {min} chars long");
        errors.invalid(path, text, &detail);
    }
    if let Some(max) = limit(checks, "maxLength").filter(|it| n_chars > *it) {
        errors.too_long(path, max);
    }
    if let Some(format) = checks.get("format").and_then(Value::as_str)
        && !has_format(format, text)
    {
        errors.invalid(path, text, &format!("{path} in body must be of type {format}: {text:?}"));
    }
}

fn check_array(
    checks: &Map<String, Value>,
    items: &[Value],
    path: &Path,
    errors: &mut FieldErrors,
) {
    let whole = || Value::Array(items.to_vec());
    if let Some(min) = limit(checks, "minItems").filter(|it| items.len() < *it) {
        errors.invalid(path, whole(), &format!("{path} in body should have at least {min} items"));
    }
    if let Some(max) = limit(checks, "maxItems").filter(|it| items.len() > *it) {
        errors.too_many(path, items.len(), max);
    }
    if checks.get("uniqueItems") == Some(&Value::Bool(true)) {
        let distinct: std::collections::BTreeSet<String> =
            items.iter().map(ToString::to_string).collect();
        if distinct.len() < items.len() {
            let detail = format!("{path} in body shouldn't contain duplicates");
            errors.invalid(path, whole(), &detail);
        }
    }
    if let Some(item) = checks.get("items") {
        for (index, value) in items.iter().enumerate() {
            errors.extend(problems(item, value, &path.index(index)));
        }
    }
}

fn check_object(
    checks: &Map<String, Value>,
    fields: &Map<String, Value>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(min) = limit(checks, "minProperties").filter(|it| fields.len() < *it) {
        let detail = format!("{path} in body should have at least {min} properties");
        errors.invalid(path, Value::Object(fields.clone()), &detail);
    }
    if let Some(max) = limit(checks, "maxProperties").filter(|it| fields.len() > *it) {
        errors.too_many(path, fields.len(), max);
    }
    require(&super::definitions::texts(checks, "required"), fields, path, errors);
    for (name, field) in checks.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = fields.get(name) {
            errors.extend(problems(field, value, &path.child(name)));
        }
    }
}

/// What a branch has to say about a value.
fn problems(branch: &Value, value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Value::Object(checks) = branch else {
        return errors;
    };
    let kind = super::definitions::read_type(checks);
    if checks.contains_key("type") && !has_type(kind, value) {
        wrong_type(type_name(kind), value, path, &mut errors);
        return errors;
    }
    if let (Value::String(text), Some(pattern)) = (value, checks.get("pattern").and_then(compile)) {
        check_pattern(&pattern, text, path, &mut errors);
    }
    check(checks, value, path, &mut errors);
    errors
}

fn check_branches(
    checks: &Map<String, Value>,
    value: &Value,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let branches = |key: &str| checks.get(key).and_then(Value::as_array);
    let n_valid =
        |all: &[Value]| all.iter().filter(|it| problems(it, value, path).is_empty()).count();
    let mut refuse =
        |what: &str| errors.invalid(path, value.clone(), &format!("\"{path}\" {what}"));
    if branches("anyOf").is_some_and(|all| n_valid(all) == 0 && !all.is_empty()) {
        refuse("must validate at least one schema (anyOf)");
    }
    if let Some(all) = branches("oneOf") {
        match n_valid(all) {
            1 => {}
            0 => refuse("must validate one and only one schema (oneOf). Found none valid"),
            n => refuse(&format!(
                "must validate one and only one schema (oneOf). Found {n} valid alternatives"
            )),
        }
    }
    if checks.get("not").is_some_and(|it| problems(it, value, path).is_empty()) {
        refuse("must not validate the schema (not)");
    }
    for branch in branches("allOf").into_iter().flatten() {
        errors.extend(problems(branch, value, path));
    }
}
