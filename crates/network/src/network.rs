//! The pod network as the sandboxes see it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifecycle::Tasks;
use node_api::network::{Attachment, HostPort, Namespace, Status};
use node_api::{ClusterId, Future, PodNetwork, SandboxId};
use stdx::{Family, error_chain};
use tokio::sync::watch;

use crate::gate::Gate;
use crate::inherited::Inherited;
use crate::kernel::{self, Kernel, PodNamespace};
use crate::kernel_state::{Change, KernelState, LinkKind, Next, changes};
use crate::keys::{self, Keys};
use crate::node::{Peer, PodRange, Surroundings, link_name};
use crate::paths::{self, Backend, LeftOut};
use crate::patience::Patience;
use crate::place::Place;
use crate::records::{Directory, Record, Records};
use crate::speaker::{self, Bgp, Heard, Wanted};
use crate::{Config, addresses, follow, forwarding, host_ports, table};

/// Implements [`PodNetwork`].
pub struct Network {
    gateways: Vec<IpAddr>,
    left_out: watch::Sender<Vec<LeftOut>>,
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
        let mut state = State::open(config, Purpose::Serve)?;
        state.converge()?;
        warn_of_dropping_chains();
        Ok(Self::of(state))
    }

    /// For [`Self::purge`]: makes nothing, and takes no offense at what others have.
    pub fn open_to_purge(config: Config) -> Result<Self, node_api::Error> {
        Ok(Self::of(State::open(config, Purpose::Purge)?))
    }

    fn of(state: State) -> Self {
        let gateways = state.ranges.iter().map(PodRange::gateway).collect();
        let (status, left_out) = (state.status.clone(), state.left_out.clone());
        Self { gateways, left_out, state: Arc::new(Mutex::new(state)), status }
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

    /// What other nodes need to know of this one: annotations of its Node. May change when peers
    /// are set, and when [`Self::left_out`] does.
    pub fn published(&self) -> BTreeMap<String, String> {
        lock(&self.state).published()
    }

    /// Peers whose pods cannot be reached, and why; all others are served.
    pub fn left_out(&self) -> watch::Receiver<Vec<LeftOut>> {
        self.left_out.subscribe()
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
        lock(&self.state).purge()
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
            let remove_link = lock(state).begin_detach(&sandbox);
            let removed = remove_link(&link_name(&sandbox));
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
pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
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

    fn attach(&mut self, attachment: Attachment) -> Result<Vec<IpAddr>, node_api::Error> {
        let Attachment { pod, sandbox, namespace, host_ports } = attachment;
        host_ports::validate(&sandbox, &host_ports, &self.records, &self.families())?;
        self.validate_other_clusters(&host_ports)?;
        let opening = |err| node_api::Error::node("open the sandbox's network namespace", err);
        let opened = namespace
            .open()
            .map_err(opening)?
            .ok_or_else(|| node_api::Error::Refused(format!("sandbox {sandbox} has ended")))?;
        let before = self.records.clone();
        let addresses = match before.sandboxes.get(&sandbox) {
            Some(record) => record.addresses.clone(),
            None => self.next_addresses()?,
        };
        let record = Record { pod, addresses: addresses.clone(), host_ports };
        let old = self.records.sandboxes.insert(sandbox.clone(), record.clone());
        let mut connect = || {
            if self.records != before {
                self.directory.save(&self.records)?;
            }
            if let Some(gate) = &self.gate {
                gate.attach(&sandbox, &record.pod, &record.addresses)?;
            }
            self.connect(&sandbox, &record, opened.as_fd())?;
            self.change_pod(old.as_ref(), Some(&record))?;
            // Of two clusters that do this at once, one at least sees the other.
            self.validate_other_clusters(&record.host_ports)
        };
        if let Err(err) = connect() {
            self.undo(&link_name(&sandbox), before, old.is_none());
            if old.is_none() {
                self.leave_gate(&sandbox, &record);
            }
            return Err(err);
        }
        self.namespaces.insert(sandbox, namespace);
        Ok(addresses)
    }

    fn families(&self) -> Vec<Family> {
        self.ranges.iter().map(PodRange::family).collect()
    }

    /// Makes the pod's link and all that is on it. What is right already stays; nothing else is
    /// looked at.
    fn connect(
        &mut self,
        sandbox: &SandboxId,
        record: &Record,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), kernel::Error> {
        let link = link_name(sandbox);
        let desired = self.desired_of(sandbox, record).of_link(&link);
        let LinkKind::Pod { end: Some(end) } = &desired.links[&link].kind else { return Ok(()) };
        let mut pod = PodNamespace::open(namespace)?;
        let actual = self.kernel.observe_pod(&link, end, &mut pod)?;
        if actual.links.contains_key(&link) {
            pod.set_up(end)?;
            self.kernel.harden_link(&link)?;
        }
        self.kernel.apply(&changes(&actual, &desired), Some(&mut pod))
    }

    /// What the back end wants if there is this pod alone.
    fn desired_of(&self, sandbox: &SandboxId, record: &Record) -> KernelState {
        let pods = BTreeMap::from([(sandbox.clone(), record.clone())]);
        self.backend.desired(&self.this_node(pods), &[])
    }

    fn validate_other_clusters(&mut self, host_ports: &[HostPort]) -> Result<(), node_api::Error> {
        match self.kernel.host_port_of_others(host_ports)? {
            None => Ok(()),
            Some((port, cluster)) => Err(host_ports::taken(port, format!("cluster {cluster}"))),
        }
    }

    /// One of each range.
    fn next_addresses(&mut self) -> Result<Vec<IpAddr>, node_api::Error> {
        let records = self.records.sandboxes.values();
        let used: BTreeSet<_> = records.flat_map(|it| it.addresses.iter().copied()).collect();
        let next = |range: &PodRange| {
            let last = self.records.last(range.family());
            addresses::next_free(range.node, last, &used).ok_or_else(|| {
                node_api::Error::AddressesExhausted { range: range.node.to_string() }
            })
        };
        let addresses: Vec<_> = self.ranges.iter().map(next).collect::<Result<_, _>>()?;
        addresses.iter().for_each(|it| self.records.set_last(*it));
        Ok(addresses)
    }

    /// After a failure: nothing of a new sandbox stays, and one that was there is as it was.
    fn undo(&mut self, link: &str, before: Records, was_new: bool) {
        // The address that failed is not the next one to be tried.
        let last = std::mem::take(&mut self.records.last);
        self.records = Records { last, ..before };
        let mut errors = Vec::new();
        if was_new {
            errors.extend(self.delete_link(link).err().map(node_api::Error::from));
        }
        errors.extend(self.converge_tables().err());
        errors.extend(self.directory.save(&self.records).err());
        for err in errors {
            tracing::warn!(link, error = error_chain(&err), "could not undo a failed attachment");
        }
    }

    /// What the gate holds of a pod that is gone harms nobody.
    fn leave_gate(&self, sandbox: &SandboxId, record: &Record) {
        if let Some(Err(err)) = self.gate.as_ref().map(|it| it.detach(sandbox, &record.pod)) {
            let error = error_chain(&err);
            tracing::warn!(pod = %record.pod, error, "could not forget the policies of a pod");
        }
    }

    fn delete_link(&mut self, link: &str) -> Result<(), kernel::Error> {
        self.kernel.apply([&Change::DeleteLink { link: link.to_owned() }], None)
    }

    /// Returns what removes the link.
    fn begin_detach(
        &mut self,
        sandbox: &SandboxId,
    ) -> impl FnOnce(&str) -> Result<(), kernel::Error> + use<> {
        self.leaving.insert(sandbox.clone());
        self.kernel.link_remover()
    }

    fn end_detach(
        &mut self,
        sandbox: &SandboxId,
        removed: Result<(), kernel::Error>,
    ) -> Result<(), node_api::Error> {
        let disconnected = removed.map_err(node_api::Error::from);
        let disconnected = disconnected.and_then(|()| self.disconnect(sandbox));
        self.leaving.remove(sandbox);
        if disconnected? { self.directory.save(&self.records) } else { Ok(()) }
    }

    fn keep_only(
        &mut self,
        sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>,
    ) -> Result<(), node_api::Error> {
        let known = self.records.sandboxes.keys();
        let strangers: Vec<_> = known.filter(|it| !sandboxes.contains_key(*it)).cloned().collect();
        self.namespaces = sandboxes;
        let result = strangers.iter().try_for_each(|it| self.disconnect(it).map(drop));
        if !strangers.is_empty() {
            self.directory.save(&self.records)?;
        }
        result?;
        // Links that no record knows go, too, and those that are gone come back.
        self.converge()
    }

    /// Detaches without writing it down. The namespace and the link may be gone. Says whether the
    /// sandbox was known.
    fn disconnect(&mut self, sandbox: &SandboxId) -> Result<bool, node_api::Error> {
        self.delete_link(&link_name(sandbox))?;
        let Some(record) = self.records.sandboxes.remove(sandbox) else { return Ok(false) };
        if let Err(err) = self.change_pod(Some(&record), None) {
            // The address stays taken until somebody tries again.
            self.records.sandboxes.insert(sandbox.clone(), record);
            return Err(err);
        }
        self.leave_gate(sandbox, &record);
        self.namespaces.remove(sandbox);
        self.of_pods.remove(sandbox);
        self.status.send_if_modified(|it| it.losses.remove(sandbox).is_some());
        Ok(true)
    }

    /// Makes these changes of one pod. One whose sandbox ends just now needs none that take its
    /// namespace, and so none at all.
    pub(crate) fn change_link(
        &mut self,
        sandbox: &SandboxId,
        changes: &[Change],
    ) -> Result<(), kernel::Error> {
        let is_in_pod = |it: &Change| matches!(it, Change::Connect { .. } | Change::SetMtu { .. });
        if !changes.iter().any(is_in_pod) {
            return self.kernel.apply(changes, None);
        }
        let namespace = self.namespaces.get(sandbox).map(|it| it.open()).transpose();
        match namespace.map_err(kernel::Error::OpenNamespace)?.flatten() {
            Some(namespace) => {
                let mut pod = PodNamespace::open(namespace.as_fd())?;
                self.kernel.apply(changes, Some(&mut pod))
            }
            None => Ok(()),
        }
    }

    /// Changes what the rules know of one pod. If that is refused, somebody else changed the table:
    /// then all of it is put right.
    fn change_pod(
        &mut self,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), node_api::Error> {
        let in_table = |it: Family| (it, table::pod_changes(before, after, it));
        let changes: Vec<_> = self.families().into_iter().map(in_table).collect();
        if changes.iter().all(|(_, changes)| changes.is_empty()) {
            return Ok(());
        }
        let mut of_tables = changes.iter();
        if of_tables.try_for_each(|(it, changes)| self.kernel.apply_to_table(*it, changes)).is_err()
        {
            self.converge()?;
        }
        for pod in before.into_iter().chain(after) {
            self.kernel.forget_flows(pod)?;
        }
        Ok(())
    }
}

/// What was heard before this start, and holds until it is heard again.
fn routes_that_are_there(kernel: &mut Kernel) -> Result<Heard, node_api::Error> {
    let found = kernel.observe(&[])?.state.routes;
    let by_gateway = found.into_iter().filter_map(|it| match it.next {
        Next::Gateway(gateway) => Some((it.destination, gateway)),
        Next::Link { .. } | Next::Onlink { .. } | Next::Nowhere => None,
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

fn warn_of_dropping_chains() {
    match forwarding::dropping_chains() {
        Ok(chains) if chains.is_empty() => {}
        Ok(chains) => tracing::warn!(
            ?chains,
            "these chains of other programs drop forwarded packets: pods may reach neither each other nor the world \
             until rules there accept packets from and to the pod network"
        ),
        Err(err) => {
            let error = error_chain(&err);
            tracing::warn!(error, "could not look for rules that drop forwarded packets");
        }
    }
}
