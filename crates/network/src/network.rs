//! The pod network as the sandboxes see it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node_api::network::Attachment;
use node_api::{Future, PodNetwork, SandboxId};
use stdx::error_chain;

use crate::kernel::Kernel;
use crate::kernel_state::{Bridge, Change, KernelState, PodLink, changes};
use crate::range::Range;
use crate::records::{Directory, Record, Records};
use crate::table::{self, Settings};
use crate::{Config, forwarding, host_ports, kernel};

/// Without it the kernel does not pass packets on between pods, nor between pods and the world.
const FORWARDING: &str = "net/ipv4/ip_forward";

/// Implements [`PodNetwork`].
pub struct Network {
    gateway: Ipv4Addr,
    state: Arc<Mutex<State>>,
}

/// Changed by one call at a time, on a thread that may block.
struct State {
    range: Range,
    settings: Settings,
    directory: Directory,
    kernel: Kernel,
    /// What the file says.
    records: Records,
}

impl Network {
    /// Makes the bridge and the rules, or corrects them. Works in the network namespace of the calling thread, then and later.
    pub fn open(config: Config) -> Result<Self, node_api::Error> {
        let (network, prefix_length) = (config.pod_network, config.prefix_length);
        let range = Range::of_pods(network, prefix_length).ok_or_else(|| {
            node_api::Error::Refused(format!(
                "pod network {network}/{prefix_length} must be between /8 and /30"
            ))
        })?;
        let cluster = Range::new(config.cluster_network, config.cluster_prefix_length);
        let gateway = range.gateway();
        let directory = Directory::new(config.directory, &Kernel::boot()?);
        let records = directory.load()?;
        let mut state = State {
            range,
            settings: Settings { pods: range, cluster, group: config.cluster.link_group() },
            directory,
            kernel: Kernel::open(config.cluster, &config.bridge, gateway, config.mtu)?,
            records,
        };
        state.converge()?;
        warn_of_dropping_chains();
        Ok(Self { gateway, state: Arc::new(Mutex::new(state)) })
    }

    /// The bridge's address: pods' gateway, and where the node listens for them.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }

    /// Removes the bridge, the pods' links, the rules and the files, and puts back the kernel settings that were changed. Goes on
    /// after an error, and returns all of them.
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
            let namespace = lock(state).kernel.namespace();
            kernel::delete_link(&namespace, &link_name(&sandbox))?;
            lock(state).detach(&sandbox)
        })
    }

    fn keep_only(&self, sandboxes: Vec<SandboxId>) -> Future<'_, ()> {
        self.run(move |state| lock(state).keep_only(&sandboxes.into_iter().collect()))
    }
}

/// A panic leaves nothing half-changed that the next call would not correct: the file and the kernel are what counts.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn attach(&mut self, attachment: Attachment) -> Result<Ipv4Addr, node_api::Error> {
        let Attachment { pod, sandbox, namespace, host_ports } = attachment;
        host_ports::check(&sandbox, &host_ports, &self.records)?;
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
            self.kernel.connect(&link, &namespace, address)?;
            self.change_pod(old.as_ref(), Some(&record))
        };
        if let Err(err) = connect() {
            self.undo(&link, before, old.is_none());
            return Err(err);
        }
        Ok(address)
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

    fn detach(&mut self, sandbox: &SandboxId) -> Result<(), node_api::Error> {
        if self.disconnect(sandbox)? { self.directory.save(&self.records) } else { Ok(()) }
    }

    fn keep_only(&mut self, sandboxes: &BTreeSet<SandboxId>) -> Result<(), node_api::Error> {
        let strangers: Vec<_> =
            self.records.sandboxes.keys().filter(|it| !sandboxes.contains(*it)).cloned().collect();
        let result = strangers.iter().try_for_each(|it| self.disconnect(it).map(drop));
        if !strangers.is_empty() {
            self.directory.save(&self.records)?;
        }
        result?;
        // Links that no record knows, too.
        self.converge()
    }

    /// Detaches without writing it down. The namespace and the link may be gone. Says whether the sandbox was known.
    fn disconnect(&mut self, sandbox: &SandboxId) -> Result<bool, node_api::Error> {
        self.kernel.apply(&Change::DeleteLink(link_name(sandbox)))?;
        let Some(record) = self.records.sandboxes.remove(sandbox) else { return Ok(false) };
        if let Err(err) = self.change_pod(Some(&record), None) {
            // The address stays taken until somebody tries again.
            self.records.sandboxes.insert(sandbox.clone(), record);
            return Err(err);
        }
        Ok(true)
    }

    /// Changes what the rules know of one pod. If that is refused, somebody else changed the table: then all of it is put right.
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

    /// From whatever is in the kernel to what should be.
    fn converge(&mut self) -> Result<(), node_api::Error> {
        let actual = self.kernel.observe(&[FORWARDING])?;
        let desired = self.desired();
        self.remember_settings(&actual, &desired)?;
        for change in changes(&actual, &desired) {
            tracing::debug!(?change, "pod network");
            self.kernel.apply(&change)?;
        }
        self.kernel.harden_bridge()?;
        for sandbox in self.records.sandboxes.keys() {
            self.kernel.harden(&link_name(sandbox))?;
        }
        self.converge_table()
    }

    fn converge_table(&mut self) -> Result<(), node_api::Error> {
        let table = table::table(&self.settings, self.records.sandboxes.values());
        self.kernel.converge_table_ipv6(&table::table_ipv6(&self.settings))?;
        self.kernel.converge_table(&table)?;
        Ok(())
    }

    fn desired(&self) -> KernelState {
        let addresses = BTreeSet::from([(self.range.gateway(), 32)]);
        let link =
            |record: &Record| PodLink { is_up: true, routes: BTreeSet::from([record.address]) };
        let links = self.records.sandboxes.iter();
        KernelState {
            bridge: Some(Bridge { is_up: true, addresses }),
            links: links.map(|(id, record)| (link_name(id), link(record))).collect(),
            unreachable: BTreeSet::from([self.range]),
            settings: BTreeMap::from([(FORWARDING.to_owned(), "1".to_owned())]),
        }
    }

    /// Before a setting is changed for the first time, what it was is written down.
    fn remember_settings(
        &mut self,
        actual: &KernelState,
        desired: &KernelState,
    ) -> Result<(), node_api::Error> {
        let mut is_new = false;
        for (name, value) in &desired.settings {
            let before = actual.settings.get(name).filter(|it| *it != value);
            if let Some(before) =
                before.filter(|_| !self.records.settings_before.contains_key(name))
            {
                self.records.settings_before.insert(name.clone(), before.clone());
                is_new = true;
            }
        }
        if is_new { self.directory.save(&self.records) } else { Ok(()) }
    }

    fn purge(&mut self) -> Vec<node_api::Error> {
        let settings = self.records.settings_before.clone();
        let desired = KernelState { settings, ..KernelState::default() };
        let mut errors = Vec::new();
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

/// `veth` and eleven hexadecimal digits: fifteen characters are the most that the kernel takes. The digits are of FNV-1a, which
/// is the same in every version of this program.
fn link_name(sandbox: &SandboxId) -> String {
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
