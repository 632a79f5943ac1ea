//! The two halves of most objects: the spec, which users write, and the status, which controllers
//! write through a door of its own.

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
            $crate::semantic::equal(&self.spec, &stored.spec)
        }
    };
}
