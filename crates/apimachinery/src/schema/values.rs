//! Validation of custom resources: types first, then the value checks, with upstream's texts.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

use super::format::has_format;
use super::{Correlated, ListType, Schema, SchemaRef, Type};
use crate::field::{Cause, FieldErrors, Path};

/// Of a compiled pattern; also of the memory it takes while it runs.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Branches, enumerated values and required names that one object may be held against.
const CHECKS_MAX: usize = 5_000_000;

/// Compiled once for all values. A pattern that cannot be compiled checks nothing; definitions with
/// such are refused.
pub type Patterns = BTreeMap<String, Option<Regex>>;

pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build()
}

/// Every pattern of the checks and of their branches.
pub(super) fn patterns_of<'a>(checks: &'a Map<String, Value>, found: &mut BTreeSet<&'a str>) {
    found.extend(checks.get("pattern").and_then(Value::as_str));
    branches(checks).for_each(|it| patterns_of(it, found));
}

/// The checks right below: those of allOf and the like, and of fields and items.
pub(super) fn branches(checks: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|it| checks.get(it)?.as_array());
    let fields = checks.get("properties").and_then(Value::as_object).into_iter();
    lists
        .flatten()
        .chain(fields.flat_map(Map::values))
        .chain(["not", "items"].into_iter().filter_map(|it| checks.get(it)))
        .filter_map(Value::as_object)
}

fn compiled(checks: &Map<String, Value>) -> Patterns {
    let mut found = BTreeSet::new();
    patterns_of(checks, &mut found);
    found.into_iter().map(|it| (it.to_owned(), compile(it).ok())).collect()
}

pub(super) fn validate(
    schema: &SchemaRef,
    value: &Value,
    before: Option<&Correlated<'_>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let left = Work { left: Cell::new(CHECKS_MAX), origin: path };
    validate_value(schema, value, (before, path), &left, errors);
    if left.get() == 0 {
        errors.forbidden(path, "the schema takes too many checks for a value of this size");
    }
}

/// What is left of an object's share of work, and where the checks began.
struct Work<'w> {
    left: Cell<usize>,
    origin: &'w Path,
}

impl Work<'_> {
    fn get(&self) -> usize {
        self.left.get()
    }

    fn set(&self, left: usize) {
        self.left.set(left);
    }
}

