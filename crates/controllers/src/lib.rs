//! The controllers of kube-controller-manager, one folder each: observe caches, plan purely, apply
//! through the client. `ALL` is the list; `start` starts those that the flags select.

mod availability;
mod backends;
mod bootstrap_signer;
mod bootstrap_tokens;
mod certificate_approving;
mod certificate_cleaner;
mod certificate_signing;
mod certificates;
mod claims;
mod cluster_role_aggregation;
mod conditions;
mod cron_job;
mod daemon_set;
mod deployment;
mod device_taint_eviction;
mod disruption;
mod endpoint_slice_mirroring;
mod endpoint_slices;
mod endpoints;
mod expiry;
mod explanations;
mod finalizers;
mod flags;
pub mod garbage;
mod garbage_collector;
mod history;
mod horizontal_pod_autoscaler;
mod job;
mod labels;
mod legacy_token_cleaner;
mod load_balancer;
mod namespace;
mod node_certificate_approving;
mod node_ipam;
mod node_lifecycle;
mod owners;
mod persistent_volume_claim_protection;
mod persistent_volume_protection;
mod pod_certificate_request_cleaner;
mod pod_control;
mod pod_gc;
mod pod_group_protection;
mod pods;
mod protection;
mod replica_set;
mod replicas;
mod replication_controller;
mod resource_claim;
mod resource_pool_status;
mod resource_quota;
mod resources;
mod root_ca_publisher;
mod running;
mod service_account;
mod service_account_tokens;
mod service_cidr;
mod sets;
mod share;
mod slices;
mod stateful_set;
mod storage_version_garbage_collector;
mod storage_version_migrator;
mod taint_eviction;
mod token_cleaner;
mod trust_bundle_publisher;
mod ttl;
mod ttl_after_finished;
mod validating_admission_policy_status;
mod volume_attributes_class_protection;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use reconcile::{Controller, EventRecorder, Key};
use stdx::World;
use telemetry::Registry;

pub use self::availability::{Availability, ServedResource, Unavailable, needed_resources};
pub use self::certificates::{
    CertificateTerms, KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING,
    LEGACY_UNKNOWN, NODE_COMPONENT, SignCertificate, Signers,
};
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
    bootstrap_signer::DESCRIPTOR,
    certificate_approving::DESCRIPTOR,
    certificate_cleaner::DESCRIPTOR,
    certificate_signing::DESCRIPTOR,
    cluster_role_aggregation::DESCRIPTOR,
    cron_job::DESCRIPTOR,
    daemon_set::DESCRIPTOR,
    deployment::DESCRIPTOR,
    device_taint_eviction::DESCRIPTOR,
    disruption::DESCRIPTOR,
    endpoints::DESCRIPTOR,
    endpoint_slices::DESCRIPTOR,
    endpoint_slice_mirroring::DESCRIPTOR,
    garbage_collector::DESCRIPTOR,
    horizontal_pod_autoscaler::DESCRIPTOR,
    job::DESCRIPTOR,
    trust_bundle_publisher::DESCRIPTOR,
    legacy_token_cleaner::DESCRIPTOR,
    namespace::DESCRIPTOR,
    node_certificate_approving::DESCRIPTOR,
    node_ipam::DESCRIPTOR,
    node_lifecycle::DESCRIPTOR,
    persistent_volume_protection::DESCRIPTOR,
    persistent_volume_claim_protection::DESCRIPTOR,
    pod_gc::DESCRIPTOR,
    pod_certificate_request_cleaner::DESCRIPTOR,
    pod_group_protection::DESCRIPTOR,
    replica_set::DESCRIPTOR,
    replication_controller::DESCRIPTOR,
    resource_claim::DESCRIPTOR,
    resource_pool_status::DESCRIPTOR,
    resource_quota::DESCRIPTOR,
    root_ca_publisher::DESCRIPTOR,
    service_cidr::DESCRIPTOR,
    load_balancer::DESCRIPTOR,
    service_account::DESCRIPTOR,
    service_account_tokens::DESCRIPTOR,
    stateful_set::DESCRIPTOR,
    storage_version_migrator::DESCRIPTOR,
    storage_version_garbage_collector::DESCRIPTOR,
    taint_eviction::DESCRIPTOR,
    token_cleaner::DESCRIPTOR,
    ttl_after_finished::DESCRIPTOR,
    ttl::DESCRIPTOR,
    validating_admission_policy_status::DESCRIPTOR,
    volume_attributes_class_protection::DESCRIPTOR,
];

/// Retries in a row before a key is let go until it changes, where upstream does so.
pub(crate) const RETRIES_MAX: u32 = 15;

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
    /// Those that this process has a key for.
    pub signers: Signers,
    pub settings: Settings,
    /// What the cluster has, of what not every one does.
    pub availability: Availability,
    /// Between the starts of two of them.
    pub start_interval: Duration,
    /// What runs them is called.
    pub manager: &'static str,
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
    /// Before anybody works.
    delay: Duration,
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
        controller.starts_after(self.delay)
    }

    /// What its flags say.
    fn settings<S: 'static>(&self) -> &S {
        self.context.settings.get()
    }

    /// Events under the controller's own name.
    fn events(&self) -> EventRecorder {
        self.events_of(self.descriptor.name)
    }

    /// Where upstream's events have another name than the controller.
    fn events_of(&self, reporter: &'static str) -> EventRecorder {
        let world = self.world.clone();
        EventRecorder::new(&self.tasks, self.client.clone(), world, reporter)
    }
}

/// Starts the selected controllers. Informers they need are made in the factory, which the caller
/// starts.
pub fn start(context: &Context) {
    let resources = Arc::<Resources>::default();
    let mut delay = Duration::ZERO;
    for descriptor in context.settings.running(&context.availability) {
        (descriptor.start)(&Startup {
            context,
            descriptor,
            tasks: context.tasks.child(descriptor.name),
            client: (context.client_for)(descriptor.identity),
            resources: resources.clone(),
            delay,
        });
        delay += context.start_interval;
    }
    running::show(context);
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
