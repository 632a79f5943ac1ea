//! Field ownership (`metadata.managedFields`) and server-side apply. Works on JSON trees with the
//! schema of the kind; objects are whole, with apiVersion, kind and metadata.

mod compare;
mod entries;
mod field_set;
mod last_applied;
mod merge;
mod shape;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use compare::{Comparison, Mode};
use entries::{Claim, Entry, Operation};
pub use field_set::FieldSet;

use crate::schema::SchemaRef;

/// How many conflicts are told.
const CONFLICTS_MAX: usize = 1_000;

/// Who writes, through which door.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// The version written in: `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Top-level paths this door resets and so never owns: `["status"]` on the main resource of a
    /// kind with a status subresource, `["spec"]` on /status, ... in dotted form.
    pub reset_fields: &'a [&'a str],
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 409 with one cause FieldManagerConflict per field: (field path such as `.spec.replicas`, message
    /// `conflict with "kubectl" using apps/v1`).
    #[error("{}", conflict_text(.0))]
    Conflicts(Vec<(String, String)>),
    #[error("{0}")]
    Malformed(String),
}

fn conflict_text(conflicts: &[(String, String)]) -> String {
    if let [(path, with)] = conflicts {
        return format!("Apply failed with 1 conflict: {with}: {path}");
    }
    let mut text = format!("Apply failed with {} conflicts:", conflicts.len());
    let mut last = "";
    for (index, (path, with)) in conflicts.iter().enumerate() {
        if with != last {
            let gap = if index == 0 { ' ' } else { '\n' };
            let with = with.replacen("conflict ", "conflicts ", 1);
            text.push_str(&format!("{gap}{with}:"));
        }
        last = with;
        text.push_str(&format!("\n- {path}"));
    }
    text
}

/// Records a create, update or non-apply patch: `object` gets its new managedFields. `live` is the object before,
/// `None` on create. What the client itself says in managedFields counts in place of the live entries, but not through a
/// subresource. When nothing but bookkeeping differs, the entries (and their times) stay as they were.
pub fn record_update(
    schema: &SchemaRef,
    live: Option<&Value>,
    object: &mut Value,
    writer: &Writer<'_>,
) {
    let claimed = take_managed_fields(object);
    let Some(live) = live else {
        let mut entry = Entry::new(writer, Operation::Update);
        entry.fields = owned_changes(schema, None, object, writer).changed;
        entries::write(object, vec![entry]);
        return;
    };
    let stored = live.pointer("/metadata/managedFields");
    // Most writers send back what they read; comparing is cheaper than reading.
    let claimed = claimed.filter(|it| writer.subresource.is_empty() && Some(it) != stored);
    let Comparison { changed, removed } = owned_changes(schema, Some(live), object, writer);
    let is_same = changed.is_empty() && removed.is_empty();
    let entries = match Claim::read(claimed) {
        Claim::Reset => return,
        Claim::None if is_same => return keep_managed_fields(stored, object),
        Claim::None => entries::of(live),
        Claim::Entries(claimed) if is_same && entries::differ_in_time(&claimed, live) => {
            return keep_managed_fields(stored, object);
        }
        Claim::Entries(claimed) => claimed,
    };
    // Ownership that was given up is not tracked again before somebody applies.
    if !entries.is_empty() {
        entries::write(object, with_changes(entries, changed, &removed, writer));
    }
}

/// The entries after an update: what it changed is the writer's, what it removed is nobody's.
fn with_changes(
    mut entries: Vec<Entry>,
    changed: FieldSet,
    removed: &FieldSet,
    writer: &Writer<'_>,
) -> Vec<Entry> {
    for entry in &mut entries {
        if !entry.is_of(writer, Operation::Update) {
            entry.fields.subtract(&changed);
        }
        entry.fields.subtract(removed);
    }
    if !changed.is_empty() {
        match entries.iter_mut().find(|it| it.is_of(writer, Operation::Update)) {
            Some(entry) => {
                entry.fields.union_with(&changed);
                entry.time = entries::time_text(writer);
            }
            None => {
                entries.push(Entry { fields: changed, ..Entry::new(writer, Operation::Update) });
            }
        }
    }
    entries
}