/// A part of the object: what it was before, if that is known, and where it is.
type Place<'p, 'a> = (Option<&'p Correlated<'a>>, &'p Path);

/// What is wrong with a part that was so before is no reason to refuse.
fn validate_value(
    schema: &SchemaRef,
    value: &Value,
    (before, path): Place<'_, '_>,
    left: &Work<'_>,
    errors: &mut FieldErrors,
) {
    if errors.is_full() {
        return;
    }
    let Some(before) = before else {
        return validate_new(schema, value, (None, path), left, errors);
    };
    let mut found = FieldErrors::new();
    validate_new(schema, value, (Some(before), path), left, &mut found);
    if !found.is_empty() && !before.is_same() {
        errors.extend(found);
    }
}

fn validate_new(
    schema: &SchemaRef,
    value: &Value,
    (before, path): Place<'_, '_>,
    left: &Work<'_>,
    errors: &mut FieldErrors,
) {
    let schema = schema.resolve();
    if !(value.is_null() && schema.nullable) {
        check_type(schema.kind, &schema.format, value, path, left.origin, errors);
    }
    match value {
        Value::Object(fields) => validate_fields(&schema, fields, (before, path), left, errors),
        Value::Array(items) => validate_items(&schema, items, (before, path), left, errors),
        Value::String(text) => check_format(&schema.format, text, path, errors),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    if let Some(Value::Object(checks)) = schema.checks.as_deref() {
        let patterns = schema.patterns.get_or_init(|| compiled(checks));
        Scope { patterns, left }.validate(checks, value, path, errors);
    }
}

/// What is of another type is held against the rest of the schema all the same.
fn check_type(
    kind: Type,
    format: &str,
    value: &Value,
    path: &Path,
    origin: &Path,
    errors: &mut FieldErrors,
) {
    if !has_type(kind, value) {
        wrong_type(kind, format, value, path, errors);
    }
    // Upstream looks at numbers once more.
    if let Value::Number(number) = value
        && !fits(kind, format, number)
    {
        let format = match format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        let name = type_name(kind);
        let what = format!("Checked value must be of type {name} {format} in {path}");
        errors.invalid(origin, "", &what);
    }
}

fn fits(kind: Type, format: &str, number: &Number) -> bool {
    let is_whole = is_whole(number);
    match (kind, format) {
        (Type::Integer, "int32") => {
            is_whole && number.as_f64().is_some_and(|it| it.abs() < 2_147_483_648.0)
        }
        (Type::Integer, "uint32") => {
            is_whole && number.as_f64().is_some_and(|it| (0.0..4_294_967_296.0).contains(&it))
        }
        (Type::Integer, _) => is_whole,
        (Type::Number, "float" | "float32") => {
            number.as_f64().is_some_and(|it| it.abs() <= f64::from(f32::MAX))
        }
        _ => true,
    }
}

fn check_format(format: &str, text: &str, path: &Path, errors: &mut FieldErrors) {
    if !has_format(format, text) {
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(path, Cause::TypeInvalid, format!("Invalid value: {text:?}: {detail}"));
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
}

fn has_type(kind: Type, value: &Value) -> bool {
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

/// Where a format is asked for, that is what is named, of both sides; not of texts and lists.
fn wrong_type(kind: Type, format: &str, value: &Value, path: &Path, errors: &mut FieldErrors) {
    let (wanted, found) = match value {
        Value::Null | Value::String(_) | Value::Array(_) => (type_name(kind), name_of(value)),
        _ if format.is_empty() => (type_name(kind), name_of(value)),
        Value::Number(it) => (format, if it.is_f64() { "float64" } else { "int64" }),
        Value::Bool(_) | Value::Object(_) => (format, ""),
    };
    let detail = format!("{path} in body must be of type {wanted}: {found:?}");
    errors.push(path, Cause::TypeInvalid, format!("Invalid value: {found:?}: {detail}"));
}

fn validate_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    (before, path): Place<'_, '_>,
    left: &Work<'_>,
    errors: &mut FieldErrors,
) {
    left.set(left.get().saturating_sub(schema.required.len()));
    if schema.is_sealed {
        let is_named = |it: &str| schema.properties.contains_key(it);
        forbid_others(fields, is_named, path, errors);
    }
    require(&schema.required, fields, path, errors);
    for (name, value) in fields {
        // What the type of the whole object was cannot be seen: it was converted.
        let is_type = path.as_str().is_empty() && ["apiVersion", "kind"].contains(&name.as_str());
        let before = before.filter(|_| !is_type).and_then(|it| it.key(name));
        // Of the metadata of an object within the object the author may say more.
        let own = schema.own_metadata.as_ref().filter(|_| name == "metadata");
        if let Some(field) = own.or_else(|| schema.field(name)) {
            validate_value(field, value, (before.as_ref(), &path.child(name)), left, errors);
        }
    }
}

/// Of an object that has no other fields than it names.
fn forbid_others(
    fields: &Map<String, Value>,
    is_named: impl Fn(&str) -> bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for name in fields.keys().filter(|it| !is_named(it)) {
        let what = format!("{}.{name} in body is a forbidden property", path.as_str());
        errors.invalid(path, name.as_str(), &what);
    }
}

pub(super) fn for_each_below(
    schema: &SchemaRef,
    value: &Value,
    path: &Path,
    visit: &mut dyn FnMut(&SchemaRef, &Value, &Path),
) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = schema.field(name) {
                    visit(field, value, &path.child(name));
                }
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                if let Some(item) = &schema.items {
                    visit(item, value, &path.index(index));
                }
            }
        }
        _ => {}
    }
}

fn require(names: &[String], fields: &Map<String, Value>, path: &Path, errors: &mut FieldErrors) {
    for name in names.iter().filter(|it| !fields.contains_key(*it)) {
        errors.required(&path.child(name), "");
    }
}

fn validate_items(
    schema: &Schema,
    items: &[Value],
    (before, path): Place<'_, '_>,
    left: &Work<'_>,
    errors: &mut FieldErrors,
) {
    if let Some(item) = &schema.items {
        for (index, value) in items.iter().enumerate() {
            let before = before.and_then(|it| it.index(index));
            let place = (before.as_ref(), &path.index(index));
            validate_value(item, value, place, left, errors);
        }
    }
}

/// Elements of sets, and keys of lists that are maps, are there once.
pub(super) fn validate_lists(
    schema: &SchemaRef,
    value: &Value,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if errors.is_full() {
        return;
    }
    for_each_below(schema, value, path, &mut |schema, value, path| {
        validate_lists(schema, value, path, errors);
    });
    if let Value::Array(items) = value {
        validate_unique(schema, items, path, errors);
    }
}

