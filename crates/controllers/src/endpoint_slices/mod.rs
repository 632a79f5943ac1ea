//! EndpointSlices of every Service with a selector.
//!
//! Slices have generated names, so a cache that is behind could make us create them twice: our own
//! writes are remembered until the cache shows them.

mod garbage;
mod hints;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::node::NodeView;
use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use apimachinery::{ApiError, ObjectKey};
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, OwnWrites, Reconciler, WorkQueue, itself,
};

pub(crate) use self::garbage::plan_any;
use self::hints::{Routing, Verdict};
use self::metrics::Metrics;
use self::plan::{CONTROLLER, Observed, Plan};
use crate::backends::{BY_SELECTOR, Pace, Triggers};
use crate::flags::{at_least_one, duration};
use crate::pods::{BY_LABEL, BY_NODE};
use crate::slices::{self, Action, BY_SERVICE, Writer};
use crate::{Descriptor, Flags, RETRIES_MAX, Startup, backends, owners, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "endpointslice-controller",
    aliases: &["endpointslice"],
    identity: "endpointslice-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Services whose EndpointSlices are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_service_endpoint_syncs: usize,
    /// Endpoints that one slice has at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_endpoints_per_slice: u16,
    /// How long changes of pods are gathered before their Services are looked at
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    endpointslice_updates_batch_period: Duration,
}

/// Who waits for slices is without endpoints: look again earlier than others do.
const PATIENCE: Duration = Duration::from_secs(30);
/// Index: Services that share out by CPU.
const BY_ROUTING: &str = "routing";
const AUTO: &str = "auto";
const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";
const FAILED: &str = "FailedToUpdateEndpointSlices";
const GIVEN: &str = "Topology Aware Hints has been enabled";
const TAKEN: &str = "Topology Aware Hints has been disabled";

