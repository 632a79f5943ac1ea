//! What is wrong with a LeaseCandidate.

use k8s_openapi::api::coordination::v1beta1::LeaseCandidate;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_config_key;

use super::semantic_version::SemanticVersion;
use crate::check::{self, text};
use crate::coordination::strategy::{self, OLDEST_EMULATION_VERSION};

pub(super) fn validate(candidate: &LeaseCandidate, errors: &mut FieldErrors) {
    let name = text(candidate.metadata.name.as_ref());
    // No name at all is said of every kind alike.
    if !name.is_empty() {
        let path = Path::new("metadata").child("name");
        check::format(name, &is_config_key(name), &path, errors);
    }
    let (spec, path) = (&candidate.spec, Path::new("spec"));
    if spec.lease_name.is_empty() {
        errors.required(&path.child("leaseName"), "");
    }
    let emulated = text(spec.emulation_version.as_ref());
    let emulation = version(emulated, &path.child("emulationVersion"), errors);
    let path_binary = path.child("binaryVersion");
    if spec.binary_version.is_empty() {
        errors.required(&path_binary, "");
    }
    let binary = version(&spec.binary_version, &path_binary, errors);
    if !spec.binary_version.is_empty() && !emulated.is_empty() && binary < emulation {
        let detail = "must be greater than or equal to `emulationVersion`";
        errors.invalid(&path_binary, spec.binary_version.as_str(), detail);
    }
    let path_strategy = path.child("strategy");
    if spec.strategy.is_empty() {
        return errors.required(&path_strategy, "");
    }
    let is_none = emulation == SemanticVersion::default();
    if spec.strategy == OLDEST_EMULATION_VERSION && is_none {
        let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
        errors.required(&path.child("emulationVersion"), detail);
    }
    strategy::validate(&spec.strategy, &path_strategy, errors);
}

/// What cannot be read counts as the least.
fn version(text: &str, path: &Path, errors: &mut FieldErrors) -> SemanticVersion {
    if text.is_empty() {
        return SemanticVersion::default();
    }
    SemanticVersion::parse(text).unwrap_or_else(|| {
        errors.invalid(path, text, "must be a valid semantic version");
        SemanticVersion::default()
    })
}

pub(super) fn validate_update(
    candidate: &LeaseCandidate,
    stored: &LeaseCandidate,
    errors: &mut FieldErrors,
) {
    let name = candidate.spec.lease_name.as_str();
    let path = Path::new("spec").child("leaseName");
    check::immutable(name == stored.spec.lease_name, name, &path, errors);
}
