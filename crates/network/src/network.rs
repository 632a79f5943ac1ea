//! The pod network as the sandboxes see it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lifecycle::Tasks;
use node_api::network::{Attachment, Namespace, Status};
use node_api::{ClusterId, Future, PodNetwork, SandboxId};
use stdx::Cidr;
use tokio::sync::watch;

use crate::firewalls::Firewalls;
use crate::gate::Gate;
use crate::inherited::Inherited;
use crate::kernel::Kernel;
use crate::kernel_state::Next;
use crate::keys::{self, Keys};
use crate::node::{Peer, PodRange, Surroundings};
use crate::overlaps::overlaps;
use crate::paths::{self, Backend, LeftOut};
use crate::patience::Patience;
use crate::place::Place;
use crate::probes::{Target, Tried};
use crate::records::{Directory, Records};
use crate::speaker::{self, Bgp, Heard, Wanted};
use crate::{Config, addresses, firewalls, follow, leftovers, probes};

/// Implements [`PodNetwork`].
pub struct Network {
    gateways: Vec<IpAddr>,
    left_out: watch::Sender<Vec<LeftOut>>,
    changed: watch::Sender<u64>,
    firewalls: Arc<Mutex<Firewalls>>,
    state: Arc<Mutex<State>>,
    status: watch::Sender<Status>,
}

/// Changed by one call at a time, on a thread that may block.
pub(crate) struct State {
    pub(crate) backend: &'static dyn Backend,
    pub(crate) cluster: ClusterId,
    pub(crate) bridge: String,
    pub(crate) ranges: Vec<PodRange>,
    pub(crate) place: Place,
    /// Those that were there before come first: what they have is not taken by others.
    pub(crate) peers: Vec<Peer>,
    /// Somebody has said who they are. Until then the ways that are there stay, so that a start
    /// breaks none.
    pub(crate) knows_peers: bool,
    /// The kernel is as the peers were set last.
    pub(crate) is_converged: bool,
    pub(crate) left_out: watch::Sender<Vec<LeftOut>>,
    /// Who is to be tried, and what came of it.
    pub(crate) targets: watch::Sender<Vec<Target>>,
    pub(crate) tried: watch::Sender<Tried>,
    /// The longest packets that arrive, of ways that do not take all.
    pub(crate) limits: BTreeMap<Cidr, u32>,
    /// Links that compute checksums because of us.
    pub(crate) computing: BTreeSet<String>,
    /// What was published last.
    pub(crate) said: BTreeMap<String, String>,
    pub(crate) overlaps: Vec<String>,
    pub(crate) name_servers: Vec<IpAddr>,
    /// Counts whenever what is told of the network may be something else.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) keys: Option<Keys>,
    pub(crate) bgp: Bgp,
    /// With whom BGP is to be spoken; `None`: nobody knows yet.
    pub(crate) wanted: watch::Sender<Option<Wanted>>,
    pub(crate) heard: Heard,
    pub(crate) surroundings: Surroundings,
    pub(crate) directory: Directory,
    pub(crate) inherited: Inherited,
    pub(crate) kernel: Kernel,
    /// What the file says.
    pub(crate) records: Records,
    pub(crate) purpose: Purpose,
    /// Of the sandboxes that were attached, or kept, since the start.
    pub(crate) namespaces: BTreeMap<SandboxId, Arc<dyn Namespace>>,
    /// They are being detached: that their links are gone is no loss.
    pub(crate) leaving: BTreeSet<SandboxId>,
    pub(crate) status: watch::Sender<Status>,
    /// When what all pods share is mended again.
    pub(crate) shared: Patience,
    pub(crate) of_pods: BTreeMap<SandboxId, Patience>,
    pub(crate) gate: Option<Arc<dyn Gate>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Serve,
    /// What is there is only taken away, nothing is made or put right.
    Purge,
}

impl Network {
    /// Makes the bridge and the rules, or corrects them. Works in the network namespace of the
    /// calling thread, then and later. Changes nothing if the bridge's name is taken by somebody
    /// else.
    pub fn open(config: Config) -> Result<Self, node_api::Error> {
        let mut firewalls = firewalls_of(&config)?;
        let mut state = State::open(config, Purpose::Serve)?;
        state.validate_overlaps()?;
        state.converge()?;
        firewalls.converge();
        let network = Self::of(state, firewalls);
        lock(&network.firewalls).warn_of_closed_inputs(&network.gateways);
        leftovers::warn();
        Ok(network)
    }

    /// For [`Self::purge`]: makes nothing, and takes no offense at what others have.
    pub fn open_to_purge(config: Config) -> Result<Self, node_api::Error> {
        let firewalls = firewalls_of(&config)?;
        Ok(Self::of(State::open(config, Purpose::Purge)?, firewalls))
    }

