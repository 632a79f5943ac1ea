//! Branches (allOf, anyOf, oneOf, not) may only restrict: what describes belongs outside, and what they
//! restrict is described there.

use serde_json::{Map, Value, json};

use super::{is_nothing, list};
use crate::field::{FieldErrors, Path};

/// What no branch has, wherever in it, and how upstream puts that.
const FORBIDDEN: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];
/// Of these, also what is empty is something.
const UNDEFINED: [&str; 3] = ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"];

type Source = Map<String, Value>;

/// Those of a node. Of one that is a number or a text it may say so by types, alone or as the first that must hold.
pub(super) fn validate(node: &Source, path: &Path, errors: &mut FieldErrors) {
    let first = list(node, "allOf").first().and_then(Value::as_object);
    let skips = Skips {
        any_of: says_int_or_string(node),
        any_of_first: first.is_some_and(says_int_or_string),
    };
    validate_below(node, skips, path, errors);
}

#[derive(Clone, Copy, Default)]
struct Skips {
    any_of: bool,
    /// Of the first of allOf.
    any_of_first: bool,
}

fn validate_below(source: &Source, skips: Skips, path: &Path, errors: &mut FieldErrors) {
    for (word, index, branch) in all(source) {
        if word == "anyOf" && skips.any_of {
            continue;
        }
        let is_first = word == "allOf" && index == Some(0);
        let below = Skips { any_of: is_first && skips.any_of_first, ..Skips::default() };
        validate_branch(branch, below, &place(path, word, index), errors);
    }
}

fn validate_branch(branch: &Source, skips: Skips, path: &Path, errors: &mut FieldErrors) {
    if errors.is_full() {
        return;
    }
    validate_below(branch, skips, path, errors);
    if let Some(Value::Object(items)) = branch.get("items") {
        validate_branch(items, Skips::default(), &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, field) in fields(branch) {
        validate_branch(field, Skips::default(), &properties.key(name), errors);
        if name == "metadata" {
            errors.forbidden(&properties.key(name), "must not be specified in a nested context");
        }
    }
    if !matches!(branch.get("additionalProperties"), None | Some(Value::Null | Value::Bool(false)))
    {
        errors.forbidden(&path.child("additionalProperties"), "must be undefined to be structural");
    }
    let is_said = |word: &str| match branch.get(word) {
        None | Some(Value::Null) => false,
        Some(value) => UNDEFINED.contains(&word) || !is_nothing(value),
    };
    for (word, detail) in FORBIDDEN.iter().filter(|(word, _)| is_said(word)) {
        errors.forbidden(&path.child(word), detail);
    }
}

/// What branches of the root restrict must be described by the schema itself.
pub(super) fn validate_completeness(root: &Source, path: &Path, errors: &mut FieldErrors) {
    for (word, index, branch) in all(root) {
        complete(branch, Some(root), path, &place(path, word, index), errors);
    }
}

fn complete(
    branch: &Source,
    described: Option<&Source>,
    path: &Path,
    branch_path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(described) = described else {
        errors.required(path, &format!("because it is defined in {branch_path}"));
        return;
    };
    for (word, index, below) in all(branch) {
        complete(below, Some(described), path, &place(branch_path, word, index), errors);
    }
    if let Some(Value::Object(items)) = branch.get("items") {
        let (path, branch_path) = (path.child("items"), branch_path.child("items"));
        complete(
            items,
            described.get("items").and_then(Value::as_object),
            &path,
            &branch_path,
            errors,
        );
    }
    for (name, field) in fields(branch) {
        let known = fields(described).find(|(known, _)| *known == name).map(|(_, it)| it);
        let named = |path: &Path| path.child("properties").key(name);
        complete(field, known, &named(path), &named(branch_path), errors);
    }
}

fn place(path: &Path, word: &str, index: Option<usize>) -> Path {
    index.map_or_else(|| path.child(word), |it| path.child(word).index(it))
}

/// With the word that leads there.
fn all(source: &Source) -> impl Iterator<Item = (&'static str, Option<usize>, &Source)> {
    let listed = ["anyOf", "allOf", "oneOf"].into_iter().flat_map(|word| {
        let all = list(source, word).iter().enumerate();
        all.filter_map(move |(index, it)| Some((word, Some(index), it.as_object()?)))
    });
    let not = source.get("not").and_then(Value::as_object).map(|it| ("not", None, it));
    listed.chain(not)
}

fn fields(source: &Source) -> impl Iterator<Item = (&str, &Source)> {
    let fields = source.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, it)| Some((name.as_str(), it.as_object()?)))
}

fn says_int_or_string(source: &Source) -> bool {
    let types = [json!({"type": "integer"}), json!({"type": "string"})];
    list(source, "anyOf") == types
}
