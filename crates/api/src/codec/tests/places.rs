//! Every place in the objects of a kind, by its schema: the way there, as JSON and as Go's errors
//! name it. A type that is met again on the way is not entered a second time.

use std::collections::BTreeSet;

use apimachinery::schema::{SchemaRef, Type};

#[derive(Clone)]
pub(super) enum Step {
    /// A field, behind the structs that it is inlined from.
    Field(String, String),
    Item,
    Key,
}

pub(super) const KEY: &str = "k";

#[derive(Clone)]
pub(super) struct Place {
    pub(super) steps: Vec<Step>,
    /// As it stands there; it may refer to another.
    pub(super) schema: SchemaRef,
    /// The definition of the innermost struct around it.
    pub(super) owner: String,
}

/// All places but the root.
pub(super) fn places(root: &SchemaRef) -> Vec<Place> {
    let mut found = Vec::new();
    let place = Place { steps: Vec::new(), schema: root.clone(), owner: String::new() };
    enter(&place, &mut BTreeSet::new(), &mut found);
    found
}

fn enter(at: &Place, seen: &mut BTreeSet<String>, found: &mut Vec<Place>) {
    let schema = at.schema.resolve();
    if is_struct(&schema) && !seen.insert(schema.definition.clone()) {
        return;
    }
    let owner = if is_struct(&schema) { &schema.definition } else { &at.owner };
    let mut add = |step: Step, schema: &SchemaRef| {
        let steps = at.steps.iter().cloned().chain([step]).collect();
        let place = Place { steps, schema: schema.clone(), owner: owner.clone() };
        found.push(place.clone());
        enter(&place, seen, found);
    };
    let is_kind = schema.properties.contains_key("metadata");
    for (name, field) in &schema.properties {
        // Names of objects are read before the rest.
        if !(is_kind && matches!(name.as_str(), "apiVersion" | "kind")) {
            add(Step::Field(field.go_embedded.clone(), name.clone()), field);
        }
    }
    schema.items.iter().for_each(|it| add(Step::Item, it));
    schema.additional.iter().for_each(|it| add(Step::Key, it));
}

pub(super) fn is_struct(schema: &SchemaRef) -> bool {
    schema.kind == Type::Object && !schema.properties.is_empty()
}

/// `value` at the end of the way, in an object that says `names`.
pub(super) fn wrap(names: &str, steps: &[Step], value: &str) -> String {
    let inner = steps.iter().rev().fold(value.to_owned(), |value, step| match step {
        Step::Field(_, name) => format!("{{{name:?}:{value}}}"),
        Step::Item => format!("[{value}]"),
        Step::Key => format!("{{{KEY:?}:{value}}}"),
    });
    let fields = inner.strip_prefix('{').expect("an object is at the root");
    let comma = if fields == "}" { "" } else { "," };
    format!("{{{names}{comma}{fields}")
}

impl Place {
    /// As strict decoding names it: `spec.containers[0].name`.
    pub(super) fn path(&self) -> String {
        let path: String = self
            .steps
            .iter()
            .map(|it| match it {
                Step::Field(_, name) => format!(".{name}"),
                Step::Item => "[0]".to_owned(),
                Step::Key => format!(".{KEY}"),
            })
            .collect();
        path.trim_start_matches('.').to_owned()
    }

    /// As Go's decoder names it: `PodSpec.spec.containers`.
    pub(super) fn go_path(&self) -> String {
        let fields = self.steps.iter().filter_map(|it| match it {
            Step::Field(embedded, name) if embedded.is_empty() => Some(name.clone()),
            Step::Field(embedded, name) => Some(format!("{embedded}.{name}")),
            Step::Item | Step::Key => None,
        });
        let owner = self.owner.rsplit('.').next().unwrap_or_default();
        format!("{owner}.{}", fields.collect::<Vec<_>>().join("."))
    }
}