struct EndpointSlices {
    services: Indexer<Service>,
    pods: Indexer<PodView>,
    nodes: Indexer<NodeView>,
    slices: Indexer<EndpointSlice>,
    writer: Writer,
    own_writes: Arc<OwnWrites<EndpointSlice>>,
    endpoints_per_slice: usize,
    pace: Pace,
    triggers: Triggers,
    events: EventRecorder,
    metrics: Metrics,
    /// What was last said of the hints of a Service, by family.
    told: Mutex<BTreeMap<ObjectKey, BTreeMap<String, Verdict>>>,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services = controller.indexed_cache(&[
        (BY_SELECTOR, backends::index_by_selector),
        (BY_ROUTING, index_by_routing),
    ]);
    let pods = controller
        .indexed_cache(&[(BY_LABEL, pods::index_by_label), (BY_NODE, pods::index_by_node)]);
    let own_writes = controller.own_writes(PATIENCE);
    let endpoints_per_slice = settings.max_endpoints_per_slice.into();
    let metrics = Metrics::new(&startup.metrics, endpoints_per_slice);
    let reconciler = EndpointSlices {
        services: services.clone(),
        pods: pods.clone(),
        nodes: controller.cache(),
        slices: controller.indexed_cache(&[(BY_SERVICE, slices::index_by_service)]),
        writer: Writer {
            api: startup.client.api(),
            own_writes: own_writes.clone(),
            changes: metrics.changes.clone(),
        },
        own_writes,
        endpoints_per_slice,
        pace: Pace::new(startup.world.clock.clone()),
        triggers: Triggers::default(),
        events: startup.events_of("endpoint-slice-controller"),
        metrics,
        told: Mutex::default(),
    };
    let (pause, known) = (settings.endpointslice_updates_batch_period, services.clone());
    controller
        .watches(itself::<Service>)
        .follows(move |change, queue| backends::follow_pod(change, &known, queue, pause))
        .follows(move |change, queue| follow_node(change, &pods, &services, queue))
        .watches(|it: &EndpointSlice| slices::service_of(it, CONTROLLER))
        .workers(settings.concurrent_service_endpoint_syncs)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

fn index_by_routing(service: &Service) -> Vec<String> {
    let is_auto = hints::routing(service) == Routing::Auto;
    is_auto.then(|| AUTO.to_owned()).into_iter().collect()
}

/// A node that comes, goes or changes its zone concerns the Services of its pods; what it offers,
/// and whether it is ready, those that share out by CPU.
fn follow_node(
    change: Change<'_, NodeView>,
    pods: &Indexer<PodView>,
    services: &Indexer<Service>,
    queue: &WorkQueue,
) {
    let zone = |it: Option<&Arc<NodeView>>| it.map(|it| zone_of(it).to_owned());
    let offer = |it: Option<&Arc<NodeView>>| {
        it.map(|it| (it.is_ready(), it.allocatable.get("cpu").map(str::to_owned)))
    };
    let (before, after) = (change.before(), change.after());
    let has_moved = zone(before) != zone(after);
    if has_moved {
        for pod in pods.by_index(BY_NODE, change.latest().name()) {
            backends::services_of(services, &pod).into_iter().for_each(|it| queue.add(it));
        }
    }
    if has_moved || offer(before) != offer(after) {
        services.by_index(BY_ROUTING, AUTO).iter().for_each(|it| queue.add(it.key()));
    }
}

fn zone_of(node: &NodeView) -> &str {
    node.meta.labels.get(hints::ZONE).unwrap_or_default()
}

impl Reconciler for EndpointSlices {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(service) = self.services.get(key) else {
            // The garbage collector takes the slices along.
            self.forget(key);
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.own_writes.wait(key) {
            self.metrics.synced("stale");
            return Ok(Next::After(wait));
        }
        let Some(selector) = backends::selector(&service) else {
            return Ok(Next::Settled);
        };
        if owners::is_deleting(&service.metadata) {
            return Ok(Next::Settled);
        }
        if let Some(wait) = self.pace.wait(key) {
            return Ok(Next::After(wait));
        }
        let pods = backends::selected(&self.pods, &key.namespace, selector);
        let n_pods = pods.len();
        let (trigger, seen) = self.triggers.look(key, &service, &pods);
        let plan = plan::plan(&Observed { trigger, ..self.observe(key, &service, pods) });
        if !plan.actions.is_empty() {
            self.pace.wrote(key, n_pods);
        }
        let spec = service.spec.as_ref();
        let distribution = spec.and_then(|it| it.traffic_distribution.as_deref());
        self.metrics.planned(key, &plan, distribution);
        self.tell(key, &service, &plan);
        for action in plan.actions {
            let doing = doing(&action);
            if let Err(err) = self.writer.apply(key, action).await {
                self.metrics.synced("error");
                let message = failure(key, &doing, err.cause());
                self.events.event(&*service, EventType::Warning, FAILED, message);
                return Err(err);
            }
        }
        self.triggers.keep(key, seen);
        self.metrics.synced("success");
        Ok(Next::Settled)
    }
}

impl EndpointSlices {
    fn observe(
        &self,
        key: &ObjectKey,
        service: &Arc<Service>,
        pods: Vec<Arc<PodView>>,
    ) -> Observed {
        let mut zones = BTreeMap::new();
        for name in pods.iter().filter_map(|it| it.node()) {
            if zones.contains_key(name) {
                continue;
            }
            if let Some(node) = self.nodes.get(&ObjectKey::cluster(name)) {
                zones.insert(name.to_owned(), zone_of(&node).to_owned());
            }
        }
        let is_auto = hints::routing(service) == Routing::Auto;
        Observed {
            service: service.clone(),
            pods,
            zones,
            slices: self.slices.by_index(BY_SERVICE, &slices::index_value(key, CONTROLLER)),
            endpoints_per_slice: self.endpoints_per_slice,
            trigger: None,
            shares: if is_auto { hints::shares(&self.nodes.list()) } else { None },
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<String, Verdict>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: &ObjectKey) {
        self.own_writes.forget(key);
        self.pace.forget(key);
        self.triggers.forget(key);
        self.metrics.forget(key);
        self.told().remove(key);
    }

    /// Each thing that becomes of hints is said once.
    fn tell(&self, key: &ObjectKey, service: &Service, plan: &Plan) {
        let asked: BTreeMap<String, Verdict> =
            plan.hints.iter().filter(|(_, it)| **it != Verdict::NotAsked).map(cloned).collect();
        let mut told = self.told();
        let before = match asked.is_empty() {
            true => told.remove(key).unwrap_or_default(),
            false => told.insert(key.clone(), asked.clone()).unwrap_or_default(),
        };
        drop(told);
        for (family, verdict) in &asked {
            if before.get(family) == Some(verdict) {
                continue;
            }
            match verdict {
                Verdict::NotAsked => {}
                Verdict::Given => self.say(service, family, ENABLED, GIVEN),
                Verdict::Impossible(why) => self.say(service, family, DISABLED, why),
            }
        }
        if plan.routing == Routing::Auto {
            return;
        }
        for (family, _) in before.iter().filter(|(_, it)| **it == Verdict::Given) {
            self.say(service, family, DISABLED, TAKEN);
        }
    }

    fn say(&self, service: &Service, family: &str, reason: &str, what: &str) {
        let kind = if reason == ENABLED { EventType::Normal } else { EventType::Warning };
        let message = format!("{what}, addressType: {family}");
        self.events.event(service, kind, reason, message);
    }
}

/// In upstream's words.
fn doing(action: &Action) -> String {
    match action {
        Action::Create(_) => "create".to_owned(),
        Action::Update(slice) => format!("update {}", owners::name(&slice.metadata)),
        Action::Delete(slice) => format!("delete {}", owners::name(&slice.metadata)),
    }
}

fn failure(service: &ObjectKey, doing: &str, why: &ApiError) -> String {
    format!(
        "Error updating Endpoint Slices for Service {service}: \
         failed to {doing} EndpointSlice for Service {service}: {why}"
    )
}

fn cloned((family, verdict): (&String, &Verdict)) -> (String, Verdict) {
    (family.clone(), verdict.clone())
}
