//! The entries of `metadata.managedFields`: who owns which fields, since when.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Writer;
use super::field_set::FieldSet;

/// More managers that update than this are merged into one, oldest first.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";
pub(super) const BEFORE_FIRST_APPLY: &str = "before-first-apply";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One per (manager, operation, api_version, subresource); for Apply the version does not tell
/// apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// RFC 3339 with seconds, so that texts sort as times do. Empty when unknown.
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

impl Entry {
    pub(super) fn new(writer: &Writer<'_>, operation: Operation) -> Self {
        Self {
            manager: writer.manager.to_owned(),
            operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: time_text(writer),
            fields: FieldSet::default(),
        }
    }

    pub(super) fn is_of(&self, writer: &Writer<'_>, operation: Operation) -> bool {
        self.operation == operation
            && self.manager == writer.manager
            && self.subresource == writer.subresource
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    /// As conflicts name it: `"kubectl" using apps/v1`.
    pub(super) fn title(&self) -> String {
        let mut title = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            title.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            title.push_str(&format!(" using {}", self.api_version));
        }
        title
    }

    /// What tells entries apart.
    fn owner(&self) -> (Operation, String, String, String) {
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => self.api_version.clone(),
        };
        (self.operation, self.manager.clone(), self.subresource.clone(), version)
    }

    /// An entry that a client wrote: it must say all that the server would.
    fn read_strict(mut entry: Value) -> Option<Self> {
        let fields = entry.as_object_mut()?;
        fields.entry("fieldsV1").or_insert_with(|| Map::new().into());
        let has_type = fields.get("fieldsType").is_some_and(|it| it == "FieldsV1");
        Self::read(entry).filter(|it| has_type && !it.api_version.is_empty())
    }

    fn read(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else {
            return None;
        };
        let fields = FieldSet::try_from(entry.remove("fieldsV1")?).ok()?;
        let mut text = |key: &str| match entry.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        Some(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields,
        })
    }

    fn write(self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("manager", self.manager.into());
        put("operation", format!("{:?}", self.operation).into());
        put("apiVersion", self.api_version.into());
        if !self.time.is_empty() {
            put("time", self.time.into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.into_json());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.into());
        }
        Value::Object(entry)
    }
}

pub(super) fn time_text(writer: &Writer<'_>) -> String {
    format!("{:.0}", writer.now)
}

/// What a client says about ownership in an object that it sends.
pub(super) enum Claim {
    /// Nothing, or nothing that can be read: clients that do not know the field must not destroy
    /// it.
    None,
    /// `[]` or `[{}]`: ownership is to be forgotten.
    Reset,
    Entries(Vec<Entry>),
}

impl Claim {
    pub(super) fn read(managed_fields: Option<Value>) -> Self {
        let Some(Value::Array(items)) = managed_fields else {
            return Self::None;
        };
        let is_empty = |it: &Value| it.as_object().is_some_and(Map::is_empty);
        if items.is_empty() || matches!(items.as_slice(), [only] if is_empty(only)) {
            return Self::Reset;
        }
        let mut entries = BTreeMap::new();
        for item in items {
            let Some(entry) = Entry::read_strict(item) else {
                return Self::None;
            };
            // Of two of the same owner, the later one counts.
            entries.insert(entry.owner(), entry);
        }
        Self::Entries(entries.into_values().collect())
    }
}

/// Entries that cannot be read are dropped: they own nothing that anybody could name.
pub(super) fn read(managed_fields: Value) -> Vec<Entry> {
    match managed_fields {
        Value::Array(entries) => entries.into_iter().filter_map(Entry::read).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn of(object: &Value) -> Vec<Entry> {
    object.pointer("/metadata/managedFields").cloned().map(read).unwrap_or_default()
}

/// Whether the entries are those of `live` but for times, which a client may have lost on the way.
pub(super) fn differ_in_time(entries: &[Entry], live: &Value) -> bool {
    let timeless = |entries: &[Entry]| {
        let mut entries = entries.to_vec();
        entries.iter_mut().for_each(|it| it.time.clear());
        entries.sort_by_cached_key(Entry::owner);
        entries
    };
    timeless(entries) == timeless(&of(live))
}

/// Writes the entries in their order: Apply first, then by time, manager, version, subresource.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|it| !it.fields.is_empty());
    cap(&mut entries);
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let entries: Vec<Value> = entries.into_iter().map(Entry::write).collect();
    let Some(metadata) = metadata_of(object) else {
        return;
    };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

pub(super) fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| Map::new().into());
    metadata.as_object_mut()
}

fn order(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    (entry.operation, &entry.time, &entry.manager, &entry.api_version, &entry.subresource)
}

/// Merges the oldest updaters of each version into one entry until few enough are left.
fn cap(entries: &mut Vec<Entry>) {
    let n_updaters = entries.iter().filter(|it| it.operation == Operation::Update).count();
    let Some(mut excess) = n_updaters.checked_sub(UPDATERS_MAX).filter(|it| *it > 0) else {
        return;
    };
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut ancient: BTreeMap<String, Entry> = BTreeMap::new();
    let mut kept = Vec::with_capacity(entries.len());
    for mut entry in entries.drain(..) {
        if entry.operation == Operation::Apply {
            kept.push(entry);
        } else if let Some(bucket) = ancient.get_mut(&entry.api_version) {
            if excess == 0 {
                kept.push(entry);
                continue;
            }
            bucket.fields.union_with(&entry.fields);
            bucket.time = entry.time.max(std::mem::take(&mut bucket.time));
            excess -= 1;
        } else if excess > 0 {
            ANCIENT.clone_into(&mut entry.manager);
            entry.subresource = String::new();
            ancient.insert(entry.api_version.clone(), entry);
        } else {
            kept.push(entry);
        }
    }
    kept.extend(ancient.into_values());
    *entries = kept;
}