fn validate_unique(schema: &Schema, items: &[Value], path: &Path, errors: &mut FieldErrors) {
    if matches!(schema.list_type, ListType::Map { .. }) {
        let other = items.iter().position(|it| !it.is_object() && !it.is_null());
        if let Some(index) = other {
            let detail = "must be an object for an array of list-type map";
            return errors.invalid(&path.index(index), items[index].clone(), detail);
        }
    }
    // How often each was there: what is there three times is told of once.
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
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
        let n_seen = seen.entry(identity.to_string()).or_default();
        *n_seen += 1;
        if *n_seen == 2 {
            errors.duplicate(&path.index(index), identity);
        }
    }
}

/// The checks of one object, with what is left of its share of work.
#[derive(Clone, Copy)]
struct Scope<'a> {
    patterns: &'a Patterns,
    left: &'a Work<'a>,
}

impl Scope<'_> {
    /// Whether there was that much left to do.
    fn spend(self, n_checks: usize) -> bool {
        let left = self.left.get().saturating_sub(n_checks);
        self.left.set(left);
        left > 0
    }

    /// The first thing that is wrong with a text.
    fn validate_string(
        self,
        checks: &Map<String, Value>,
        text: &str,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        let n_chars = text.chars().count();
        let pattern = checks.get("pattern").and_then(Value::as_str);
        let pattern = pattern.and_then(|it| self.patterns.get(it)?.as_ref());
        if let Some(max) = limit(checks, "maxLength").filter(|it| n_chars > *it) {
            errors.too_long(path, max);
        } else if let Some(min) = limit(checks, "minLength").filter(|it| n_chars < *it) {
            let detail = format!("{path} in body should be at least {min} chars long");
            errors.invalid(path, text, &detail);
        } else if let Some(pattern) = pattern.filter(|it| !it.is_match(text)) {
            errors.invalid(path, text, &format!("{path} in body should match '{pattern}'"));
        }
    }

    /// The value checks of one schema object, as JSON; also of the branches of allOf and the like,
    /// which may restrict fields and items further.
    fn validate(
        self,
        checks: &Map<String, Value>,
        value: &Value,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        let allowed = checks.get("enum").and_then(Value::as_array);
        if !self.spend(1 + allowed.map_or(0, Vec::len)) {
            return;
        }
        if let Some(allowed) = allowed
            && !allowed.contains(value)
        {
            let names: Vec<String> = allowed.iter().map(plain_text).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            errors.not_supported_as_listed(path, value.clone(), &names);
        }
        match value {
            Value::Number(number) => validate_number(checks, number, path, errors),
            Value::String(text) => self.validate_string(checks, text, path, errors),
            Value::Array(items) => self.validate_array(checks, items, path, errors),
            Value::Object(fields) => self.validate_object(checks, fields, path, errors),
            Value::Null | Value::Bool(_) => {}
        }
        self.validate_branches(checks, value, path, errors);
    }

    fn validate_array(
        self,
        checks: &Map<String, Value>,
        items: &[Value],
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        if let Some(min) = limit(checks, "minItems").filter(|it| items.len() < *it) {
            let detail = format!("{path} in body should have at least {min} items");
            errors.invalid(path, items.len(), &detail);
        }
        if let Some(max) = limit(checks, "maxItems").filter(|it| items.len() > *it) {
            errors.too_many(path, items.len(), max);
        }
        if checks.get("uniqueItems") == Some(&Value::Bool(true)) {
            let distinct: BTreeSet<String> = items.iter().map(ToString::to_string).collect();
            if distinct.len() < items.len() {
                let detail = format!("{path} in body shouldn't contain duplicates");
                errors.invalid(path, Value::Array(items.to_vec()), &detail);
            }
        }
        if let Some(item) = checks.get("items") {
            for (index, value) in items.iter().enumerate() {
                errors.extend(self.problems(item, value, &path.index(index)));
            }
        }
    }

    fn validate_object(
        self,
        checks: &Map<String, Value>,
        fields: &Map<String, Value>,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        if let Some(min) = limit(checks, "minProperties").filter(|it| fields.len() < *it) {
            let detail = format!("{path} in body should have at least {min} properties");
            errors.invalid(path, fields.len(), &detail);
        }
        if let Some(max) = limit(checks, "maxProperties").filter(|it| fields.len() > *it) {
            errors.too_many(path, fields.len(), max);
        }
        let required = super::definitions::texts(checks, "required");
        if !self.spend(required.len()) {
            return;
        }
        if checks.get("additionalProperties") == Some(&Value::Bool(false)) {
            let named = checks.get("properties").and_then(Value::as_object);
            let is_named = |it: &str| named.is_some_and(|named| named.contains_key(it));
            forbid_others(fields, is_named, path, errors);
        }
        require(&required, fields, path, errors);
        for (name, field) in
            checks.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if let Some(value) = fields.get(name) {
                errors.extend(self.problems(field, value, &path.child(name)));
            }
        }
    }

    /// What a branch has to say about a value.
    fn problems(self, branch: &Value, value: &Value, path: &Path) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let Value::Object(checks) = branch else {
            return errors;
        };
        let kind = super::definitions::read_type(checks);
        let format = checks.get("format").and_then(Value::as_str).unwrap_or_default();
        if checks.contains_key("type") {
            check_type(kind, format, value, path, self.left.origin, &mut errors);
        }
        if let Value::String(text) = value {
            check_format(format, text, path, &mut errors);
        }
        self.validate(checks, value, path, &mut errors);
        errors
    }

    fn validate_branches(
        self,
        checks: &Map<String, Value>,
        value: &Value,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        let branches = |key: &str| checks.get(key).and_then(Value::as_array);
        let judge = |all: &[Value]| -> Vec<FieldErrors> {
            all.iter().map(|it| self.problems(it, value, path)).collect()
        };
        // Upstream names the place in the text alone.
        let (origin, empty) = (self.left.origin, Value::from(""));
        let mut refuse = |what: &str, problems: Option<FieldErrors>| {
            errors.invalid(origin, empty.clone(), &format!("\"{path}\" {what}"));
            errors.extend(problems.unwrap_or_default());
        };
        let n_valid = |all: &[FieldErrors]| all.iter().filter(|it| it.is_empty()).count();
        if let Some(all) = branches("anyOf").filter(|it| !it.is_empty()).map(|it| judge(it))
            && n_valid(&all) == 0
        {
            let best = best(branches("anyOf"), value, all);
            refuse("must validate at least one schema (anyOf)", best);
        }
        if let Some(all) = branches("oneOf").filter(|it| !it.is_empty()).map(|it| judge(it)) {
            let only = "must validate one and only one schema (oneOf). Found";
            match n_valid(&all) {
                1 => {}
                0 => {
                    let best = best(branches("oneOf"), value, all);
                    refuse(&format!("{only} none valid"), best);
                }
                n => refuse(&format!("{only} {n} valid alternatives"), None),
            }
        }
        if let Some(all) = branches("allOf").map(|it| judge(it)) {
            let n = n_valid(&all);
            if n < all.len() {
                let none = if n == 0 { ". None validated" } else { "" };
                refuse(&format!("must validate all the schemas (allOf){none}"), None);
            }
            all.into_iter().for_each(|it| errors.extend(it));
        }
        if checks.get("not").is_some_and(|it| self.problems(it, value, path).is_empty()) {
            let what = format!("\"{path}\" must not validate the schema (not)");
            errors.invalid(origin, "", &what);
        }
    }
}

