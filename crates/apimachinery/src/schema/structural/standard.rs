//! What OpenAPI says of a schema, and of all that are part of it, wherever they are; and what lists and
//! maps need in order to be merged.

use serde_json::{Map, Value};

use super::{DEPTH_MAX, TYPES, flag, is_nothing, list, text};
use crate::field::{FieldErrors, Path};

/// What OpenAPI has and custom resources do not.
const UNSUPPORTED: &[&str] =
    &["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];

type Source = Map<String, Value>;

#[derive(Default)]
pub(super) struct Standard {
    pub(super) errors: FieldErrors,
    /// There are words in it that no structural schema has.
    pub(super) is_left: bool,
}

/// What is so of a schema because of where it is.
#[derive(Clone, Default)]
struct Place {
    depth: usize,
    is_root: bool,
    is_in_metadata: bool,
    /// Why there is no default.
    no_defaults: Option<String>,
}

impl Place {
    fn below(&self) -> Self {
        Self { depth: self.depth + 1, is_root: false, ..self.clone() }
    }

    /// Of what identifies an object.
    fn below_as_metadata(&self, name: &str) -> Self {
        let reason = self.is_root.then(|| format!("in top-level {name}"));
        let no_defaults = reason.or_else(|| self.no_defaults.clone());
        Self { is_in_metadata: true, no_defaults, ..self.below() }
    }

    fn below_as_value(&self) -> Self {
        let reason = "inside additionalProperties applying to object metadata";
        let reason = self.is_in_metadata.then(|| reason.to_owned());
        Self { no_defaults: reason.or_else(|| self.no_defaults.clone()), ..self.below() }
    }
}

impl Standard {
    pub(super) fn of(root: &Source, path: &Path) -> Self {
        let mut standard = Self::default();
        standard.validate(root, path, &Place { is_root: true, ..Place::default() });
        standard
    }

    fn validate(&mut self, source: &Source, path: &Path, place: &Place) {
        if place.depth > DEPTH_MAX || self.errors.is_full() {
            return;
        }
        self.validate_words(source, path, place);
        self.validate_parts(source, path, place);
        if let Some(Value::Bool(false)) = source.get("x-kubernetes-preserve-unknown-fields") {
            self.is_left = true;
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.invalid(&path, false, "must be true or undefined");
        }
        self.validate_map(source, path);
        self.validate_list(source, path);
    }

    fn validate_words(&mut self, source: &Source, path: &Path, place: &Place) {
        let kind = text(source, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.errors.not_supported(&path.child("type"), kind, TYPES);
        }
        let has_default = source.get("default").is_some_and(|it| !it.is_null());
        if let Some(reason) = place.no_defaults.as_ref().filter(|_| has_default) {
            self.errors.forbidden(&path.child("default"), &format!("must not be set {reason}"));
        }
        for name in UNSUPPORTED {
            let Some(value) = source.get(*name).filter(|it| !it.is_null()) else { continue };
            let is_empty = is_nothing(value) && *name != "additionalItems";
            // Some are refused even if they say nothing, which keeps nobody from reading the rest.
            self.is_left |= !is_empty;
            if !is_empty || ["$ref", "dependencies"].contains(name) {
                self.errors.forbidden(&path.child(name), &format!("{name} is not supported"));
            }
        }
        self.is_left |= !text(source, "$schema").is_empty();
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.errors.forbidden(&path.child("type"), detail);
        }
        if source.get("items").and_then(Value::as_array).is_some_and(|it| !it.is_empty()) {
            self.is_left = true;
            let detail = "items must be a schema object and not an array";
            self.errors.forbidden(&path.child("items"), detail);
        }
        if place.is_in_metadata && flag(source, EMBEDDED) {
            let detail = "must not be used inside of resource meta";
            self.errors.forbidden(&path.child(EMBEDDED), detail);
        }
        if flag(source, "uniqueItems") {
            self.errors.forbidden(
                &path.child("uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
    }

    /// In upstream's order, but for fields, which it takes in any.
    fn validate_parts(&mut self, source: &Source, path: &Path, place: &Place) {
        let has_names = source.get("properties").is_some_and(|it| !is_nothing(it));
        let more = source.get("additionalProperties").filter(|it| !it.is_null());
        let more_path = path.child("additionalProperties");
        if has_names && more.is_some_and(|it| *it != Value::Bool(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.forbidden(&more_path, detail);
        }
        self.validate_part(more, &more_path, &place.below_as_value());
        let is_resource = place.is_root || flag(source, EMBEDDED);
        for (name, field) in named(source, "properties") {
            let below = match META.contains(&name.as_str()) && is_resource {
                true => place.below_as_metadata(name),
                false => place.below(),
            };
            self.validate_part(Some(field), &path.child("properties").key(name), &below);
        }
        let below = place.below();
        self.validate_part(source.get("not"), &path.child("not"), &below);
        for word in ["allOf", "oneOf", "anyOf"] {
            self.validate_listed(source.get(word), &path.child(word), &below);
        }
        for (name, it) in named(source, "definitions") {
            self.validate_part(Some(it), &path.child("definitions").key(name), &below);
        }
        self.validate_part(source.get("items"), &path.child("items"), &below);
        self.validate_listed(source.get("items"), &path.child("items"), &below);
        for (name, it) in named(source, "dependencies") {
            self.validate_part(Some(it), &path.child("dependencies").key(name), &below);
        }
    }

    fn validate_part(&mut self, part: Option<&Value>, path: &Path, place: &Place) {
        if let Some(Value::Object(schema)) = part {
            self.validate(schema, path, place);
        }
    }

    fn validate_listed(&mut self, parts: Option<&Value>, path: &Path, place: &Place) {
        for (index, it) in parts.and_then(Value::as_array).into_iter().flatten().enumerate() {
            self.validate_part(Some(it), &path.index(index), place);
        }
    }

    fn validate_map(&mut self, source: &Source, path: &Path) {
        let Some(map_type) = source.get(MAP_TYPE).and_then(Value::as_str) else { return };
        let detail = "must be object if x-kubernetes-map-type is specified";
        self.validate_kind(source, "object", detail, path);
        if !["atomic", "granular"].contains(&map_type) {
            let path = path.child(MAP_TYPE);
            self.errors.not_supported(&path, map_type, &["atomic", "granular"]);
        }
    }

    fn validate_kind(&mut self, source: &Source, kind: &str, detail: &str, path: &Path) {
        match text(source, "type") {
            it if it == kind => {}
            "" => self.errors.required(&path.child("type"), detail),
            other => self.errors.invalid(&path.child("type"), other, detail),
        }
    }

    fn validate_list(&mut self, source: &Source, path: &Path) {
        let list_type = source.get(LIST_TYPE).and_then(Value::as_str);
        let keys = list(source, LIST_MAP_KEYS);
        let type_path = path.child(LIST_TYPE);
        if let Some(list_type) = list_type {
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.validate_kind(source, "array", detail, path);
            if list_type == "set" && text(source, "type") == "array" {
                self.validate_items_of_set(source, path);
            }
            let list_types = ["atomic", "set", "map"];
            if !list_types.contains(&list_type) {
                self.errors.not_supported_as_listed(&type_path, list_type, &list_types);
            }
        }
        if !keys.is_empty() && list_type != Some("map") {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                None => self.errors.required(&type_path, detail),
                Some(other) => self.errors.invalid(&type_path, other, detail),
            }
        }
        if list_type == Some("map") {
            self.validate_items_of_map(source, keys, path);
        }
        if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, items(source)) {
            self.validate_identity_of_items(items, list_type, keys, &path.child("items"));
        }
    }

    /// What is in a set is one value.
    fn validate_items_of_set(&mut self, source: &Source, path: &Path) {
        let Some(items) = items(source) else { return };
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let shown = items.get(LIST_TYPE).cloned().unwrap_or_default();
        let word = match text(items, "type") {
            "array" if !["", "atomic"].contains(&text(items, LIST_TYPE)) => LIST_TYPE,
            "object" if text(items, MAP_TYPE) != "atomic" => MAP_TYPE,
            _ => return,
        };
        self.errors.invalid(&path.child("items").child(word), shown, detail);
    }

    /// What is in a map has the fields that tell it apart.
    fn validate_items_of_map(&mut self, source: &Source, keys: &[Value], path: &Path) {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.required(&path.child(LIST_MAP_KEYS), detail);
        }
        let path_items = path.child("items");
        let Some(items) = items(source) else {
            match source.get("items") {
                None | Some(Value::Null) => {
                    let detail = "must have a schema if x-kubernetes-list-type is map";
                    self.errors.required(&path_items, detail);
                }
                Some(several) => {
                    let detail = "must only have a single schema if x-kubernetes-list-type is map";
                    self.errors.invalid(&path_items, several.clone(), detail);
                }
            }
            return;
        };
        if text(items, "type") != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.invalid(&path_items.child("type"), text(items, "type"), detail);
            return;
        }
        let keys_path = path.child(LIST_MAP_KEYS);
        for (index, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            match named(items, "properties").find(|(it, _)| *it == name) {
                Some((_, field)) if ["array", "object"].iter().any(|it| field["type"] == **it) => {
                    // Upstream shows the type of the items here.
                    let path = path_items.child("properties").key(name).child("type");
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.invalid(&path, "object", detail);
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.errors.invalid(&keys_path, keys.to_vec(), detail);
                }
            }
            if keys[..index].contains(key) {
                self.errors.invalid(
                    &keys_path,
                    keys.to_vec(),
                    "must not contain duplicate entries",
                );
            }
        }
    }

    fn validate_identity_of_items(
        &mut self,
        items: &Source,
        list_type: &str,
        keys: &[Value],
        path: &Path,
    ) {
        if flag(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.errors.forbidden(&path.child("nullable"), &detail);
        }
        if list_type != "map" {
            return;
        }
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            let Some((_, field)) = named(items, "properties").find(|(it, _)| *it == name) else {
                continue;
            };
            let path = path.child("properties").key(name);
            let has_default = field.get("default").is_some_and(|it| !it.is_null());
            if !has_default && !list(items, "required").contains(key) {
                self.errors.required(
                    &path.child("default"),
                    "this property is in x-kubernetes-list-map-keys, so it must have a default or \
                     be a required property",
                );
            }
            if field.get("nullable") == Some(&Value::Bool(true)) {
                let detail =
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.errors.forbidden(&path.child("nullable"), detail);
            }
        }
    }
}

fn named<'a>(source: &'a Source, word: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    source.get(word).and_then(Value::as_object).into_iter().flatten()
}

fn items(source: &Source) -> Option<&Source> {
    source.get("items").and_then(Value::as_object)
}
