//! A configuration while it is put together: the file, what is laid over it, and what flags say.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields::{Field, Kind};

/// More is no configuration.
const BYTES_MAX: u64 = 1 << 20;
/// Files of a directory of drop-ins.
const DROP_IN_ENDING: &str = "conf";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} has more than {BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("parsing {}", .path.display())]
    Parse {
        path: PathBuf,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    #[error("{} is not a {kind} of {api_version}", .path.display())]
    OtherKind { path: PathBuf, kind: &'static str, api_version: &'static str },
    #[error("this {kind} cannot be honored:{}", list(.problems))]
    Refused { kind: &'static str, problems: Vec<String> },
    #[error("reading the {kind}")]
    Decode {
        kind: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

fn list(problems: &[String]) -> String {
    problems.iter().map(|it| format!("\n  - {it}")).collect()
}

pub(crate) struct Document {
    kind: &'static Kind,
    root: Value,
}

impl Document {
    /// Nothing but defaults.
    pub(crate) fn empty(kind: &'static Kind) -> Self {
        Self { kind, root: Value::Object(Map::new()) }
    }

    pub(crate) fn parse(kind: &'static Kind, path: &Path, text: &str) -> Result<Self, Error> {
        let parsed: Result<Value, _> = serde_saphyr::from_str(text);
        let mut root = parsed
            .map_err(|source| Error::Parse { path: path.to_owned(), source: Box::new(source) })?;
        let Kind { api_version, kind: name, .. } = *kind;
        let is_named = |field: &str, expected: &str| {
            root.get(field).and_then(Value::as_str).is_some_and(|it| it == expected)
        };
        if !is_named("apiVersion", api_version) || !is_named("kind", name) {
            return Err(Error::OtherKind { path: path.to_owned(), kind: name, api_version });
        }
        if let Some(fields) = root.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        Ok(Self { kind, root })
    }

    pub(crate) fn read(kind: &'static Kind, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > BYTES_MAX {
            return Err(Error::TooLarge(path.to_owned()));
        }
        Self::parse(kind, path, &std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Upstream's `--config-dir`: files that end with `.conf`, in the order of their names.
    pub(crate) fn lay_over_all(&mut self, directory: &Path) -> Result<(), Error> {
        let failed = |source| Error::Read { path: directory.to_owned(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.retain(|it| it.extension().is_some_and(|it| it == DROP_IN_ENDING));
        paths.sort();
        for path in paths {
            self.lay_over(Self::read(self.kind, &path)?);
        }
        Ok(())
    }

    /// What it says counts, in place of what was said before: mappings field by field, lists whole.
    pub(crate) fn lay_over(&mut self, upper: Self) {
        self.root = apimachinery::patch::merge(&self.root, &upper.root);
    }

    /// What a flag says, if it was given.
    pub(crate) fn set(&mut self, path: &str, value: Option<Value>) {
        let Some(value) = value else { return };
        let wrap = |inner: Value, name: &str| Value::Object(Map::from_iter([(name.into(), inner)]));
        let patch = path.rsplit('.').fold(value, wrap);
        self.root = apimachinery::patch::merge(&self.root, &patch);
    }

    /// The fields that are honored, with their defaults.
    pub(crate) fn finish<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let kind = self.kind.kind;
        let fields: Vec<Field> = self.kind.fields().collect();
        let mut problems = Vec::new();
        validate("", &self.root, &fields, &mut problems);
        if !problems.is_empty() {
            return Err(Error::Refused { kind, problems });
        }
        let mut honored = Self::empty(self.kind);
        for field in fields.iter().filter(|it| it.is_honored) {
            let pointer = format!("/{}", field.path.replace('.', "/"));
            let given = self.root.pointer_mut(&pointer).map(Value::take);
            let given = given.filter(|it| !field.is_unset(it));
            honored.set(field.path, Some(given.unwrap_or_else(|| field.default.clone())));
        }
        serde_json::from_value(honored.root).map_err(|source| Error::Decode { kind, source })
    }
}

/// Bounded by the depth of the table: below a field nobody looks.
fn validate(above: &str, value: &Value, fields: &[Field], problems: &mut Vec<String>) {
    let Value::Object(entries) = value else {
        let place = if above.is_empty() { "the file" } else { above };
        problems.push(format!("{place}: expected a mapping"));
        return;
    };
    for (name, value) in entries {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if let Some(field) = fields.iter().find(|it| it.path == path) {
            problems.extend(problem(field, value));
        } else if fields.iter().any(|it| is_below(it.path, &path)) {
            if !value.is_null() {
                validate(&path, value, fields, problems);
            }
        } else {
            problems.push(format!("unknown field {path:?}"));
        }
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|it| it.starts_with('.'))
}

fn problem(field: &Field, value: &Value) -> Option<String> {
    let Field { path, default, .. } = field;
    // An empty text stands for the default, though it is no address.
    let is_alike = std::mem::discriminant(value) == std::mem::discriminant(default);
    if value.is_null() || is_alike && field.is_unset(value) {
        return None;
    }
    if let Some(expected) = field.form.mismatch(value) {
        return Some(format!("{path}: expected {expected}, not {value}"));
    }
    if field.is_honored || field.is_default(value) {
        return None;
    }
    let instead = match default {
        Value::Null => "leave it out".to_owned(),
        Value::Array(it) if it.is_empty() => "leave it out".to_owned(),
        Value::Object(it) if it.is_empty() => "leave it out".to_owned(),
        Value::String(it) if it.is_empty() => "leave it out".to_owned(),
        default => format!("only its default is, {default}"),
    };
    Some(format!("{path}: {value} is not supported: {instead}"))
}
