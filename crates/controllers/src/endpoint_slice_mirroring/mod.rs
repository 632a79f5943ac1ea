//! EndpointSlices for Endpoints that somebody made by hand, beside a Service without a selector:
//! who reads slices alone finds those addresses too.

mod garbage;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::endpoints::Endpoints;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use apimachinery::ObjectKey;
use informer::Indexer;
use reconcile::{Change, EventRecorder, EventType, Failed, Next, OwnWrites, Reconciler};
use tokio::time::Instant;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{CONTROLLER, Observed, Plan, is_mirrored};
use crate::flags::{at_least_one, duration};
use crate::slices::{self, BY_SERVICE, Writer};
use crate::{Descriptor, Flags, RETRIES_MAX, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "endpointslice-mirroring-controller",
    aliases: &["endpointslicemirroring"],
    identity: "endpointslicemirroring-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Endpoints whose copies are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    mirroring_concurrent_service_endpoint_syncs: usize,
    /// Addresses of one subset that are copied at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_max_endpoints_per_subset: u16,
    /// How long changes of the copies are gathered before they are looked at
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    mirroring_endpointslice_updates_batch_period: Duration,
}

/// Who waits for slices is without endpoints: look again earlier than others do.
const PATIENCE: Duration = Duration::from_secs(30);

struct Mirroring {
    endpoints: Indexer<Endpoints>,
    services: Indexer<Service>,
    slices: Indexer<EndpointSlice>,
    own_writes: Arc<OwnWrites<EndpointSlice>>,
    writer: Writer,
    events: EventRecorder,
    metrics: Metrics,
    max_per_subset: usize,
    /// The version of each Endpoints of which it was said that addresses are left out: once each.
    told: Mutex<BTreeMap<ObjectKey, u64>>,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let own_writes = controller.own_writes(PATIENCE);
    let max_per_subset = settings.mirroring_max_endpoints_per_subset.into();
    let metrics = Metrics::new(&startup.metrics, max_per_subset);
    let reconciler = Mirroring {
        endpoints: controller.cache(),
        services: controller.cache(),
        slices: controller.indexed_cache(&[(BY_SERVICE, slices::index_by_service)]),
        own_writes: own_writes.clone(),
        writer: Writer { api: startup.client.api(), own_writes, changes: metrics.changes.clone() },
        events: startup.events_of("endpoint-slice-mirroring-controller"),
        metrics,
        max_per_subset,
        told: Mutex::default(),
    };
    let pause = settings.mirroring_endpointslice_updates_batch_period;
    controller
        .follows(|change: Change<'_, Endpoints>, queue| {
            if change.states().any(|it| is_mirrored(it)) {
                queue.add(change.latest().key());
            }
        })
        .follows(|change: Change<'_, Service>, queue| {
            let has = |it: Option<&Arc<Service>>| it.is_some_and(|it| !plan::has_selector(it));
            let is_same = has(change.before()) == has(change.after());
            if !is_same {
                queue.add(change.latest().key());
            }
        })
        .follows(move |change: Change<'_, EndpointSlice>, queue| {
            let keys = change.states().filter_map(|it| slices::service_of(it, CONTROLLER));
            keys.for_each(|it| queue.add_after(it, pause));
        })
        .workers(settings.mirroring_concurrent_service_endpoint_syncs)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

impl Reconciler for Mirroring {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let started = Instant::now();
        let observed = self.observe(key);
        let plan = plan::plan(&observed);
        if let Some(endpoints) = &observed.endpoints {
            self.tell(key, endpoints, &plan);
        }
        self.note(key, &plan);
        let applied = self.apply(key, plan).await;
        self.metrics.sync_duration.observe(started.elapsed());
        applied?;
        Ok(Next::Settled)
    }
}

impl Mirroring {
    fn observe(&self, key: &ObjectKey) -> Observed {
        Observed {
            endpoints: self.endpoints.get(key),
            service: self.services.get(key),
            slices: self.slices.by_index(BY_SERVICE, &slices::index_value(key, CONTROLLER)),
            max_per_subset: self.max_per_subset,
        }
    }

    async fn apply(&self, key: &ObjectKey, plan: Plan) -> Result<(), Failed> {
        for action in plan.actions {
            self.writer.apply(key, action).await?;
        }
        Ok(())
    }

    fn note(&self, key: &ObjectKey, plan: &Plan) {
        match &plan.mirrored {
            Some(mirrored) => self.metrics.synced(key, mirrored),
            None => {
                self.metrics.tally.forget(key);
                self.told().remove(key);
            }
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, u64>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, key: &ObjectKey, endpoints: &Endpoints, plan: &Plan) {
        let Some(mirrored) = &plan.mirrored else { return };
        let complaints = mirrored.complaints(self.max_per_subset);
        if complaints.is_empty() {
            self.told().remove(key);
            return;
        }
        let version = endpoints.version();
        if self.told().insert(key.clone(), version) == Some(version) {
            return;
        }
        for (reason, message) in complaints {
            self.events.event(endpoints, EventType::Warning, reason, message);
        }
    }
}
