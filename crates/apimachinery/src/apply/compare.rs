//! Which fields a value has, and which differ between two objects. Bookkeeping that the server
//! keeps in metadata belongs to nobody and is left out. Paths are built only where there is a
//! difference.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{FieldSet, Node, mark_member};
use super::shape::{Place, Shape, value_element};
use crate::schema::SchemaRef;

/// Metadata that nobody owns.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

/// How much of a value is a member of its own set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// What an apply configuration owns: leaves, list items and map entries.
    Applied,
    /// What an update brings in: what holds them as well, of whatever sort.
    Updated,
}

/// Where in the object a value is, as far as stripping cares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Inner,
}

impl Level {
    fn skips(self, field: &str) -> bool {
        match self {
            Self::Root => field == "apiVersion" || field == "kind",
            Self::Metadata => UNOWNED.contains(&field),
            Self::Inner => false,
        }
    }

    fn below(self, field: &str) -> Self {
        if self == Self::Root && field == "metadata" { Self::Metadata } else { Self::Inner }
    }
}

/// What happened between two objects.
#[derive(Default)]
pub(super) struct Comparison {
    /// Added or modified.
    pub(super) changed: FieldSet,
    pub(super) removed: FieldSet,
}

/// The set of all fields of a whole object.
pub(super) fn field_set(schema: &SchemaRef, object: &Value, mode: Mode) -> FieldSet {
    let place = Place::new(schema);
    let fields = object.as_object().into_iter().flatten();
    let mut root = Node::new();
    for (name, value) in fields.filter(|(it, _)| !Level::Root.skips(it)) {
        let level = Level::Root.below(name);
        attach_field(&mut root, name, tree(place.field(name), value, mode, level));
    }
    FieldSet::new(Some(root))
}

pub(super) fn compare(schema: &SchemaRef, old: Option<&Value>, new: &Value) -> Comparison {
    let empty = Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&empty);
    let new = new.as_object().unwrap_or(&empty);
    let mut diff = Diff::default();
    compare_fields(&Place::new(schema), old, new, Level::Root, &mut diff);
    Comparison { changed: FieldSet::new(diff.changed), removed: FieldSet::new(diff.removed) }
}

/// The node of a value that is there; `None` when all of it is stripped.
fn tree(schema: &SchemaRef, value: &Value, mode: Mode, level: Level) -> Option<Node> {
    let place = Place::new(schema);
    let mut node = Node::new();
    match place.shape(value) {
        // Who applies no items of a list that is owned by its items owns nothing.
        Shape::Leaf if mode == Mode::Applied && place.is_without_items(value) => return None,
        Shape::Leaf => return (level == Level::Inner).then_some(node),
        Shape::Struct(fields) => {
            for (name, value) in fields.iter().filter(|(it, _)| !level.skips(it)) {
                attach_field(&mut node, name, tree(place.field(name), value, mode, Level::Inner));
            }
        }
        Shape::Map(fields) => {
            for (name, value) in fields {
                let mut child = tree(place.field(name), value, mode, Level::Inner);
                child.iter_mut().for_each(mark_member);
                attach_field(&mut node, name, child);
            }
        }
        Shape::Keyed(items) => {
            for item in items {
                let mut child = tree(place.item(), item, mode, Level::Inner).unwrap_or_default();
                mark_member(&mut child);
                let element = place.key_element(item);
                // Items that repeat a key are owned together, as one leaf.
                if node.contains_key(&element) {
                    child = Node::new();
                }
                node.insert(element, Value::Object(child));
            }
        }
        Shape::Set(items) => {
            for item in items {
                node.insert(value_element(item), Value::Object(Node::new()));
            }
        }
    }
    if mode == Mode::Applied && node.is_empty() {
        return None;
    }
    if level != Level::Inner {
        return (!node.is_empty()).then_some(node);
    }
    if mode == Mode::Updated {
        mark_member(&mut node);
    }
    Some(node)
}

fn attach_field(parent: &mut Node, name: &str, child: Option<Node>) {
    if let Some(child) = child {
        parent.insert(format!("f:{name}"), Value::Object(child));
    }
}

#[derive(Default)]
struct Diff {
    changed: Option<Node>,
    removed: Option<Node>,
}

impl Diff {
    fn attach(&mut self, element: impl Fn() -> String, below: Self) {
        if let Some(node) = below.changed {
            self.changed.get_or_insert_default().insert(element(), Value::Object(node));
        }
        if let Some(node) = below.removed {
            self.removed.get_or_insert_default().insert(element(), Value::Object(node));
        }
    }
}

/// Of two objects that are there. A field that Go's structs always have is there too, whatever is
/// written of it: it is not added when its first part is.
fn compare_fields(
    place: &Place<'_>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    level: Level,
    diff: &mut Diff,
) {
    let removed = old.iter().filter(|(name, _)| !new.contains_key(*name));
    let both = new.iter().map(|(name, value)| (name, old.get(name), Some(value)));
    for (name, old, new) in both.chain(removed.map(|(name, value)| (name, Some(value), None))) {
        if !level.skips(name) {
            let zero = place.zero(name);
            let (old, new) = (old.or(zero.as_ref()), new.or(zero.as_ref()));
            let below = compare_values(place.field(name), old, new, level.below(name));
            diff.attach(|| format!("f:{name}"), below);
        }
    }
}