/// The problems of the branch that says most of the value: that is what was meant.
fn best(
    branches: Option<&Vec<Value>>,
    value: &Value,
    problems: Vec<FieldErrors>,
) -> Option<FieldErrors> {
    let said = branches.into_iter().flatten().map(|it| n_said(it, value));
    let all = said.zip(problems).enumerate();
    let best = all.max_by_key(|(index, (n_said, _))| (*n_said, std::cmp::Reverse(*index)));
    best.map(|(_, (_, problems))| problems)
}

/// How many of a value's parts a branch speaks of.
fn n_said(branch: &Value, value: &Value) -> usize {
    let fields = branch["properties"].as_object().into_iter().flatten();
    let fields = fields.filter_map(|(name, it)| Some(n_said(it, value.get(name)?)));
    let items = value.as_array().into_iter().flatten();
    let items = items.filter_map(|it| Some(n_said(branch.get("items")?, it)));
    1 + fields.sum::<usize>() + items.sum::<usize>()
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn validate_number(
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
    if let Some((text, factor)) = bound("multipleOf") {
        // Of whole numbers upstream takes the whole part of the factor.
        let factor = if number.is_f64() { factor } else { factor.trunc() };
        if factor <= 0.0 {
            let what = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            errors.invalid(path, plain_number(factor), &what);
        } else if ((value / factor).round() - value / factor).abs() > 1e-9 {
            refuse(format!("should be a multiple of {text}"));
        }
    }
}

/// Without a fraction that is none.
fn plain_number(number: f64) -> Value {
    if number.fract() == 0.0 { Value::from(number as i64) } else { Value::from(number) }
}

fn limit(checks: &Map<String, Value>, key: &str) -> Option<usize> {
    checks.get(key)?.as_u64().and_then(|it| usize::try_from(it).ok())
}
