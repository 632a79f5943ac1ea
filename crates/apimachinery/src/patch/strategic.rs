//! Strategic merge patch: a merge patch that knows which lists are merged by key or as sets. Which
//! ones is in the schema (`PatchRule`); directives in the patch say the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Error;
use crate::go::text;
use crate::schema::{PatchRule, SchemaRef, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER_PREFIX: &str = "$setElementOrder/";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

pub(super) fn apply(schema: &SchemaRef, document: &Value, patch: &Value) -> Result<Value, Error> {
    let (Value::Object(document), Value::Object(patch)) = (document, patch) else {
        return Err(Error::Malformed("a strategic merge patch must be an object".to_owned()));
    };
    merge_objects(schema, document.clone(), patch).map(Value::Object)
}

/// How a field merges: its schema and what its place says about lists.
fn field_of(schema: &SchemaRef, name: &str) -> (SchemaRef, PatchRule) {
    let resolved = schema.resolve();
    match resolved.properties.get(name).or(resolved.additional.as_ref()) {
        Some(field) => (field.clone(), field.patch.clone()),
        None => (SchemaRef::default(), PatchRule::default()),
    }
}

fn merge_objects(schema: &SchemaRef, live: Object, patch: &Object) -> Result<Object, Error> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(it)) if it == "delete" => return Ok(Object::new()),
        Some(Value::String(it)) if it == "replace" => return Ok(without_directives(patch)),
        Some(Value::String(it)) if it == "merge" => {}
        Some(other) => {
            return Err(Error::Malformed(format!("unknown patch type found: {other}")));
        }
    }
    let mut merged = live;
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut merged, patch, keys)?;
    }
    for (name, list) in directives(patch, DELETE_PREFIX) {
        let unwanted: BTreeSet<String> =
            list_of(list, name)?.iter().map(ToString::to_string).collect();
        if let Some(Value::Array(items)) = merged.get_mut(name) {
            items.retain(|it| !unwanted.contains(&it.to_string()));
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(schema, &mut merged, (name, value), patch)?;
    }
    for (name, order) in directives(patch, ORDER_PREFIX) {
        if patch.contains_key(name) {
            continue;
        }
        let (_, rule) = field_of(schema, name);
        let order = list_of(order, name)?;
        if let Some(Value::Array(items)) = merged.get_mut(name) {
            let live = items.clone();
            *items = ordered(std::mem::take(items), &live, order, rule.merge_key.as_deref());
        }
    }
    Ok(merged)
}

fn merge_field(
    schema: &SchemaRef,
    merged: &mut Object,
    (name, value): (&String, &Value),
    patch: &Object,
) -> Result<(), Error> {
    if value.is_null() {
        merged.remove(name);
        return Ok(());
    }
    let (field, rule) = field_of(schema, name);
    if schema.resolve().is_raw() && merged.get(name).is_some_and(|it| is_alike(it, value)) {
        return Err(Error::Unfit(format!(
            "unable to find api field in struct RawExtension for the json field {name:?}"
        )));
    }
    let live = merged.remove(name);
    let is_new =
        live.as_ref().is_none_or(|it| std::mem::discriminant(it) != std::mem::discriminant(value));
    let new = match (live, value) {
        // What is not merged with anything is taken as it is.
        (_, Value::Array(items)) if is_new => bare(&Value::Array(items.clone())),
        (Some(Value::Object(_)), Value::Object(_)) if rule.is_replace => value.clone(),
        (Some(Value::Object(live)), Value::Object(value)) => {
            Value::Object(merge_objects(&field, live, value)?)
        }
        (_, Value::Object(value)) => Value::Object(merge_objects(&field, Object::new(), value)?),
        (live, Value::Array(items)) if rule.is_merge => {
            let live = match live {
                Some(Value::Array(live)) => live,
                _ => Vec::new(),
            };
            let order = patch.get(&format!("{ORDER_PREFIX}{name}"));
            let order = order.map(|it| list_of(it, name)).transpose()?;
            Value::Array(merge_lists(&field, live, items, &rule, order)?)
        }
        (_, other) => other.clone(),
    };
    // `$patch: delete` in an object field removes the field itself.
    let is_deleted = value.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    if !is_deleted {
        merged.insert(name.clone(), new);
    }
    Ok(())
}