    fn of(state: State, firewalls: Firewalls) -> Self {
        let gateways = state.ranges.iter().map(PodRange::gateway).collect();
        let (status, left_out) = (state.status.clone(), state.left_out.clone());
        let changed = state.changed.clone();
        let (firewalls, state) = (Arc::new(Mutex::new(firewalls)), Arc::new(Mutex::new(state)));
        Self { gateways, left_out, changed, firewalls, state, status }
    }

    /// From now on no pod is connected before the gate knows of its addresses; it is told of those
    /// that are attached already.
    pub fn guard(&self, gate: Arc<dyn Gate>) -> Result<(), node_api::Error> {
        let mut state = lock(&self.state);
        for (sandbox, record) in &state.records.sandboxes {
            gate.attach(sandbox, &record.pod, &record.addresses)?;
        }
        state.gate = Some(gate);
        Ok(())
    }

    /// From now on whatever others break is mended as soon as the kernel tells of it.
    pub fn follow(&self, tasks: &Tasks) -> Result<(), node_api::Error> {
        follow::spawn(tasks, &self.state)?;
        firewalls::follow(tasks, &self.firewalls)?;
        probes::follow(tasks, &self.state);
        speaker::follow(tasks, &self.state);
        Ok(())
    }

    /// The bridge's addresses, one of each family, in the order of the ranges: pods' gateways, and
    /// where the node listens for them.
    pub fn gateways(&self) -> &[IpAddr] {
        &self.gateways
    }

    /// Whether there are ways to other nodes at all.
    pub fn has_peers(&self) -> bool {
        lock(&self.state).backend.name() != paths::NONE
    }

    /// Counts whenever what is told here may be something else: what is published, left out, tried.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What other nodes need to know of this one: annotations of its Node.
    pub fn published(&self) -> BTreeMap<String, String> {
        lock(&self.state).published()
    }

    /// Peers whose pods cannot be reached, and why; all others are served.
    pub fn left_out(&self) -> watch::Receiver<Vec<LeftOut>> {
        self.left_out.subscribe()
    }

    /// What came of trying the ways to those that are not left out.
    pub fn tried(&self) -> Tried {
        lock(&self.state).tried.borrow().clone()
    }

    /// Addresses of pods that somebody else on this machine has as well, in words.
    pub fn overlaps(&self) -> Vec<String> {
        lock(&self.state).overlaps.clone()
    }

    /// Makes a new key by which this node is known, if the one that it has is old. Returns after
    /// which time to ask again; `None`: there are no keys.
    pub fn renew_keys(&self, now: SystemTime) -> Future<'_, Option<Duration>> {
        self.run(move |state| lock(state).renew_keys(now))
    }

    /// The Nodes, all of them, as they are now; this one is known by its name. Of two that want the
    /// same, the one that has it keeps it, and else the first. Pods reach the pods of each that is
    /// not left out when it returns; on an error, of some.
    pub fn set_peers(&self, peers: Vec<Peer>) -> Future<'_, ()> {
        self.run(move |state| lock(state).set_peers(peers))
    }

    /// Removes the bridge, the pods' links, the rules and the files, and puts back the kernel
    /// settings that were changed, unless another cluster needs them. Goes on after an error, and
    /// returns all of them.
    pub fn purge(&self) -> Vec<node_api::Error> {
        let mut errors = lock(&self.firewalls).purge();
        errors.extend(lock(&self.state).purge());
        errors
    }

    /// On a thread that may block, and to the end even if the caller stops waiting.
    fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Mutex<State>) -> Result<T, node_api::Error> + Send + 'static,
    ) -> Future<'_, T> {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || run(&state)).await {
                Ok(result) => result,
                Err(err) => Err(node_api::Error::node("change the pod network", err)),
            }
        })
    }
}

impl PodNetwork for Network {
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>> {
        self.run(move |state| {
            let gate = lock(state).gate.clone();
            gate.map_or(Ok(()), |it| it.wait())?;
            lock(state).attach(attachment)
        })
    }

    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()> {
        let sandbox = sandbox.clone();
        self.run(move |state| {
            let remove_link = lock(state).begin_detach(&sandbox)?;
            let removed = remove_link();
            lock(state).end_detach(&sandbox, removed)
        })
    }

