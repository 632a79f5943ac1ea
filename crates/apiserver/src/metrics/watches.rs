//! Events on their way to watchers.

use std::sync::Arc;

use api::Kind;
use telemetry::{Counter, Description, Family, Registry, Stability};

const EVENTS: Description<3> = Description {
    name: "apiserver_watch_events_total",
    stability: Stability::Alpha,
    help: "Number of events sent in watch clients",
    labels: ["group", "version", "resource"],
};

pub(crate) struct Watches {
    events: Family<Counter, 3>,
}

impl Watches {
    pub(super) fn new(registry: &Registry) -> Self {
        Self { events: registry.counters(&EVENTS) }
    }

    /// For one watch to count its events with.
    pub(crate) fn events(&self, kind: &dyn Kind) -> Arc<Counter> {
        let names = kind.names();
        self.events.with([&names.group, &names.version, &names.plural])
    }
}
