//! The two halves of most objects: the spec, which users write, and the status, which controllers
//! write through a door of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// For kinds with the fields `spec` and `status`: what `Resource` needs to keep each half from the
/// writers of the other.
macro_rules! spec_and_status {
    () => {
        fn clear_status(&mut self) {
            self.status = Some(Default::default());
        }

        fn keep_status(&mut self, stored: &Self) {
            self.status.clone_from(&stored.status);
        }

        fn keep_spec(&mut self, stored: &Self) {
            self.spec.clone_from(&stored.spec);
        }

        fn has_same_spec(&self, stored: &Self) -> bool {
            self.spec == stored.spec || $crate::semantic::equal_at("spec", self, stored)
        }
    };
}

/// The same, where whoever writes the status leaves what users say in metadata alone too.
macro_rules! spec_and_status_alone {
    () => {
        spec_and_status!();

        fn prepare_update(&mut self, stored: &Self, part: $crate::Part) {
            match part {
                $crate::Part::Status => {
                    self.keep_spec(stored);
                    $crate::halves::keep_metadata(&mut self.metadata, &stored.metadata);
                }
                $crate::Part::Main | $crate::Part::Other(_) => self.keep_status(stored),
            }
        }
    };
}

/// For kinds whose status is written without the rest of the object: what users write in the
/// metadata stays as it is stored.
pub(crate) fn keep_metadata(meta: &mut ObjectMeta, stored: &ObjectMeta) {
    meta.deletion_timestamp.clone_from(&stored.deletion_timestamp);
    meta.generation = stored.generation;
    meta.labels.clone_from(&stored.labels);
    meta.annotations.clone_from(&stored.annotations);
    meta.finalizers.clone_from(&stored.finalizers);
    meta.owner_references.clone_from(&stored.owner_references);
}
