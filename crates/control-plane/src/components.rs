//! Controllers, scheduler and simulated nodes: started at once, or while a Lease is held.

use std::sync::Arc;
use std::time::Duration;

use controllers::{Availability, Context, MANAGER, Settings, SignToken, Signers};
use informer::Factory;
use lifecycle::Tasks;
use reconcile::{Election, Terms};
use simulator::Fleet;
use stdx::World;
use telemetry::Registry;

use crate::clients::{Clients, Identity};

/// Upstream's names of the two, which are also those of their Leases.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub const SCHEDULER: &str = "kube-scheduler";

/// What every component is started with.
#[derive(Clone)]
pub struct Components {
    pub world: World,
    pub clients: Clients,
    /// What pods get as kube-root-ca.crt.
    pub root_ca: String,
    /// Signs tokens for Secrets; only the controllers have it.
    pub sign_token: Option<SignToken>,
    /// Sign certificates; only the controllers have them.
    pub signers: Signers,
    pub controllers: Settings,
    pub availability: Availability,
    /// Between the starts of two controllers.
    pub start_interval: Duration,
    /// Where controllers and scheduler are shown.
    pub metrics: Registry,
}

impl Components {
    /// Runs controllers and scheduler here, for ever. Returns the controllers' informers.
    pub fn start(&self, tasks: &Tasks) -> Arc<Factory> {
        self.start_scheduler(&tasks.child("scheduler"));
        self.start_controllers(&tasks.child("controller-manager"))
    }

    /// Runs each of the two here whenever this server leads in it, as seen by its Lease, which has
    /// upstream's name. Upstream's processes end when they lose it; this one has a node and an API
    /// to serve, so what it ran ends, and it stands again.
    pub fn start_when_elected(&self, tasks: &Tasks, candidate: impl Fn() -> String) {
        let controllers = self.clone();
        let manager = self.election(CONTROLLER_MANAGER, Identity::ControllerManager, candidate());
        reconcile::with_leaderships(tasks, manager, move |tasks| {
            let controllers = controllers.clone();
            async move {
                let _ = controllers.start_controllers(&tasks);
            }
        });
        let scheduler = self.clone();
        let election = self.election(SCHEDULER, Identity::Scheduler, candidate());
        reconcile::with_leaderships(tasks, election, move |tasks| {
            let scheduler = scheduler.clone();
            async move { scheduler.start_scheduler(&tasks) }
        });
    }

    fn election(&self, name: &'static str, acts_as: Identity<'_>, identity: String) -> Election {
        let client = self.clients.client(acts_as);
        let terms = Terms::default();
        let (world, metrics) = (self.world.clone(), self.metrics.clone());
        Election { client, world, name, identity, terms, metrics }
    }

    /// The selected controllers, each under the identity that upstream gives it. Returns their
    /// informers, started.
    pub fn start_controllers(&self, tasks: &Tasks) -> Arc<Factory> {
        let factory = self.factory(tasks);
        let clients = self.clients.clone();
        controllers::start(&Context {
            tasks: tasks.clone(),
            world: self.world.clone(),
            factory: factory.clone(),
            client_for: Arc::new(move |name| {
                clients.client(match name {
                    MANAGER => Identity::ControllerManager,
                    account => Identity::Controller(account),
                })
            }),
            root_ca: self.root_ca.clone(),
            sign_token: self.sign_token.clone(),
            signers: self.signers.clone(),
            settings: self.controllers.clone(),
            availability: self.availability.clone(),
            start_interval: self.start_interval,
            manager: CONTROLLER_MANAGER,
            metrics: self.metrics.clone(),
        });
        factory.start();
        factory
    }

    /// Informers that see what the controllers see.
    pub fn factory(&self, tasks: &Tasks) -> Arc<Factory> {
        let client = self.clients.client(Identity::ControllerManager);
        Factory::new(client, self.world.clone(), tasks)
    }

    pub fn start_scheduler(&self, tasks: &Tasks) {
        let client = self.clients.client(Identity::Scheduler);
        let factory = Factory::new(client.clone(), self.world.clone(), tasks);
        let (config, metrics) = (scheduler::Config::default(), &self.metrics);
        scheduler::start(config, tasks, &self.world, &factory, &client, metrics);
        factory.start();
    }

    /// Each simulated node writes as itself; the fleet reads pods through the given factory.
    pub fn start_fleet(
        &self,
        tasks: &Tasks,
        factory: &Arc<Factory>,
        config: simulator::Config,
    ) -> Fleet {
        let client_for = |name: &str| self.clients.client(Identity::Node(name));
        Fleet::start(config, &tasks.child("simulator"), &self.world, factory, client_for)
    }
}