/// Server-side apply: merges `config` into `live` (`None`: creates). Returns the whole object with managedFields.
pub fn apply(
    schema: &SchemaRef,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Error> {
    check_config(config)?;
    let mut entries = live.map(entries::of).unwrap_or_default();
    if let Some(live) = live
        && entries.is_empty()
    {
        let mut entry = Entry::new(writer, Operation::Update);
        entries::BEFORE_FIRST_APPLY.clone_into(&mut entry.manager);
        entry.subresource = String::new();
        entry.fields = compare::field_set(schema, live, Mode::Updated);
        entries.push(entry);
    }
    let mut applied = compare::field_set(schema, config, Mode::Applied);
    writer.reset_fields.iter().for_each(|it| applied.remove_tree(it));
    let previous = entries.iter().position(|it| it.is_of(writer, Operation::Apply));
    let previous = previous.map(|it| entries.remove(it));

    let mut object = merge::merge(schema, live.cloned(), config)?;
    if let Some(previous) = &previous {
        prune(schema, &mut object, previous, &applied, &entries);
    }
    let Comparison { changed, removed } = owned_changes(schema, live, &object, writer);
    if !force {
        let allowed = last_applied::fields_to_take_over(schema, live, writer);
        check_conflicts(&entries, &changed, &allowed)?;
    }
    for entry in &mut entries {
        entry.fields.subtract(&changed);
        entry.fields.subtract(&removed);
    }
    let is_same = changed.is_empty() && removed.is_empty();
    let mut entry = Entry { fields: applied, ..Entry::new(writer, Operation::Apply) };
    if let Some(previous) = previous
        && is_same
        && previous.fields == entry.fields
        && previous.api_version == entry.api_version
    {
        entry.time = previous.time;
    }
    entries.push(entry);
    take_managed_fields(&mut object);
    entries::write(&mut object, entries);
    last_applied::update(&mut object, config, writer);
    Ok(object)
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    entries::metadata_of(object).and_then(|it| it.remove("managedFields"))
}

fn keep_managed_fields(stored: Option<&Value>, object: &mut Value) {
    if let (Some(stored), Some(metadata)) = (stored, entries::metadata_of(object)) {
        metadata.insert("managedFields".to_owned(), stored.clone());
    }
}

/// What changed, without the fields that this door resets.
fn owned_changes(
    schema: &SchemaRef,
    live: Option<&Value>,
    object: &Value,
    writer: &Writer<'_>,
) -> Comparison {
    let mut comparison = compare::compare(schema, live, object);
    for path in writer.reset_fields {
        comparison.changed.remove_tree(path);
        comparison.removed.remove_tree(path);
    }
    comparison
}

fn check_config(config: &Value) -> Result<(), Error> {
    if !config.is_object() {
        return Err(Error::Malformed("the apply configuration must be an object".to_owned()));
    }
    match config.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(entries)) if entries.is_empty() => Ok(()),
        Some(_) => Err(Error::Malformed("metadata.managedFields must be nil".to_owned())),
    }
}

/// Removes what the manager applied last time, does not apply now, and nobody else owns.
fn prune(
    schema: &SchemaRef,
    object: &mut Value,
    previous: &Entry,
    applied: &FieldSet,
    others: &[Entry],
) {
    let mut keep = applied.clone();
    for entry in others {
        keep.union_with(&entry.fields);
    }
    // Metadata itself is never removed: what the server keeps there is in nobody's set.
    let mut metadata = Map::new();
    metadata.insert("f:metadata".to_owned(), json!({"f:name": {}}));
    keep.union_with(&FieldSet::new(Some(metadata)));
    merge::prune(schema, object, previous.fields.root(), Some(keep.root()));
}

fn check_conflicts(others: &[Entry], changed: &FieldSet, allowed: &FieldSet) -> Result<(), Error> {
    let mut conflicts = Vec::new();
    for entry in others {
        let with = format!("conflict with {}", entry.title());
        let mut fields = entry.fields.intersection(changed);
        fields.subtract(allowed);
        let paths = fields.paths();
        conflicts.extend(paths.into_iter().map(|path| (path, with.clone())));
        if conflicts.len() > CONFLICTS_MAX {
            break;
        }
    }
    conflicts.truncate(CONFLICTS_MAX);
    conflicts.sort_by(|a, b| a.1.cmp(&b.1));
    if conflicts.is_empty() { Ok(()) } else { Err(Error::Conflicts(conflicts)) }
}