fn compare_values(
    schema: &SchemaRef,
    old: Option<&Value>,
    new: Option<&Value>,
    level: Level,
) -> Diff {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => {
            return Diff { changed: tree(schema, new, Mode::Updated, level), removed: None };
        }
        (Some(old), None) => {
            return Diff { changed: None, removed: tree(schema, old, Mode::Updated, level) };
        }
        (None, None) => return Diff::default(),
    };
    let place = Place::new(schema);
    let mut diff = Diff::default();
    match (place.shape(old), place.shape(new)) {
        (Shape::Struct(old), Shape::Struct(new)) | (Shape::Map(old), Shape::Map(new)) => {
            compare_fields(&place, old, new, level, &mut diff);
        }
        // Comparing whole lists first saves the keys of those that did not change: nearly all.
        (Shape::Keyed(old), Shape::Keyed(new)) if old != new => {
            compare_keyed(&place, old, new, &mut diff);
        }
        (Shape::Set(old), Shape::Set(new)) if old != new => compare_sets(old, new, &mut diff),
        (Shape::Struct(fields) | Shape::Map(fields), Shape::Leaf) if is_nothing(new) => {
            compare_fields(&place, fields, &Map::new(), level, &mut diff);
        }
        (Shape::Leaf, Shape::Struct(fields) | Shape::Map(fields)) if is_nothing(old) => {
            compare_fields(&place, &Map::new(), fields, level, &mut diff);
        }
        (Shape::Keyed(items), Shape::Leaf) if is_nothing(new) => {
            compare_keyed(&place, items, &[], &mut diff);
        }
        (Shape::Leaf, Shape::Keyed(items)) if is_nothing(old) => {
            compare_keyed(&place, &[], items, &mut diff);
        }
        (Shape::Set(items), Shape::Leaf) if is_nothing(new) => compare_sets(items, &[], &mut diff),
        (Shape::Leaf, Shape::Set(items)) if is_nothing(old) => compare_sets(&[], items, &mut diff),
        (Shape::Leaf, Shape::Leaf) if old != new => diff.changed = Some(Node::new()),
        _ if old == new => {}
        _ => {
            diff.changed = tree(schema, new, Mode::Updated, level);
            diff.removed = tree(schema, old, Mode::Updated, level);
            subtract_changed(&mut diff);
        }
    }
    diff
}

/// There, but without parts.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A value that changed its shape: what is in both is not removed, and a leaf that gets parts stays
/// owned.
fn subtract_changed(diff: &mut Diff) {
    let Some(removed) = diff.removed.take().filter(|it| !it.is_empty()) else {
        return;
    };
    let mut rest = FieldSet::new(Some(removed));
    rest.subtract(&FieldSet::new(diff.changed.clone()));
    diff.removed = (!rest.is_empty()).then(|| rest.into_root());
}

fn compare_keyed(place: &Place<'_>, old: &[Value], new: &[Value], diff: &mut Diff) {
    // Items may repeat a key in objects that were stored before the rule; they are then one leaf.
    let mut by_key: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        by_key.entry(place.key_element(item)).or_default().0.push(item);
    }
    for item in new {
        by_key.entry(place.key_element(item)).or_default().1.push(item);
    }
    for (element, (old, new)) in by_key {
        let below = match (old.as_slice(), new.as_slice()) {
            ([old], [new]) => compare_values(place.item(), Some(old), Some(new), Level::Inner),
            ([], [new]) => Diff { changed: item_tree(place, new), removed: None },
            ([old], []) => Diff { changed: None, removed: item_tree(place, old) },
            ([old], _) => Diff { changed: Some(Node::new()), removed: item_tree(place, old) },
            ([], _) => Diff { changed: Some(Node::new()), removed: None },
            (_, []) => Diff { changed: None, removed: Some(Node::new()) },
            (_, [new]) => Diff { changed: item_tree(place, new), removed: Some(Node::new()) },
            (old, new) if old != new => Diff { changed: Some(Node::new()), removed: None },
            _ => Diff::default(),
        };
        diff.attach(|| element.clone(), below);
    }
}

fn item_tree(place: &Place<'_>, item: &Value) -> Option<Node> {
    let mut node = tree(place.item(), item, Mode::Updated, Level::Inner)?;
    mark_member(&mut node);
    Some(node)
}

fn compare_sets(old: &[Value], new: &[Value], diff: &mut Diff) {
    let elements = |items: &[Value]| {
        items.iter().map(value_element).collect::<std::collections::BTreeSet<_>>()
    };
    let (old, new) = (elements(old), elements(new));
    for element in new.difference(&old) {
        let below = Diff { changed: Some(Node::new()), removed: None };
        diff.attach(|| element.clone(), below);
    }
    for element in old.difference(&new) {
        let below = Diff { changed: None, removed: Some(Node::new()) };
        diff.attach(|| element.clone(), below);
    }
}
