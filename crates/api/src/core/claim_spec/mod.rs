//! What claims for volumes and templates of such claims have in common: defaults, validation on
//! create and warnings of the spec.

#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::field::Path;
use apimachinery::quantity::{self, Amount};

pub(crate) use validation::validate;

pub(crate) const STORAGE: &str = "storage";

/// For claims and for templates of claims, which have a status as well.
pub(crate) fn apply_defaults(claim: &mut PersistentVolumeClaim) {
    let spec = claim.spec.get_or_insert_default();
    spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    let resources = spec.resources.get_or_insert_default();
    for quantities in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
        for quantity in quantities.values_mut() {
            if let Some(text) = quantity::canonical(&quantity.0) {
                quantity.0 = text;
            }
        }
    }
    let status = claim.status.get_or_insert_default();
    if status.phase.as_ref().is_none_or(String::is_empty) {
        status.phase = Some("Pending".to_owned());
    }
}

/// `path` is that of the spec.
pub(crate) fn warnings(spec: &PersistentVolumeClaimSpec, path: &Path) -> Vec<String> {
    let Some(resources) = &spec.resources else { return Vec::new() };
    [("requests", &resources.requests), ("limits", &resources.limits)]
        .into_iter()
        .filter_map(|(field, quantities)| {
            let Quantity(text) = quantities.as_ref()?.get(STORAGE)?;
            let is_whole = Amount::parse(text).is_ok_and(|it| it.millis() % 1000 == 0);
            let path = path.child("resources").child(field).key(STORAGE);
            let warning = || {
                format!("{path}: fractional byte value \"{text}\" is invalid, must be an integer")
            };
            (!is_whole).then(warning)
        })
        .collect()
}
