//! Addresses for Services of type LoadBalancer where there is no cloud: from a pool of ranges, or
//! the nodes' own, which all such Services share, port by port. The proxies of the nodes do the
//! balancing.

mod garbage;
mod plan;
mod pool;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Identified as _;
use api::core::node::NodeView;
use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue,
};
use serde_json::{Value, json};

pub(crate) use self::garbage::plan_any;
use self::plan::{Holder, Observed, Outcome, Source};
use self::pool::{Range, parse_ranges};
use crate::slices::{self, BY_SERVICE};
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "service-lb-controller",
    aliases: &["service"],
    identity: "service-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Addresses for Services of type LoadBalancer, such as 192.0.2.0/28 or 192.0.2.10-192.0.2.20.
    /// Without: the nodes' own
    #[arg(long, value_name = "RANGE,...", value_delimiter = ',', value_parser = parse_ranges)]
    load_balancer_pool: Vec<Range>,
}

/// Index: Services that want an address from here, or still have one.
const BALANCED: &str = "balanced";
/// Index: pods that have ports of their node.
const HOST_PORTS: &str = "host-ports";

struct LoadBalancers {
    services: Indexer<Service>,
    nodes: Indexer<NodeView>,
    pods: Indexer<PodView>,
    slices: Indexer<EndpointSlice>,
    api: Api<Service>,
    own_writes: Arc<OwnWrites<Service>>,
    queue: WorkQueue,
    events: EventRecorder,
    pool: Vec<Range>,
    memory: Mutex<Memory>,
}

/// There is one worker, so what is here is what was decided last.
#[derive(Default)]
struct Memory {
    /// What was given to each Service: the cache may not show it yet.
    given: BTreeMap<ObjectKey, BTreeSet<IpAddr>>,
    /// What was last said of each that has none.
    told: BTreeMap<ObjectKey, String>,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services: Indexer<Service> = controller.indexed_cache(&[(BALANCED, index_balanced)]);
    let reconciler = LoadBalancers {
        services: services.clone(),
        nodes: controller.cache(),
        pods: controller.indexed_cache(&[(HOST_PORTS, index_host_ports)]),
        slices: controller.indexed_cache(&[(BY_SERVICE, slices::index_by_service)]),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        queue: controller.queue(),
        events: startup.events(),
        pool: settings.load_balancer_pool.clone(),
        memory: Mutex::default(),
    };
    let is_pooled = !reconciler.pool.is_empty();
    let [of_nodes, of_pods, of_slices] = [services.clone(), services.clone(), services.clone()];
    controller
        .follows(move |change: Change<'_, Service>, queue| {
            if change.states().any(|it| plan::is_concerned(it)) {
                queue.add(change.latest().key());
                // What one lets go another may wait for.
                wake(&services, queue, |it| plan::given(it).is_empty());
            }
        })
        .follows(move |change: Change<'_, NodeView>, queue| {
            let face = |it: &NodeView| plan::face(it);
            let has_changed =
                change.before().map(|it| face(it)) != change.after().map(|it| face(it));
            if has_changed && !is_pooled {
                wake(&of_nodes, queue, |_| true);
            }
        })
        .follows(move |change: Change<'_, PodView>, queue| {
            let ports =
                |it: Option<&Arc<PodView>>| it.map(|it| index_host_ports(it)).unwrap_or_default();
            let is_same = ports(change.before()) == ports(change.after());
            if !is_same && !is_pooled {
                wake(&of_pods, queue, |_| true);
            }
        })
        .watches(move |it: &EndpointSlice| {
            let service = slices::service_of(it, slices::OF_SELECTORS)?;
            of_slices.get(&service).filter(|it| plan::is_concerned(it)).map(|_| service)
        })
        .run(reconciler);
}

fn index_balanced(service: &Service) -> Vec<String> {
    let is_one = plan::is_concerned(service);
    is_one.then(|| BALANCED.to_owned()).into_iter().collect()
}

fn index_host_ports(pod: &PodView) -> Vec<String> {
    let has_any = plan::host_ports(pod).next().is_some();
    has_any.then(|| HOST_PORTS.to_owned()).into_iter().collect()
}

fn wake(services: &Indexer<Service>, queue: &WorkQueue, is_meant: impl Fn(&Service) -> bool) {
    let all = services.by_index(BALANCED, BALANCED);
    all.iter().filter(|it| is_meant(it)).for_each(|it| queue.add(it.key()));
}

impl Reconciler for LoadBalancers {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(service) = self.services.get(key) else {
            self.own_writes.forget(key);
            let mut memory = self.memory();
            memory.told.remove(key);
            if memory.given.remove(key).is_some() {
                drop(memory);
                wake(&self.services, &self.queue, |it| plan::given(it).is_empty());
            }
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        if !plan::is_concerned(&service) {
            return Ok(Next::Settled);
        }
        match plan::plan(&self.observe(key, &service)) {
            Outcome::Settled => {}
            Outcome::Give(addresses) => self.give(key, &service, addresses).await?,
            Outcome::Hold(why) => self.hold(key, &service, why).await?,
            Outcome::Release => self.release(key, &service).await?,
        }
        Ok(Next::Settled)
    }
}

