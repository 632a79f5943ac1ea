//! From whatever is in the kernel to what should be: at a start, when a change is refused, and when somebody has broken something.
//!
//! What is found broken is told ([`Status`]) before it is mended. What pods share is mended first; a pod that cannot be mended
//! keeps nobody else from it.

use std::collections::{BTreeMap, BTreeSet};

use node_api::network::{Loss, Status};
use node_api::{Error, SandboxId};
use stdx::error_chain;
use tokio::time::Instant;

use crate::kernel_state::{Bridge, Change, KernelState, PodLink, changes};
use crate::network::{Purpose, State, link_name};
use crate::patience::Patience;
use crate::records::Record;
use crate::table;

/// Without it the kernel does not pass packets on between pods, nor between pods and the world.
pub(crate) const FORWARDING: &str = "net/ipv4/ip_forward";

/// What differs, by whose it is.
#[derive(Default)]
struct Damage {
    shared: Vec<Change>,
    of_pods: BTreeMap<SandboxId, Vec<Change>>,
    has_other_rules: bool,
}

impl Damage {
    fn is_none(&self) -> bool {
        self.shared.is_empty() && self.of_pods.is_empty() && !self.has_other_rules
    }

    fn has_shared(&self) -> bool {
        !self.shared.is_empty() || self.has_other_rules
    }

    fn fault(&self) -> Option<String> {
        let mut faults: Vec<String> = self.shared.iter().filter_map(Change::fault).collect();
        if self.has_other_rules {
            faults.push("somebody changed its rules".to_owned());
        }
        (!faults.is_empty()).then(|| faults.join(", "))
    }
}

impl State {
    /// Mends everything now.
    pub(crate) fn converge(&mut self) -> Result<(), Error> {
        if self.purpose == Purpose::Purge {
            return Ok(());
        }
        let damage = self.examine()?;
        self.tell(&damage);
        self.mend_shared(&damage)?;
        for (sandbox, changes) in &damage.of_pods {
            self.mend_pod(sandbox, changes);
        }
        for sandbox in self.records.sandboxes.keys() {
            self.kernel.harden(&link_name(sandbox))?;
        }
        Ok(())
    }

    pub(crate) fn converge_table(&mut self) -> Result<(), Error> {
        if self.purpose == Purpose::Purge {
            return Ok(());
        }
        let table = table::table(&self.settings, self.records.sandboxes.values());
        self.kernel.converge_table_ipv6(&table::table_ipv6(&self.settings))?;
        self.kernel.converge_table(&table)?;
        Ok(())
    }

