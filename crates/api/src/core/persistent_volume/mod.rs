//! PersistentVolume: a piece of storage that outlives pods.

pub(crate) mod defaults;
mod references;
mod sources;
mod table;
#[cfg(test)]
mod tests;
mod update;
pub(crate) mod validation;
mod warnings;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, PersistentVolumeStatus};
use serde_json::Value;

use crate::check::text;
use crate::core::pod_spec::validation::Values;
use crate::kind::{Part, Resource};
use validation::Place;

pub use k8s_openapi::api::core::v1::PersistentVolume;
pub use references::secrets_of_node;

/// Where the class of a volume or a claim stood before it was a field; it still counts.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

impl Resource for PersistentVolume {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    /// The server adds the time: nothing here reads a clock.
    fn prepare_create(&mut self) {
        let phase = Some("Pending".to_owned());
        self.status = Some(PersistentVolumeStatus { phase, ..PersistentVolumeStatus::default() });
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => {
                self.keep_spec(stored);
                update::keep_transition_time(self, stored);
            }
            Part::Main | Part::Other(_) => self.keep_status(stored),
        }
    }

    /// Every rule depends on whether it is new, and on the part that is written.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validate(self, Values::OfLabels, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part != Part::Status {
            validate(self, update::allowed_values(stored), errors);
            update::validate(self, stored, errors);
        }
    }

    fn warnings(&self) -> Vec<String> {
        warnings::of(self)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}

fn validate(volume: &PersistentVolume, values: Values, errors: &mut FieldErrors) {
    let absent = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&absent);
    let place = Place::Object { name: text(volume.metadata.name.as_ref()), values };
    validation::validate_spec(spec, place, &Path::new("spec"), errors);
    validation::validate_mount_options(volume, errors);
}

/// Whether the phase of a volume that is written is another than before, or the first: then it
/// needs the time of now.
pub fn needs_transition_time(volume: &PersistentVolume, stored: Option<&PersistentVolume>) -> bool {
    fn phase(it: &PersistentVolume) -> &str {
        it.status.as_ref().map_or("", |it| text(it.phase.as_ref()))
    }
    let has_time = volume.status.as_ref().is_some_and(|it| it.last_phase_transition_time.is_some());
    !has_time && stored.is_none_or(|it| phase(it) != phase(volume))
}

/// The class that a volume is of; empty if of none.
pub fn class_of(volume: &PersistentVolume) -> &str {
    let annotation = volume.metadata.annotations.as_ref().and_then(|it| it.get(CLASS_ANNOTATION));
    let field = volume.spec.as_ref().and_then(|it| it.storage_class_name.as_ref());
    text(annotation.or(field))
}

/// Access modes as tables show them: each once, in upstream's order.
pub(crate) fn shown_modes(modes: Option<&Vec<String>>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.is_some_and(|it| it.iter().any(|it| it == mode));
    let shown: Vec<&str> = SHORT.iter().filter(|it| has(it.0)).map(|it| it.1).collect();
    shown.join(",")
}