impl LoadBalancers {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, key: &ObjectKey, service: &Arc<Service>) -> Observed {
        let memory = self.memory();
        let mut holders = Vec::new();
        for other in self.services.by_index(BALANCED, BALANCED) {
            let other_key = other.key();
            if other_key == *key {
                continue;
            }
            let given = memory.given.get(&other_key).cloned();
            let addresses = given.unwrap_or_else(|| plan::given(&other));
            holders.push(Holder::of_service(&other, addresses));
        }
        drop(memory);
        let source = if self.pool.is_empty() {
            let nodes = self.nodes.list();
            let pods = self.pods.by_index(HOST_PORTS, HOST_PORTS);
            holders.extend(plan::holders_of_pods(&nodes, &pods));
            holders.extend(self.holder_of_server());
            Source::Nodes(nodes)
        } else {
            Source::Pool(self.pool.clone())
        };
        let index = slices::index_value(key, slices::OF_SELECTORS);
        let slices = self.slices.by_index(BY_SERVICE, &index);
        Observed { service: service.clone(), source, holders, slices }
    }

    /// The API server's own port is nobody's to take.
    fn holder_of_server(&self) -> Option<Holder> {
        let slice = self.slices.get(&ObjectKey::new("default", "kubernetes"))?;
        Some(Holder::of_server(&slice))
    }

    async fn give(
        &self,
        key: &ObjectKey,
        service: &Service,
        addresses: BTreeSet<IpAddr>,
    ) -> Result<(), Failed> {
        let ingress: Vec<Value> =
            addresses.iter().map(|it| json!({"ip": it.to_string(), "ipMode": "VIP"})).collect();
        let is_first = plan::given(service).is_empty();
        if is_first {
            self.say(service, EventType::Normal, "EnsuringLoadBalancer", "Ensuring load balancer");
        }
        self.memory().given.insert(key.clone(), addresses);
        let written = self.write(key, service, plan::protected(service), ingress).await;
        if written.is_err() {
            self.memory().given.remove(key);
        }
        written?;
        self.memory().told.remove(key);
        if is_first {
            self.say(service, EventType::Normal, "EnsuredLoadBalancer", "Ensured load balancer");
        }
        Ok(())
    }

    /// It cannot have any: what it has is taken away, and the reason is said once.
    async fn hold(&self, key: &ObjectKey, service: &Service, why: String) -> Result<(), Failed> {
        let why = format!("Error syncing load balancer: failed to ensure load balancer: {why}");
        let before = self.memory().told.insert(key.clone(), why.clone());
        if before.as_ref() != Some(&why) {
            self.say(service, EventType::Warning, "SyncLoadBalancerFailed", &why);
        }
        if !plan::given(service).is_empty() {
            self.memory().given.insert(key.clone(), BTreeSet::new());
            self.write(key, service, plan::protected(service), Vec::new()).await?;
        }
        Ok(())
    }

    async fn release(&self, key: &ObjectKey, service: &Service) -> Result<(), Failed> {
        self.say(service, EventType::Normal, "DeletingLoadBalancer", "Deleting load balancer");
        self.write(key, service, plan::unprotected(service), Vec::new()).await?;
        let mut memory = self.memory();
        memory.given.remove(key);
        memory.told.remove(key);
        drop(memory);
        self.say(service, EventType::Normal, "DeletedLoadBalancer", "Deleted load balancer");
        wake(&self.services, &self.queue, |it| plan::given(it).is_empty());
        Ok(())
    }

    fn say(&self, service: &Service, kind: EventType, reason: &str, message: &str) {
        self.events.event(service, kind, reason, message.to_owned());
    }

    /// Finalizers go with the status, as upstream writes them. Over the state that was seen, since
    /// lists are replaced.
    async fn write(
        &self,
        key: &ObjectKey,
        service: &Service,
        finalizers: Vec<String>,
        ingress: Vec<Value>,
    ) -> Result<(), Failed> {
        let body = json!({
            "metadata": {
                "resourceVersion": service.version().to_string(), "finalizers": finalizers,
            },
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        let body = body.to_string().into();
        let patched =
            self.api.patch_status(&key.namespace, &key.name, PatchKind::Merge, body).await;
        let patched = patched.unless_gone();
        let patched = patched.map_err(Failed::to::<Service>("set the addresses of", key))?;
        if let Some(patched) = patched {
            self.own_writes.changed(key, service, patched.meta());
        }
        Ok(())
    }
}
