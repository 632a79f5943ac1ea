//! What classes of volumes tell a driver: its name, and texts that only it understands.

use std::collections::BTreeMap;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::check;

const BYTES_MAX: usize = 256 * 1024;
const PARAMETERS_MAX: usize = 512;

/// Upper case is allowed; an error shows the name without.
pub(super) fn validate_driver(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.to_lowercase();
    check::format(&name, &is_qualified_name(&name), path, errors);
}

pub(super) fn validate(
    parameters: Option<&BTreeMap<String, String>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let n_parameters = parameters.map_or(0, |it| it.len());
    if n_parameters > PARAMETERS_MAX {
        return errors.too_long(path, PARAMETERS_MAX);
    }
    let mut n_bytes = 0;
    for (key, value) in parameters.into_iter().flatten() {
        if key.is_empty() {
            errors.invalid(path, "", "field can not be empty.");
        }
        n_bytes += key.len() + value.len();
    }
    if n_bytes > BYTES_MAX {
        errors.too_long(path, BYTES_MAX);
    }
}
