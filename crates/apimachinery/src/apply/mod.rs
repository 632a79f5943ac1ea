//! Field ownership (`metadata.managedFields`) and server-side apply. Works on JSON trees with the
//! schema of the kind; objects are whole, with apiVersion, kind and metadata.

mod compare;
mod entries;
mod field_set;
mod last_applied;
mod merge;
mod pruning;
mod shape;
#[cfg(test)]
mod tests;
mod typed;
mod versions;

use jiff::Timestamp;
use serde_json::Value;

use compare::{Comparison, Mode};
use entries::{Claim, Entry, Operation};
pub use field_set::FieldSet;
use typed::Repeats;
use versions::Differences;
pub use versions::{Unconverted, Versions};

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
    pub resets: Resets<'a>,
}

/// What a door puts back as it was, so that nobody owns it by writing there. Paths in dotted form.
#[derive(Clone, Copy, Debug)]
pub enum Resets<'a> {
    /// These and what is below: `["status"]` on the main resource of a kind with a status
    /// subresource, `["spec"]` on /status.
    Only(&'a [&'a str]),
    /// All but these and what is below; `*` stands for any item of a list:
    /// `["spec.containers.*.resources"]`.
    AllBut(&'a [&'a str]),
}

impl Resets<'_> {
    fn take_from(self, fields: &mut FieldSet) {
        match self {
            Self::Only(paths) => paths.iter().for_each(|it| fields.remove_tree(it)),
            Self::AllBut(paths) => fields.retain_trees(paths),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 409 with one cause FieldManagerConflict per field: (field path such as `.spec.replicas`,
    /// message `conflict with "kubectl" using apps/v1`).
    #[error("{}", conflict_text(.0))]
    Conflicts(Vec<(String, String)>),
    #[error("{0}")]
    Malformed(String),
    /// The configuration, or the object that it is applied to, is not what the schema says.
    #[error("{0}")]
    Untyped(String),
    #[error(transparent)]
    Unconverted(#[from] Unconverted),
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

/// Records a create, update or non-apply patch: `object` gets its new managedFields. `live` is the
/// object before, `None` on create. What the client itself says in managedFields counts in place of
/// the live entries, but not through a subresource. When nothing but bookkeeping differs, the
/// entries (and their times) stay as they were.
///
/// Both are in the version of the writer.
pub fn record_update(
    versions: &dyn Versions,
    live: Option<&Value>,
    object: &mut Value,
    writer: &Writer<'_>,
) -> Result<(), Error> {
    let schema = &schema_of(versions, writer)?;
    let claimed = take_managed_fields(object);
    // Of what cannot be told apart nobody is the owner.
    if typed::validate(schema, object, Repeats::Allowed).is_err() {
        return Ok(());
    }
    let Some(live) = live else {
        let mut entry = Entry::new(writer, Operation::Update);
        let zero = versions.zero(writer.api_version);
        entry.fields = owned_changes(schema, zero.as_ref(), object, writer).changed;
        entries::write(object, vec![entry]);
        return Ok(());
    };
    let stored = live.pointer("/metadata/managedFields");
    // Most writers send back what they read; comparing is cheaper than reading.
    let claimed = claimed.filter(|it| writer.subresource.is_empty() && Some(it) != stored);
    let comparison = owned_changes(schema, Some(live), object, writer);
    let is_same = comparison.changed.is_empty() && comparison.removed.is_empty();
    let entries = match Claim::read(claimed) {
        Claim::Reset => return Ok(()),
        Claim::None if is_same => {
            keep_managed_fields(stored, object);
            return Ok(());
        }
        Claim::None => entries::of(live),
        Claim::Entries(claimed) if is_same && entries::differ_in_time(&claimed, live) => {
            keep_managed_fields(stored, object);
            return Ok(());
        }
        Claim::Entries(claimed) => claimed,
    };
    // Ownership that was given up is not tracked again before somebody applies.
    if !entries.is_empty() {
        let pair = (Some(live), &*object);
        let own = (writer.api_version, comparison);
        let mut differences = Differences::new(versions, pair, writer.resets, own);
        let entries = with_changes(entries, &mut differences, writer)?;
        entries::write(object, entries);
    }
    Ok(())
}

fn schema_of(versions: &dyn Versions, writer: &Writer<'_>) -> Result<SchemaRef, Error> {
    let no_such = || Error::Malformed(format!("{} is not served", writer.api_version));
    versions.schema(writer.api_version).ok_or_else(no_such)
}

/// The entries after an update: what it changed is the writer's, what it removed is nobody's.
fn with_changes(
    entries: Vec<Entry>,
    differences: &mut Differences<'_>,
    writer: &Writer<'_>,
) -> Result<Vec<Entry>, Error> {
    let mut kept = Vec::with_capacity(entries.len() + 1);
    for mut entry in entries {
        let Some(seen) = differences.seen_in(&entry.api_version)? else { continue };
        if !entry.is_of(writer, Operation::Update) {
            entry.fields.subtract(&seen.changed);
        }
        entry.fields.subtract(&seen.removed);
        kept.push(entry);
    }
    let mut entries = kept;
    let changed = differences.seen_in(writer.api_version)?.map(|it| it.changed.clone());
    let changed = changed.unwrap_or_default();
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
    Ok(entries)
}

/// Server-side apply: merges `config` into `live` (`None`: creates), both in the version of the
/// writer. Returns the whole object with managedFields.
pub fn apply(
    versions: &dyn Versions,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Error> {
    validate_config(config)?;
    let schema = &schema_of(versions, writer)?;
    validate_types(schema, live, config)?;
    let mut entries = live.map(entries::of).unwrap_or_default();
    if let Some(live) = live
        && entries.is_empty()
    {
        let mut entry = Entry::new(writer, Operation::Update);
        entries::BEFORE_FIRST_APPLY.clone_into(&mut entry.manager);
        entry.subresource = String::new();
        entry.fields = compare::compare(schema, None, live).changed;
        entries.push(entry);
    }
    let mut applied = compare::field_set(schema, config, Mode::Applied);
    writer.resets.take_from(&mut applied);
    let previous = entries.iter().position(|it| it.is_of(writer, Operation::Apply));
    let previous = previous.map(|it| entries.remove(it));

    let mut object = merge::merge(schema, live.cloned(), config)?;
    if let Some(previous) = &previous {
        let own = (writer.api_version, &applied);
        object = pruning::prune(versions, object, previous, own, &entries)?;
    }
    // Also by what this door resets.
    let all = compare::compare(schema, live, &object);
    let is_same = all.changed.is_empty() && all.removed.is_empty();
    let own = (writer.api_version, owned(all, writer));
    let mut differences = Differences::new(versions, (live, &object), writer.resets, own);
    if !force {
        let allowed = last_applied::fields_to_take_over(schema, live, writer);
        validate_conflicts(&entries, &mut differences, &allowed)?;
    }
    let mut kept = Vec::with_capacity(entries.len() + 1);
    for mut entry in entries {
        let Some(seen) = differences.seen_in(&entry.api_version)? else { continue };
        entry.fields.subtract(&seen.changed);
        entry.fields.subtract(&seen.removed);
        kept.push(entry);
    }
    let mut entries = kept;
    let mut entry = Entry { fields: applied, ..Entry::new(writer, Operation::Apply) };
    // Who changes nothing has no time of their own.
    if is_same {
        entry.time = previous.map(|it| it.time).unwrap_or_default();
    }
    entries.push(entry);
    take_managed_fields(&mut object);
    entries::write(&mut object, entries);
    last_applied::update(&mut object, config, writer);
    Ok(object)
}

/// Merges `config` into `live` without keeping track of who owns what, as mutating policies do.
/// What is owned as a whole only, by its schema, may not be set: parts of it would be lost.
pub fn merge_unowned(schema: &SchemaRef, live: &Value, config: &Value) -> Result<Value, String> {
    typed::validate(schema, config, Repeats::Refused)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    shape::find_atomics(schema, config, "", &mut atomics);
    if !atomics.is_empty() {
        let all = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {all}"
        ));
    }
    typed::validate(schema, live, Repeats::Allowed)
        .map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    merge::merge(schema, Some(live.clone()), config)
        .map_err(|why| format!("failed to merge patch: {why}"))
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
    owned(compare::compare(schema, live, object), writer)
}

fn owned(mut comparison: Comparison, writer: &Writer<'_>) -> Comparison {
    writer.resets.take_from(&mut comparison.changed);
    writer.resets.take_from(&mut comparison.removed);
    comparison
}

fn validate_config(config: &Value) -> Result<(), Error> {
    if !config.is_object() {
        return Err(Error::Malformed("the apply configuration must be an object".to_owned()));
    }
    match config.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(entries)) if entries.is_empty() => Ok(()),
        Some(_) => Err(Error::Malformed("metadata.managedFields must be nil".to_owned())),
    }
}

fn validate_types(schema: &SchemaRef, live: Option<&Value>, config: &Value) -> Result<(), Error> {
    typed::validate(schema, config, Repeats::Refused).map_err(|why| {
        Error::Untyped(format!("failed to create typed patch object ({}): {why}", title(config)))
    })?;
    let Some(live) = live else { return Ok(()) };
    typed::validate(schema, live, Repeats::Allowed).map_err(|why| {
        let doing = match entries::of(live).is_empty() {
            true => "failed to create manager for existing fields: failed to convert new object",
            false => "failed to create typed live object",
        };
        let to = if entries::of(live).is_empty() { " to smd typed" } else { "" };
        Error::Untyped(format!("{doing} ({}){to}: {why}", title(live)))
    })
}

/// `namespace/name; group/version, Kind=Kind`.
pub fn title(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let slash = if version.contains('/') { "" } else { "/" };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {slash}{version}, Kind={kind}")
}

fn validate_conflicts(
    others: &[Entry],
    differences: &mut Differences<'_>,
    allowed: &FieldSet,
) -> Result<(), Error> {
    let mut conflicts = Vec::new();
    for entry in others {
        let Some(seen) = differences.seen_in(&entry.api_version)? else { continue };
        let with = format!("conflict with {}", entry.title());
        let mut fields = entry.fields.intersection(&seen.changed);
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
