//! The controllers of kube-controller-manager, one folder each: observe caches, plan purely, apply
//! through the client. `ALL` is the list; `start` starts those that the flags select.

mod backends;
mod claims;
mod conditions;
mod cron_job;
mod deployment;
mod disruption;
mod endpoint_slice_mirroring;
mod endpoint_slices;
mod endpoints;
mod flags;
mod garbage_collector;
mod job;
mod labels;
mod legacy_token_cleaner;
mod load_balancer;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod owners;
mod pod_gc;
mod pods;
mod replica_set;
mod replicas;
mod replication_controller;
mod resources;
mod root_ca_publisher;
mod service_account;
mod service_account_tokens;
mod service_cidr;
mod slices;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;

use std::sync::Arc;

use apimachinery::ObjectKey;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use reconcile::{Controller, EventRecorder, Key};
use stdx::World;
use telemetry::Registry;

pub use self::flags::{Flags, Settings};
use self::resources::Resources;

/// One controller, as `--controllers` and RBAC know it.
pub struct Descriptor {
    /// Upstream's name of the controller.
    pub name: &'static str,
    /// Names that upstream gave it before.
    pub aliases: &'static [&'static str],
    /// The service account in kube-system that it acts as, or [`MANAGER`].
    pub identity: &'static str,
    /// Whether `*` means it too.
    pub is_on_by_default: bool,
    pub flags: Flags,
    pub(crate) start: fn(&Startup<'_>),
}

/// Every controller, by name.
pub const ALL: &[Descriptor] = &[
    cron_job::DESCRIPTOR,
    deployment::DESCRIPTOR,
    disruption::DESCRIPTOR,
    endpoints::DESCRIPTOR,
    endpoint_slices::DESCRIPTOR,
    endpoint_slice_mirroring::DESCRIPTOR,
    garbage_collector::DESCRIPTOR,
    job::DESCRIPTOR,
    legacy_token_cleaner::DESCRIPTOR,
    namespace::DESCRIPTOR,
    node_ipam::DESCRIPTOR,
    node_lifecycle::DESCRIPTOR,
    pod_gc::DESCRIPTOR,
    replica_set::DESCRIPTOR,
    replication_controller::DESCRIPTOR,
    root_ca_publisher::DESCRIPTOR,
    service_cidr::DESCRIPTOR,
    load_balancer::DESCRIPTOR,
    service_account::DESCRIPTOR,
    service_account_tokens::DESCRIPTOR,
    taint_eviction::DESCRIPTOR,
    ttl_after_finished::DESCRIPTOR,
    ttl::DESCRIPTOR,
];

/// The identity of the controller manager itself.
pub const MANAGER: &str = "";

/// Signs a token for a Secret: its key, and name and uid of the account that it is for.
pub type SignToken = Arc<
    dyn Fn(&ObjectKey, &str, &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync,
>;

/// What every controller is started with.
#[derive(Clone)]
pub struct Context {
    pub tasks: Tasks,
    pub world: World,
    pub factory: Arc<Factory>,
    /// A client that acts as `system:serviceaccount:kube-system:<name>`, or as [`MANAGER`].
    pub client_for: Arc<dyn Fn(&str) -> Client + Send + Sync>,
    /// PEM of the authority that signed the API server's certificate.
    pub root_ca: String,
    /// Absent where this process has no key.
    pub sign_token: Option<SignToken>,
    pub settings: Settings,
    /// Where their queues are shown.
    pub metrics: Registry,
}

/// What one controller is started with.
pub(crate) struct Startup<'a> {
    context: &'a Context,
    descriptor: &'a Descriptor,
    /// The parent of all its tasks.
    tasks: Tasks,
    client: Client,
    resources: Arc<Resources>,
}

impl std::ops::Deref for Startup<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context
    }
}

impl Startup<'_> {
    /// The controller, under its own name, still to be told what it watches.
    fn controller<K: Key>(&self) -> Controller<K> {
        let controller = Controller::new(self.descriptor.name, &self.tasks, &self.factory);
        controller.queue().measure(&self.metrics);
        controller
    }

    /// What its flags say.
    fn settings<S: 'static>(&self) -> &S {
        self.context.settings.get()
    }

    fn events(&self) -> EventRecorder {
        let world = self.world.clone();
        EventRecorder::new(&self.tasks, self.client.clone(), world, self.descriptor.name)
    }
}

/// Starts the selected controllers. Informers they need are made in the factory, which the caller
/// starts.
pub fn start(context: &Context) {
    let resources = Arc::<Resources>::default();
    for descriptor in ALL.iter().filter(|it| context.settings.is_selected(it)) {
        (descriptor.start)(&Startup {
            context,
            descriptor,
            tasks: context.tasks.child(descriptor.name),
            client: (context.client_for)(descriptor.identity),
            resources: resources.clone(),
        });
    }
    resources::start(context, resources);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ALL;

    #[test]
    fn controllers_are_listed_once_and_in_order() {
        let names: Vec<&str> = ALL.iter().map(|it| it.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn no_name_means_two_controllers() {
        let names = || ALL.iter().flat_map(|it| it.aliases.iter().copied().chain([it.name]));
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
    }
}