/// Both objects, or both lists.
fn is_alike(one: &Value, two: &Value) -> bool {
    (one.is_object() && two.is_object()) || (one.is_array() && two.is_array())
}

/// Without directives, and without what is to be removed, at any depth.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, it)| !name.starts_with('$') && !it.is_null());
            Value::Object(kept.map(|(name, it)| (name.clone(), bare(it))).collect())
        }
        Value::Array(items) => {
            Value::Array(items.iter().filter(|it| directive_of(it).is_none()).map(bare).collect())
        }
        other => other.clone(),
    }
}

fn merge_lists(
    field: &SchemaRef,
    live: Vec<Value>,
    patch: &[Value],
    rule: &PatchRule,
    order: Option<&[Value]>,
) -> Result<Vec<Value>, Error> {
    let resolved = field.resolve();
    let item = resolved.items.clone().unwrap_or_default();
    let Some(key) = rule.merge_key.as_deref().filter(|_| holds_objects(&item, &live, patch)) else {
        let mut merged = live.clone();
        let mut seen: BTreeSet<String> = live.iter().map(ToString::to_string).collect();
        merged.extend(patch.iter().filter(|it| seen.insert(it.to_string())).cloned());
        return Ok(ordered(merged, &live, order.unwrap_or(patch), None));
    };
    if !live.iter().chain(patch).all(Value::is_object) {
        let lists = [live.as_slice(), patch].map(|it| text(&Value::from(it)));
        let detail = format!("list element types are not identical: [{}]", lists.join(" "));
        return Err(Error::Unfit(detail));
    }
    let is_replaced = patch.iter().any(|it| directive_of(it) == Some("replace"));
    let mut merged = Keyed::new(key, if is_replaced { Vec::new() } else { live.clone() });
    for value in patch {
        merged.merge_item(&item, value)?;
    }
    // What was there without a name has no place in the order.
    if let Some(nameless) = live.iter().find(|it| !is_replaced && it.get(key).is_none()) {
        return Err(no_merge_key(nameless, key));
    }
    let merged = merged.into_items();
    let wanted: Vec<Value>;
    let order = match order {
        Some(order) => order,
        None => {
            wanted = patch.iter().filter(|it| directive_of(it).is_none()).cloned().collect();
            &wanted
        }
    };
    Ok(ordered(merged, &live, order, Some(key)))
}

fn holds_objects(item: &SchemaRef, live: &[Value], patch: &[Value]) -> bool {
    item.resolve().kind == Type::Object || live.iter().chain(patch).any(Value::is_object)
}

fn directive_of(item: &Value) -> Option<&str> {
    item.get(DIRECTIVE).and_then(Value::as_str)
}

fn no_merge_key(item: &Value, key: &str) -> Error {
    Error::Unfit(format!("map: {} does not contain declared merge key: {key}", text(item)))
}

/// A list whose items are found by the value of one field.
struct Keyed<'a> {
    key: &'a str,
    items: Vec<Option<Value>>,
    /// Where the items with one value are; more than one in objects that were stored before the
    /// rule.
    places: BTreeMap<String, Vec<usize>>,
}

