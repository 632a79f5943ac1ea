//! Field paths and the list of everything that is wrong with an object.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// `spec.containers[0].name`, `metadata.labels[app]`. Cheap to extend, rendered only when needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Self(String::new())
    }

    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        if self.0.is_empty() { Self(field.to_owned()) } else { Self(format!("{}.{field}", self.0)) }
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    /// The root path is written as upstream writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// Why a field was refused; the names are those of `Status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    Duplicate,
    TooLong,
    TooMany,
    TooFew,
    NotFound,
    TypeInvalid,
    Internal,
}

impl Cause {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// One problem: where, why, and the text after `field: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub path: Path,
    pub cause: Cause,
    /// Without the path: `Invalid value: -1: must be greater than or equal to 0`.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects every problem of an object, so that the user sees all of them at once; of one that
/// consists of problems, the first thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    all: Vec<FieldError>,
    n_bytes: usize,
    /// Of problems that are no news.
    warnings: Vec<String>,
}

const PROBLEMS_MAX: usize = 1_000;
const WARNINGS_MAX: usize = 100;
/// Of all paths and messages; the last may go beyond it.
const PROBLEM_BYTES_MAX: usize = 256 * 1024;
/// Of a value that is shown.
const VALUE_BYTES_MAX: usize = 16 * 1024;

impl FieldErrors {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, path: &Path, cause: Cause, message: String) {
        if self.is_full() {
            return;
        }
        self.n_bytes += path.0.len() + message.len();
        self.all.push(FieldError { path: path.clone(), cause, message });
    }

    /// Whether further problems would be left out: there is no need to look for them.
    pub fn is_full(&self) -> bool {
        self.all.len() >= PROBLEMS_MAX || self.n_bytes >= PROBLEM_BYTES_MAX
    }

    /// `detail` may be empty.
    pub fn required(&mut self, path: &Path, detail: &str) {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        self.push(path, Cause::Required, message);
    }

    pub fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        let value = render(&value.into());
        let message = if detail.is_empty() {
            format!("Invalid value: {value}")
        } else {
            format!("Invalid value: {value}: {detail}")
        };
        self.push(path, Cause::Invalid, message);
    }

    /// Where the value says nothing beside the detail, or is too much to show.
    pub fn invalid_unshown(&mut self, path: &Path, detail: &str) {
        self.push(path, Cause::Invalid, format!("Invalid value: {detail}"));
    }

    pub fn not_supported(&mut self, path: &Path, value: impl Into<Value>, supported: &[&str]) {
        let mut supported = supported.to_vec();
        supported.sort_unstable();
        self.not_supported_as_listed(path, value, &supported);
    }

    /// The same, where upstream names them in an order of its own.
    pub fn not_supported_as_listed(
        &mut self,
        path: &Path,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        let names: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            render(&value.into()),
            names.join(", ")
        );
        self.push(path, Cause::NotSupported, message);
    }

    /// `detail` may be empty.
    pub fn forbidden(&mut self, path: &Path, detail: &str) {
        let message =
            if detail.is_empty() { "Forbidden".to_owned() } else { format!("Forbidden: {detail}") };
        self.push(path, Cause::Forbidden, message);
    }

    pub fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.push(path, Cause::Duplicate, format!("Duplicate value: {}", render(&value.into())));
    }

    /// Where the value is too much to show.
    pub fn duplicate_unshown(&mut self, path: &Path) {
        self.push(path, Cause::Duplicate, "Duplicate value".to_owned());
    }

    /// Tells of a problem that refuses nothing.
    pub fn warn(&mut self, text: String) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(text);
        }
    }

    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn not_found(&mut self, path: &Path, value: impl Into<Value>) {
        self.push(path, Cause::NotFound, format!("Not found: {}", render(&value.into())));
    }

    pub fn too_long(&mut self, path: &Path, max_bytes: usize) {
        self.push(
            path,
            Cause::TooLong,
            format!("Too long: may not be more than {max_bytes} bytes"),
        );
    }

    pub fn too_many(&mut self, path: &Path, actual: usize, max: usize) {
        self.push(
            path,
            Cause::TooMany,
            format!(
                "Too many: {actual}: must have at most {max} {}",
                if max == 1 { "item" } else { "items" }
            ),
        );
    }

    pub fn internal(&mut self, path: &Path, detail: &str) {
        self.push(path, Cause::Internal, format!("Internal error: {detail}"));
    }

    pub fn extend(&mut self, other: Self) {
        for FieldError { path, cause, message } in other.all {
            self.push(&path, cause, message);
        }
    }

    /// In the order of their texts, as where upstream has no other.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.all.sort_by_cached_key(ToString::to_string);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.all.iter()
    }
}

/// Strings quoted, everything else as JSON: as upstream prints a bad value.
fn render(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    if text.len() > VALUE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
        text.push_str("...");
    }
    text
}

/// `[a, b]`, or `a` alone. What was found twice is said once.
impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = BTreeSet::new();
        let texts = self.all.iter().map(ToString::to_string);
        let texts: Vec<String> = texts.filter(|it| seen.insert(it.clone())).collect();
        match texts.as_slice() {
            [only] => f.write_str(only),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldErrors, Path};

    #[test]
    fn what_was_found_twice_is_said_once() {
        let mut errors = FieldErrors::new();
        let path = Path::new("spec");
        errors.required(&path, "");
        errors.required(&path, "");
        assert_eq!(
            (errors.to_string().as_str(), errors.iter().count()),
            ("spec: Required value", 2)
        );
        errors.forbidden(&path, "");
        errors.required(&path, "");
        assert_eq!(errors.to_string(), "[spec: Required value, spec: Forbidden]");
    }
}
