//! The pod network as the sandboxes see it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifecycle::Tasks;
use node_api::network::{Attachment, HostPort, Namespace, Status};
use node_api::{Future, PodNetwork, SandboxId};
use stdx::error_chain;
use tokio::sync::watch;

use crate::inherited::Inherited;
use crate::kernel::{self, Kernel};
use crate::kernel_state::{Change, KernelState, changes};
use crate::mending::FORWARDING;
use crate::patience::Patience;
use crate::range::Range;
use crate::records::{Directory, Record, Records};
use crate::table::{self, Settings};
use crate::{Config, follow, forwarding, host_ports};

/// Implements [`PodNetwork`].
pub struct Network {
    gateway: Ipv4Addr,
    state: Arc<Mutex<State>>,
    status: watch::Sender<Status>,
}

/// Changed by one call at a time, on a thread that may block.
pub(crate) struct State {
    pub(crate) range: Range,
    pub(crate) settings: Settings,
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
        let (gateway, status) = (state.range.gateway(), state.status.clone());
        Self { gateway, state: Arc::new(Mutex::new(state)), status }
    }

    /// From now on whatever others break is mended as soon as the kernel tells of it.
    pub fn follow(&self, tasks: &Tasks) -> Result<(), node_api::Error> {
        follow::spawn(tasks, &self.state)
    }

    /// The bridge's address: pods' gateway, and where the node listens for them.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
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
        self.run(move |state| lock(state).attach(attachment).map(|address| vec![address.into()]))
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
        let (network, prefix_length) = (config.pod_network, config.prefix_length);
        let range = Range::of_pods(network, prefix_length).ok_or_else(|| {
            node_api::Error::Refused(format!(
                "pod network {network}/{prefix_length} must be between /8 and /30"
            ))
        })?;
        let cluster = Range::new(config.cluster_network, config.cluster_prefix_length);
        let mut kernel = Kernel::open(&config, range.gateway())?;
        if purpose == Purpose::Serve {
            kernel.validate_bridge()?;
        }
        let directory = Directory::new(config.directory, &Kernel::boot()?);
        let mut records = directory.load()?;
        let inherited = Inherited::here(&config.settings)?;
        if records.settings_before.is_empty() && !kernel.other_clusters()?.is_empty() {
            records.settings_before = inherited.load();
        }
        let settings = Settings { pods: range, cluster, group: config.cluster.link_group() };
        Ok(Self {
            range,
            settings,
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
        })
    }

    fn attach(&mut self, attachment: Attachment) -> Result<Ipv4Addr, node_api::Error> {
        let Attachment { pod, sandbox, namespace, host_ports } = attachment;
        host_ports::validate(&sandbox, &host_ports, &self.records)?;
        self.validate_other_clusters(&host_ports)?;
        let opening = |err| node_api::Error::node("open the sandbox's network namespace", err);
        let opened = namespace
            .open()
            .map_err(opening)?
            .ok_or_else(|| node_api::Error::Refused(format!("sandbox {sandbox} has ended")))?;
        let before = self.records.clone();
        let address = match before.sandboxes.get(&sandbox) {
            Some(record) => record.address,
            None => self.next_address()?,
        };
        let record = Record { pod, address, host_ports };
        let old = self.records.sandboxes.insert(sandbox.clone(), record.clone());
        let link = link_name(&sandbox);
        let mut connect = || {
            if self.records != before {
                self.directory.save(&self.records)?;
            }
            self.kernel.connect(&link, opened.as_fd(), address)?;
            self.change_pod(old.as_ref(), Some(&record))?;
            // Of two clusters that do this at once, one at least sees the other.
            self.validate_other_clusters(&record.host_ports)
        };
        if let Err(err) = connect() {
            self.undo(&link, before, old.is_none());
            return Err(err);
        }
        self.namespaces.insert(sandbox, namespace);
        Ok(address)
    }

    fn validate_other_clusters(&mut self, host_ports: &[HostPort]) -> Result<(), node_api::Error> {
        match self.kernel.host_port_of_others(host_ports)? {
            None => Ok(()),
            Some((port, cluster)) => Err(host_ports::taken(port, format!("cluster {cluster}"))),
        }
    }

    fn next_address(&mut self) -> Result<Ipv4Addr, node_api::Error> {
        let used: BTreeSet<_> = self.records.sandboxes.values().map(|it| it.address).collect();
        let range = self.range;
        let address = range
            .next_free(self.records.last, |it| used.contains(&it))
            .ok_or_else(|| node_api::Error::AddressesExhausted { range: range.to_string() })?;
        self.records.last = Some(address);
        Ok(address)
    }

    /// After a failure: nothing of a new sandbox stays, and one that was there is as it was.
    fn undo(&mut self, link: &str, before: Records, was_new: bool) {
        // The address that failed is not the next one to be tried.
        let last = self.records.last;
        self.records = Records { last, ..before };
        let mut errors = Vec::new();
        if was_new {
            let delete = Change::DeleteLink(link.to_owned());
            errors.extend(self.kernel.apply(&delete).err().map(node_api::Error::from));
        }
        errors.extend(self.converge_table().err());
        errors.extend(self.directory.save(&self.records).err());
        for err in errors {
            tracing::warn!(link, error = error_chain(&err), "could not undo a failed attachment");
        }
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
        self.kernel.apply(&Change::DeleteLink(link_name(sandbox)))?;
        let Some(record) = self.records.sandboxes.remove(sandbox) else { return Ok(false) };
        if let Err(err) = self.change_pod(Some(&record), None) {
            // The address stays taken until somebody tries again.
            self.records.sandboxes.insert(sandbox.clone(), record);
            return Err(err);
        }
        self.namespaces.remove(sandbox);
        self.of_pods.remove(sandbox);
        self.status.send_if_modified(|it| it.losses.remove(sandbox).is_some());
        Ok(true)
    }

    /// Makes the link anew. One whose sandbox ends just now needs none.
    pub(crate) fn reconnect(
        &mut self,
        sandbox: &SandboxId,
        link: &str,
        address: Ipv4Addr,
    ) -> Result<(), kernel::Error> {
        let namespace = self.namespaces.get(sandbox).map(|it| it.open()).transpose();
        match namespace.map_err(kernel::Error::OpenNamespace)?.flatten() {
            Some(namespace) => self.kernel.connect(link, namespace.as_fd(), address),
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
        let changes = table::pod_changes(before, after);
        if changes.is_empty() {
            return Ok(());
        }
        if self.kernel.apply_to_table(&changes).is_err() {
            self.converge()?;
        }
        for pod in before.into_iter().chain(after) {
            self.kernel.forget_flows(pod)?;
        }
        Ok(())
    }

    fn purge(&mut self) -> Vec<node_api::Error> {
        let mut errors = Vec::new();
        let others = self.kernel.other_clusters().unwrap_or_else(|err| {
            errors.push(err.into());
            Vec::new()
        });
        // What pods of another cluster live by stays; it is theirs to put back, and they know what
        // was before.
        let settings = match others.is_empty() {
            true => self.records.settings_before.clone(),
            false => BTreeMap::new(),
        };
        if others.is_empty() {
            errors.extend(self.inherited.remove().err());
        }
        let desired = KernelState { settings, ..KernelState::default() };
        match self.kernel.observe(&[FORWARDING]) {
            Ok(actual) => {
                for change in changes(&actual, &desired) {
                    errors.extend(self.kernel.apply(&change).err().map(node_api::Error::from));
                }
            }
            Err(err) => errors.push(err.into()),
        }
        errors.extend(self.kernel.purge_table().err().map(node_api::Error::from));
        self.records = Records::default();
        errors.extend(self.directory.remove().err());
        errors
    }
}

/// `veth` and eleven hexadecimal digits: fifteen characters are the most that the kernel takes. The
/// digits are of FNV-1a, which is the same in every version of this program.
pub(crate) fn link_name(sandbox: &SandboxId) -> String {
    let digest = sandbox.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("veth{:011x}", digest >> 20)
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
