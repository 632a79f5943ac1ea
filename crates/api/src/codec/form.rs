//! How Go writes an object: what of each type stands in JSON when there is nothing in it, made by
//! the build from `facts/`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

/// A struct.
#[derive(Debug)]
pub(super) struct Form {
    /// By name, as they are written.
    pub(super) fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) count: Count,
    pub(super) of: Of,
    /// What is written where there is nothing; empty: no field.
    pub(super) absent: &'static str,
    /// Zero, an empty text, an empty list and a struct of which nothing was said are nothing.
    pub(super) is_zero_absent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    One,
    List,
    Map,
}

/// What a value, an item of a list or a value of a map is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// Whatever JSON.
    Any,
    Scalar,
    Struct(&'static Form),
    Time,
}

/// Made by the build.
mod table {
    use super::{Count, Field, Form, Of};

    include!(concat!(env!("OUT_DIR"), "/forms.rs"));
}

/// Whether a value under this name is what Go writes there of nothing: a struct that is part of what
/// it is in (`resources` of a container, and not `emptyDir` of a volume), or a zero that is always
/// written (`divisor`). Of names that types do not agree on, structs are what they are in most, and
/// zeros are something.
pub(super) fn is_nothing(name: &str, value: &Value) -> bool {
    static NAMES: OnceLock<BTreeMap<&str, Value>> = OnceLock::new();
    NAMES.get_or_init(written_of_nothing).get(name) == Some(value)
}

/// By name of field.
fn written_of_nothing() -> BTreeMap<&'static str, Value> {
    let mut structs: BTreeMap<&str, i32> = BTreeMap::new();
    let mut zeros: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for field in table::ALL.iter().flat_map(|it| it.1.fields) {
        match (field.count, field.of) {
            (Count::One, Of::Struct(_)) => {
                let vote = if field.absent.starts_with('{') { 1 } else { -1 };
                *structs.entry(field.name).or_default() += vote;
            }
            _ => drop(zeros.entry(field.name).or_default().insert(field.absent)),
        }
    }
    let structs = structs.into_iter().filter(|it| it.1 > 0).map(|it| (it.0, "{}"));
    let zeros = zeros.into_iter().filter(|it| it.1.len() == 1);
    let zeros = zeros.filter_map(|(name, texts)| Some((name, texts.into_iter().next()?)));
    let written = zeros.filter(|it| !it.1.is_empty()).chain(structs);
    written.map(|(name, text)| (name, parsed(text))).collect()
}

impl Form {
    /// Of a definition: `io.k8s.api.apps.v1.Deployment`.
    pub(super) fn of(definition: &str) -> Option<&'static Self> {
        let at = table::ALL.binary_search_by_key(&definition, |it| it.0).ok()?;
        Some(table::ALL[at].1)
    }

    /// An object of which nothing was said.
    pub(super) fn zero(&self) -> Value {
        let fields = self.fields.iter().filter(|it| !it.absent.is_empty());
        fields.map(|it| (it.name.to_owned(), parsed(it.absent))).collect()
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the build wrote JSON")
}
