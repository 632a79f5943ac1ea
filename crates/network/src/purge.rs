//! Leaving: what is there of this cluster goes, and kernel settings are what they were before it.

use std::collections::BTreeMap;

use crate::kernel_state::{KernelState, changes};
use crate::network::State;
use crate::records::Records;

impl State {
    /// Goes on after an error, and returns all of them.
    pub(crate) fn purge(&mut self) -> Vec<node_api::Error> {
        let mut errors = Vec::new();
        let others = self.kernel.other_clusters().unwrap_or_else(|err| {
            errors.push(err.into());
            Vec::new()
        });
        // What pods of another cluster live by stays; it is theirs to put back, and they know what
        // was before.
        let settings = match others.is_empty() {
            true => self.records.settings_before.clone(),
            false => BTreeMap::new(),
        };
        if others.is_empty() {
            errors.extend(self.inherited.remove().err());
        }
        let desired = KernelState { settings, ..KernelState::default() };
        let observed = self.kernel.observe(&[]).and_then(|it| {
            let settings = self.kernel.settings(desired.settings.keys())?;
            Ok(KernelState { settings, ..it.state })
        });
        match observed {
            Ok(actual) => {
                for change in changes(&actual, &desired) {
                    let applied = self.kernel.apply([&change], None);
                    errors.extend(applied.err().map(node_api::Error::from));
                }
            }
            Err(err) => errors.push(err.into()),
        }
        errors.extend(self.kernel.purge_tables().err().map(node_api::Error::from));
        self.records = Records::default();
        errors.extend(self.directory.remove().err());
        errors
    }
}
