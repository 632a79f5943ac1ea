//! What admission plugins are told by files, while those change: plugins that are told something are
//! made anew and take the places of those before, all at once. Files that cannot be used leave
//! everything as it was.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use admission::plugins::{self, Deciders, Needs};
use admission::policy::Policies;
use admission::webhook::Webhooks;
use admission::{Chain, Configuration, ConfigurationError, Provisioner, Selection};
use features::Gates;
use stdx::World;
use telemetry::Registry;

pub(crate) struct AdmissionFiles {
    pub(crate) current: Mutex<Configuration>,
    pub(crate) selection: Selection,
    pub(crate) gates: Gates,
    pub(crate) world: World,
    pub(crate) metrics: Registry,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) policies: Arc<Policies>,
}

impl AdmissionFiles {
    fn current(&self) -> MutexGuard<'_, Configuration> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is anything to follow.
    pub(crate) fn is_any(&self) -> bool {
        !self.paths().is_empty()
    }

    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.current().paths()
    }

    /// Whether something else holds from now on.
    pub(crate) fn reload(&self, chain: &Chain) -> Result<bool, ConfigurationError> {
        let mut current = self.current();
        if !current.has_changed() {
            return Ok(false);
        }
        let next = current.reload()?;
        let told: BTreeSet<&str> = current.plugins().chain(next.plugins()).collect();
        let deciders = Deciders { webhooks: &self.webhooks, policies: &self.policies };
        let needs = Needs {
            world: &self.world,
            gates: &self.gates,
            metrics: &self.metrics,
            configuration: &next,
            provisioner: &self.provisioner,
            deciders: Some(deciders),
        };
        let renewed = plugins::renewed(&self.selection, &needs, &told)?;
        self.webhooks.reconfigure(&next)?;
        chain.replace(&renewed);
        let new: BTreeSet<&str> =
            next.plugins().filter(|it| current.plugins().all(|other| other != *it)).collect();
        for idle in plugins::ALL.iter().filter(|it| !self.selection.includes(it)) {
            if new.contains(idle.name) {
                let plugin = idle.name;
                tracing::warn!(
                    plugin,
                    "it is told something, but which plugins run is decided at the start"
                );
            }
        }
        *current = next;
        Ok(true)
    }
}
