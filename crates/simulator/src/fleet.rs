//! The fleet: who its members are, which of them live, and how it is started.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Identified as _;
use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use client::Client;
use informer::{Factory, Indexer};
use k8s_openapi::api::coordination::v1::Lease;
use lifecycle::Tasks;
use reconcile::{Controller, WorkQueue, itself};
use stdx::World;

use crate::addresses::Addresses;
use crate::containers::Containers;
use crate::pods::Pods;
use crate::{leases, node};

#[derive(Clone, Debug)]
pub struct Config {
    pub nodes: usize,
    /// Where pod addresses come from.
    pub pod_network: Ipv4Addr,
    pub pod_prefix_length: u8,
    /// What the nodes show as their kubelet's version.
    pub version: String,
}

/// All nodes share them.
const WORKERS: usize = 32;

/// One node of the fleet.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) client: Client,
}

/// All nodes, and which of them are dead.
pub(crate) struct Members {
    all: Vec<Member>,
    dead: Mutex<BTreeSet<String>>,
    containers: Mutex<Containers>,
    /// The lease of each node, by index, as it last wrote it.
    leases: Mutex<BTreeMap<usize, Lease>>,
    /// What the API shows of the nodes.
    pub(crate) nodes: Indexer<NodeView>,
    pub(crate) world: World,
    pub(crate) version: String,
}

impl Members {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    fn dead(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn containers(&self) -> MutexGuard<'_, Containers> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, BTreeMap<usize, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<&Member> {
        let index: usize = name.strip_prefix("sim-")?.parse().ok()?;
        self.all.get(index).filter(|it| it.name == name)
    }

    pub(crate) fn alive(&self, name: &str) -> Option<Member> {
        let member = self.find(name)?;
        (!self.dead().contains(name)).then(|| member.clone())
    }
}

/// A handle to the running fleet. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    members: Arc<Members>,
    queue: WorkQueue,
    pods: Indexer<PodView>,
    tasks: Tasks,
}

impl Fleet {
    /// Starts the nodes; returns at once. `client_for` gives the client of a node by its name.
    pub fn start(
        config: Config,
        tasks: &Tasks,
        world: &World,
        factory: &Arc<Factory>,
        client_for: impl Fn(&str) -> Client,
    ) -> Self {
        let member = |index| {
            let name = node::name(index);
            Member { index, address: node::address(index), client: client_for(&name), name }
        };
        let mut controller = Controller::new("simulated-pods", tasks, factory);
        let members = Arc::new(Members {
            all: (0..config.nodes).map(member).collect(),
            dead: Mutex::default(),
            containers: Mutex::default(),
            leases: Mutex::default(),
            nodes: controller.cache(),
            world: world.clone(),
            version: config.version,
        });
        let (queue, pods) = (controller.queue(), controller.cache::<PodView>());
        let addresses = Mutex::new(Addresses::new(config.pod_network, config.pod_prefix_length));
        let reconciler = Pods { members: members.clone(), pods: pods.clone(), addresses };
        controller
            .watches(|it: &PodView| itself(it).filter(|_| is_on_fleet(it)))
            .workers(WORKERS)
            .run(reconciler);
        let renewing = members.clone();
        tasks.spawn_restarting("leases", move |shutdown| leases::run(renewing.clone(), shutdown));
        Self { members, queue, pods, tasks: tasks.clone() }
    }

    /// The node falls silent: no lease, no status, no pod moves on.
    pub fn kill(&self, name: &str) {
        if self.members.find(name).is_some() {
            self.members.dead().insert(name.to_owned());
        }
    }

    /// The names under which two pods ran at once, on whatever nodes, silent ones too.
    pub fn doubles(&self) -> Vec<String> {
        self.members.containers().doubles().to_vec()
    }

    /// The node comes back and says so; its pods are looked at again.
    pub fn revive(&self, name: &str) {
        self.members.dead().remove(name);
        let Some(member) = self.members.alive(name) else { return };
        let members = self.members.clone();
        self.tasks.spawn("revive", |shutdown| async move {
            let posted = leases::post_status(&members, &member);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                outcome = posted => if let Err(err) = outcome {
                    tracing::warn!(node = %member.name, error = %err, "status not posted");
                },
            }
        });
        let is_wanted =
            |key: &ObjectKey, uid: &str| self.pods.get(key).is_some_and(|it| it.uid() == uid);
        self.members.containers().keep(name, is_wanted);
        for pod in self.pods.list() {
            if pod.node() == Some(name) {
                self.queue.add(pod.key());
            }
        }
    }
}

fn is_on_fleet(pod: &PodView) -> bool {
    pod.node().is_some_and(|it| it.starts_with("sim-"))
}