    /// Mends what is broken, unless it was mended just now: then it waits. Says until when.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Instant> {
        match self.try_look(now) {
            Ok(due) => due,
            Err(err) => {
                let fault = error_chain(&err);
                tracing::warn!(fault, "the pod network is broken");
                self.status.send_modify(|it| it.fault = Some(fault));
                if self.shared.due(now).is_none() {
                    self.shared.try_now(now);
                }
                self.shared.due(now)
            }
        }
    }

    fn try_look(&mut self, now: Instant) -> Result<Option<Instant>, Error> {
        let damage = self.examine()?;
        self.tell(&damage);
        if damage.is_none() {
            return Ok(None);
        }
        let mut dues = Vec::new();
        if damage.has_shared() {
            match self.shared.due(now) {
                Some(due) => dues.push(due),
                None => {
                    self.shared.try_now(now);
                    let fault = damage.fault().unwrap_or_default();
                    tracing::warn!(fault, "somebody changed the pod network; mending it");
                    self.mend_shared(&damage)?;
                }
            }
        }
        for (sandbox, changes) in &damage.of_pods {
            let patience = self.of_pods.entry(sandbox.clone()).or_default();
            match patience.due(now) {
                Some(due) => dues.push(due),
                None => {
                    patience.try_now(now);
                    // If it cannot be mended it is tried again, whether something is told or not.
                    dues.extend(patience.due(now));
                    self.mend_pod(sandbox, changes);
                }
            }
        }
        Ok(dues.into_iter().min())
    }

    fn examine(&mut self) -> Result<Damage, Error> {
        self.kernel.check_bridge()?;
        let actual = self.kernel.observe(&[FORWARDING])?;
        let desired = self.desired();
        self.remember_settings(&actual, &desired)?;
        let owners: BTreeMap<_, _> =
            self.records.sandboxes.keys().map(|it| (link_name(it), it.clone())).collect();
        let mut damage = Damage::default();
        for change in changes(&actual, &desired) {
            match change.link().and_then(|it| owners.get(it)) {
                None => damage.shared.push(change),
                Some(sandbox) if !self.is_of_the_living(sandbox, &change) => {}
                Some(sandbox) => damage.of_pods.entry(sandbox.clone()).or_default().push(change),
            }
        }
        let table = table::table(&self.settings, self.records.sandboxes.values());
        let table_ipv6 = table::table_ipv6(&self.settings);
        damage.has_other_rules = self.kernel.has_other_rules(&table, &table_ipv6)?;
        Ok(damage)
    }

    /// A link that goes with its sandbox is no loss. Where the namespace is not known yet, after a start, nothing can be
    /// made in it.
    fn is_of_the_living(&self, sandbox: &SandboxId, change: &Change) -> bool {
        if self.leaving.contains(sandbox) {
            return false;
        }
        match self.namespaces.get(sandbox) {
            Some(namespace) => !matches!(namespace.open(), Ok(None)),
            None => !matches!(change, Change::Reconnect { .. }),
        }
    }

    /// What is broken, and what is not any more.
    fn tell(&self, damage: &Damage) {
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.fault = damage.fault();
            for (sandbox, changes) in &damage.of_pods {
                let Some(record) = self.records.sandboxes.get(sandbox) else { continue };
                if let Some(what) = changes.iter().find_map(Change::fault) {
                    note(status, sandbox, record, what);
                }
            }
            for (sandbox, loss) in &mut status.losses {
                loss.is_mended |= !damage.of_pods.contains_key(sandbox);
                let is_worn_out = self.of_pods.get(sandbox).is_some_and(Patience::is_worn_out);
                loss.is_pods_own = is_worn_out || (loss.is_pods_own && !loss.is_mended);
            }
            *status != before
        });
    }

    fn mend_shared(&mut self, damage: &Damage) -> Result<(), Error> {
        for change in &damage.shared {
            tracing::debug!(?change, "pod network");
            self.kernel.apply(change)?;
        }
        self.kernel.harden_bridge()?;
        if damage.has_other_rules {
            self.converge_table()?;
        }
        self.status.send_if_modified(|it| it.fault.take().is_some());
        Ok(())
    }

    fn mend_pod(&mut self, sandbox: &SandboxId, changes: &[Change]) {
        let result = changes.iter().try_for_each(|it| match it {
            Change::Reconnect { link, address } => self.reconnect(sandbox, link, *address),
            other => self.kernel.apply(other),
        });
        let Some(record) = self.records.sandboxes.get(sandbox) else { return };
        let pod = &record.pod;
        match &result {
            Ok(()) => tracing::info!(%pod, "connected the pod to its network again"),
            Err(err) => {
                tracing::warn!(%pod, error = error_chain(err), "the pod has no network");
            }
        }
        self.status.send_if_modified(|status| {
            let Some(loss) = status.losses.get_mut(sandbox) else { return false };
            let before = loss.clone();
            match &result {
                Ok(()) => loss.is_mended = true,
                Err(err) => {
                    loss.what = error_chain(err);
                    loss.is_pods_own |= err.is_in_pod();
                }
            }
            *loss != before
        });
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
    ) -> Result<(), Error> {
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
}

/// Counts a loss that is new; of one that goes on, the first words stay.
fn note(status: &mut Status, sandbox: &SandboxId, record: &Record, what: String) {
    let loss = status.losses.entry(sandbox.clone()).or_insert_with(|| Loss {
        pod: record.pod.clone(),
        what: String::new(),
        times: 0,
        is_mended: true,
        is_pods_own: false,
    });
    if loss.is_mended {
        (loss.what, loss.is_mended) = (what, false);
        loss.times = loss.times.saturating_add(1);
    }
}
