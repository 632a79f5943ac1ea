//! The controllers of kube-controller-manager, one folder each: observe caches, plan purely, apply
//! through the client. `ALL` is the list; `start_all` starts it.

mod backends;
mod conditions;
mod deployment;
mod endpoint_slices;
mod endpoints;
mod garbage_collector;
mod handlers;
mod labels;
mod namespace;
mod node_lifecycle;
mod own_writes;
mod owners;
mod pod_gc;
mod pods;
mod replica_set;
mod replicas;
mod replication_controller;
mod resources;
mod root_ca_publisher;
mod service_account;
mod taint_eviction;

use std::sync::Arc;
use std::time::Duration;

use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use reconcile::{EventRecorder, Reconciler, WorkQueue};
use stdx::World;
use telemetry::Registry;

use self::resources::Resources;

/// One controller, as `--controllers` and RBAC know it.
pub struct Descriptor {
    /// Upstream's name of the controller.
    pub name: &'static str,
    /// The service account in kube-system that it acts as.
    pub identity: &'static str,
    pub(crate) start: fn(&Startup, &Self),
}

/// Every controller, by name.
pub const ALL: &[Descriptor] = &[
    deployment::DESCRIPTOR,
    endpoints::DESCRIPTOR,
    endpoint_slices::DESCRIPTOR,
    garbage_collector::DESCRIPTOR,
    namespace::DESCRIPTOR,
    node_lifecycle::DESCRIPTOR,
    pod_gc::DESCRIPTOR,
    replica_set::DESCRIPTOR,
    replication_controller::DESCRIPTOR,
    root_ca_publisher::DESCRIPTOR,
    service_account::DESCRIPTOR,
    taint_eviction::DESCRIPTOR,
];

/// What every controller is started with.
#[derive(Clone)]
pub struct Context {
    pub tasks: Tasks,
    pub world: World,
    pub factory: Arc<Factory>,
    /// A client that acts as `system:serviceaccount:kube-system:<name>`.
    pub client_for: Arc<dyn Fn(&str) -> Client + Send + Sync>,
    /// PEM of the authority that signed the API server's certificate.
    pub root_ca: String,
    pub config: Config,
    /// Where their queues are shown.
    pub metrics: Registry,
}

/// Workers per controller and the periods that users tune; the defaults are upstream's flags'.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `--concurrent-deployment-syncs`
    pub concurrent_deployment_syncs: usize,
    /// `--concurrent-replicaset-syncs`
    pub concurrent_replicaset_syncs: usize,
    /// `--concurrent-rc-syncs`
    pub concurrent_rc_syncs: usize,
    /// `--concurrent-endpoint-syncs`
    pub concurrent_endpoint_syncs: usize,
    /// `--concurrent-service-endpoint-syncs`
    pub concurrent_service_endpoint_syncs: usize,
    /// `--concurrent-gc-syncs`
    pub concurrent_gc_syncs: usize,
    /// `--concurrent-namespace-syncs`
    pub concurrent_namespace_syncs: usize,
    /// `--max-endpoints-per-slice`
    pub max_endpoints_per_slice: usize,
    /// `--node-monitor-grace-period`
    pub node_monitor_grace_period: Duration,
    /// `--node-startup-grace-period`
    pub node_startup_grace_period: Duration,
    /// `--terminated-pod-gc-threshold`
    pub terminated_pod_gc_threshold: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrent_deployment_syncs: 5,
            concurrent_replicaset_syncs: 5,
            concurrent_rc_syncs: 5,
            concurrent_endpoint_syncs: 5,
            concurrent_service_endpoint_syncs: 5,
            concurrent_gc_syncs: 20,
            concurrent_namespace_syncs: 10,
            max_endpoints_per_slice: 100,
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            terminated_pod_gc_threshold: 12_500,
        }
    }
}

/// What controllers share besides: made anew by every `start_all`.
pub(crate) struct Startup {
    context: Context,
    resources: Arc<Resources>,
}

impl std::ops::Deref for Startup {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Context {
    fn client(&self, descriptor: &Descriptor) -> Client {
        (self.client_for)(descriptor.identity)
    }

    fn events(&self, descriptor: &Descriptor, client: &Client) -> EventRecorder {
        EventRecorder::new(
            &self.tasks.child(descriptor.name),
            client.clone(),
            self.world.clone(),
            descriptor.name,
        )
    }

    /// Works on the queue as this controller, once the caches are full.
    fn run<R: Reconciler>(
        &self,
        descriptor: &Descriptor,
        queue: WorkQueue,
        workers: usize,
        reconciler: R,
    ) {
        let tasks = self.tasks.child(descriptor.name);
        queue.measure(&self.metrics);
        reconcile::run_synced(&tasks, &self.factory, queue, workers, Arc::new(reconciler));
    }
}

/// Starts every controller. Informers they need are made in the factory, which the caller starts.
pub fn start_all(context: &Context) {
    let startup = Startup { context: context.clone(), resources: Arc::default() };
    for descriptor in ALL {
        (descriptor.start)(&startup, descriptor);
    }
    resources::start(context, startup.resources);
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn controllers_are_listed_once_and_in_order() {
        let names: Vec<&str> = ALL.iter().map(|it| it.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }
}