impl<'a> Keyed<'a> {
    fn new(key: &'a str, items: Vec<Value>) -> Self {
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, item) in items.iter().enumerate() {
            if let Some(identity) = item.get(key) {
                places.entry(identity.to_string()).or_default().push(place);
            }
        }
        Self { key, items: items.into_iter().map(Some).collect(), places }
    }

    fn push(&mut self, identity: String, item: Object) {
        self.places.entry(identity).or_default().push(self.items.len());
        self.items.push(Some(Value::Object(item)));
    }

    fn into_items(self) -> Vec<Value> {
        self.items.into_iter().flatten().collect()
    }

    fn merge_item(&mut self, schema: &SchemaRef, patch: &Value) -> Result<(), Error> {
        let key = self.key;
        let Value::Object(fields) = patch else { return Ok(()) };
        let directive = directive_of(patch);
        let identity = fields.get(key).filter(|it| !it.is_null());
        // Nothing has `null` for a name: it is one more.
        if identity.is_none() && directive.is_none() && fields.contains_key(key) {
            self.items.push(Some(bare(patch)));
            return Ok(());
        }
        let Some(identity) = identity.map(ToString::to_string) else {
            // A bare `$patch: replace` only says that the list is replaced.
            if directive == Some("replace") {
                return Ok(());
            }
            return Err(no_merge_key(patch, key));
        };
        match directive {
            Some("delete") => {
                for place in self.places.remove(&identity).unwrap_or_default() {
                    self.items[place] = None;
                }
            }
            Some("replace") => self.push(identity, without_directives(fields)),
            None | Some("merge") => {
                let place = self.places.get(&identity).and_then(|it| it.first()).copied();
                let Some(place) = place else {
                    self.push(identity, merge_objects(schema, Object::new(), fields)?);
                    return Ok(());
                };
                let live = match self.items[place].take() {
                    Some(Value::Object(live)) => live,
                    _ => Object::new(),
                };
                self.items[place] = Some(Value::Object(merge_objects(schema, live, fields)?));
            }
            Some(other) => {
                return Err(Error::Malformed(format!("unknown patch type found: {other}")));
            }
        }
        Ok(())
    }
}

/// Puts `items` in order: those named in `order` in that order, the others where they were in
/// `live` between them. Live `[a, b, c, d]` and order `[d, x, b]` give `[a, c, d, x, b]`.
fn ordered(items: Vec<Value>, live: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let identity = |it: &Value| match key {
        Some(key) => it.get(key).unwrap_or(&Value::Null).to_string(),
        None => it.to_string(),
    };
    let ranks: BTreeMap<String, usize> =
        order.iter().enumerate().map(|(rank, it)| (identity(it), rank)).collect();
    let places: BTreeMap<String, usize> =
        live.iter().enumerate().map(|(place, it)| (identity(it), place)).collect();
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|it| ranks.contains_key(&identity(it)));
    named.sort_by_cached_key(|it| ranks.get(&identity(it)).copied());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut result = Vec::new();
    while let (Some(one), Some(other)) = (named.peek(), others.peek()) {
        let (one, other) = (places.get(&identity(one)), places.get(&identity(other)));
        // What is not in the live list comes in the order of the patch, before the rest.
        let is_named_first = match (one, other) {
            (Some(one), Some(other)) => one < other,
            (None, Some(_)) | (None, None) => true,
            (Some(_), None) => false,
        };
        result.extend(if is_named_first { named.next() } else { others.next() });
    }
    result.extend(named);
    result.extend(others);
    result
}

fn retain_keys(merged: &mut Object, patch: &Object, keys: &Value) -> Result<(), Error> {
    let keys: BTreeSet<&str> =
        list_of(keys, RETAIN_KEYS)?.iter().filter_map(Value::as_str).collect();
    let is_kept = |name: &String| keys.contains(name.as_str());
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        if !value.is_null() && !is_kept(name) {
            return Err(Error::Malformed(format!(
                "patch contains the field {name:?} that is not listed in $retainKeys"
            )));
        }
    }
    merged.retain(|name, _| is_kept(name));
    Ok(())
}

/// (field, value) of the directives with this prefix.
fn directives<'a>(
    patch: &'a Object,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    patch.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
}

fn list_of<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Error> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Error::Malformed(format!("the directive for {name:?} must be a list")))
}

/// A copy of what the patch says, for places that have nothing to merge with.
fn without_directives(patch: &Object) -> Object {
    patch
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