    fn keep_only(&self, sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()> {
        self.run(move |state| lock(state).keep_only(sandboxes))
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }
}

/// A panic leaves nothing half-changed that the next call would not correct: the file and the
/// kernel are what counts.
pub(crate) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn open(config: Config, purpose: Purpose) -> Result<Self, node_api::Error> {
        let backend = paths::find(&config.backend).map_err(node_api::Error::Refused)?;
        if config.has_direct_routes {
            paths::validate_direct_routes(backend.name()).map_err(node_api::Error::Refused)?;
        }
        validate_ranges(&config.ranges).map_err(node_api::Error::Refused)?;
        if backend.needs_worker() && config.worker.is_none() && purpose == Purpose::Serve {
            let why = format!("pod network {} needs a worker, which is not there", backend.name());
            return Err(node_api::Error::Refused(why));
        }
        let mut kernel = Kernel::open(&config)?;
        let keys = match purpose {
            Purpose::Serve if backend.needs_keys() => {
                let doing = "find the key of this node";
                let keys = keys::load(&config.directory);
                Some(keys.map_err(|err| node_api::Error::node(doing, err))?)
            }
            _ => None,
        };
        if purpose == Purpose::Serve {
            kernel.validate_bridge()?;
        }
        let heard = if backend.speaks_bgp() {
            routes_that_are_there(&mut kernel)?
        } else {
            Heard::default()
        };
        let directory = Directory::new(config.directory, &Kernel::boot()?);
        let mut records = directory.load()?;
        let inherited = Inherited::here(&config.settings)?;
        if records.settings_before.is_empty() && !kernel.other_clusters()?.is_empty() {
            records.settings_before = inherited.load();
        }
        Ok(Self {
            backend,
            cluster: config.cluster,
            bridge: config.bridge,
            ranges: config.ranges,
            place: Place::new(config.node, config.addresses, config.mtu, config.has_direct_routes),
            peers: Vec::new(),
            knows_peers: backend.name() == paths::NONE,
            is_converged: false,
            left_out: watch::Sender::new(Vec::new()),
            targets: watch::Sender::new(Vec::new()),
            tried: watch::Sender::new(Tried::default()),
            limits: BTreeMap::new(),
            computing: BTreeSet::new(),
            said: BTreeMap::new(),
            overlaps: Vec::new(),
            name_servers: config.name_servers,
            changed: watch::Sender::new(0),
            keys,
            bgp: config.bgp,
            wanted: watch::Sender::new(None),
            heard,
            surroundings: Surroundings::default(),
            directory,
            inherited,
            kernel,
            records,
            purpose,
            namespaces: BTreeMap::new(),
            leaving: BTreeSet::new(),
            status: watch::Sender::new(Status::default()),
            shared: Patience::default(),
            of_pods: BTreeMap::new(),
            gate: None,
        })
    }

    /// Where pods run already, an overlap is only told.
    fn validate_overlaps(&mut self) -> Result<(), node_api::Error> {
        let around = self.kernel.observe(&[])?.surroundings;
        let overlaps = overlaps(&self.ranges, &around.networks, &self.name_servers);
        if overlaps.is_empty() || !self.records.sandboxes.is_empty() {
            return Ok(());
        }
        Err(node_api::Error::Refused(overlaps.join("; ")))
    }

    fn renew_keys(&mut self, now: SystemTime) -> Result<Option<Duration>, node_api::Error> {
        if self.keys.is_none() || self.purpose == Purpose::Purge {
            return Ok(None);
        }
        let doing = "make a new key for this node";
        let renewed = keys::renew(self.directory.path(), now);
        let (keys, due) = renewed.map_err(|err| node_api::Error::node(doing, err))?;
        if self.keys.as_ref() != Some(&keys) {
            tracing::info!("this node has a new key");
            self.keys = Some(keys);
            self.converge()?;
        }
        Ok(Some(due))
    }
}

fn firewalls_of(config: &Config) -> Result<Firewalls, node_api::Error> {
    let pods = config.ranges.iter().map(|it| it.cluster).collect();
    Firewalls::open(config.cluster, pods, &config.directory)
}

/// What was heard before this start, and holds until it is heard again.
fn routes_that_are_there(kernel: &mut Kernel) -> Result<Heard, node_api::Error> {
    let found = kernel.observe(&[])?.state.routes;
    let by_gateway = found.into_iter().filter_map(|it| match it.next {
        Next::Gateway(gateway) => Some((it.destination, gateway)),
        Next::Link { .. } | Next::Onlink { .. } | Next::Nowhere | Next::Blackhole => None,
    });
    Ok(Heard { routes: by_gateway.collect(), ..Heard::default() })
}

/// One of each family at the most, and at least one.
fn validate_ranges(ranges: &[PodRange]) -> Result<(), String> {
    for range in ranges {
        addresses::validate(range.node)?;
    }
    match ranges {
        [_] => Ok(()),
        [one, other] if one.family() != other.family() => Ok(()),
        _ => Err("pods need one range of addresses, or two of different families".to_owned()),
    }
}
