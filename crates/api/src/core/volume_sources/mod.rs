//! What pods and persistent volumes have in common: where the content of a volume comes from.
//!
//! Most sources have a type for each of the two, with the same fields; the rules take the fields.

pub(crate) mod cloud;
pub(crate) mod csi;
pub(crate) mod defaults;
pub(crate) mod iscsi;
pub(crate) mod local;
pub(crate) mod network;
#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

/// Of a volume with several sources the first one is checked, in upstream's order, and the others
/// are refused.
pub(crate) struct OneSource<'a> {
    path: &'a Path,
    errors: &'a mut FieldErrors,
    is_found: bool,
}

impl<'a> OneSource<'a> {
    pub(crate) fn new(path: &'a Path, errors: &'a mut FieldErrors) -> Self {
        Self { path, errors, is_found: false }
    }

    pub(crate) fn of<T>(
        &mut self,
        field: &str,
        source: Option<&T>,
        check: impl FnOnce(&T, &Path, &mut FieldErrors),
    ) {
        self.of_two_names([field, field], source, check);
    }

    /// Some are called differently where they are refused and where they are checked.
    pub(crate) fn of_two_names<T>(
        &mut self,
        [refused, checked]: [&str; 2],
        source: Option<&T>,
        check: impl FnOnce(&T, &Path, &mut FieldErrors),
    ) {
        let Some(source) = source else { return };
        if self.is_found {
            let detail = "may not specify more than 1 volume type";
            return self.errors.forbidden(&self.path.child(refused), detail);
        }
        self.is_found = true;
        check(source, &self.path.child(checked), self.errors);
    }

    /// Checked whatever there was before it.
    pub(crate) fn always<T>(
        &mut self,
        field: &str,
        source: Option<&T>,
        check: impl FnOnce(&T, &Path, &mut FieldErrors),
    ) {
        let Some(source) = source else { return };
        self.is_found = true;
        check(source, &self.path.child(field), self.errors);
    }

    pub(crate) fn finish(self) {
        if !self.is_found {
            self.errors.required(self.path, "must specify a volume type");
        }
    }
}

/// Texts that must be there.
pub(crate) fn required(texts: &[(&str, &str)], path: &Path, errors: &mut FieldErrors) {
    for (field, text) in texts {
        if text.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
}

/// A path that never leads upward.
pub(crate) fn without_backsteps(target: &str, path: &Path, errors: &mut FieldErrors) {
    if target.split('/').any(|it| it == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// A path below something: not absolute, never upward.
pub(crate) fn relative(target: &str, path: &Path, errors: &mut FieldErrors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    without_backsteps(target, path, errors);
}
