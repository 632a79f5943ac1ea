//! From whatever is in the kernel to what should be: at a start, when a change is refused, and when
//! somebody has broken something.
//!
//! What pods share is mended first; a pod that cannot be mended keeps nobody else from it. What
//! could be mended at once is told as a loss that is over ([`Status`]): the node is not said to
//! have no network for the blink of an eye, which would take its pods out of their Services.

use std::collections::BTreeMap;

use node_api::network::{Loss, Status};
use node_api::{Error, SandboxId};
use stdx::error_chain;
use tokio::time::Instant;

use crate::kernel::{self, Observed};
use crate::kernel_state::{Change, KernelState, changes};
use crate::network::{Purpose, State};
use crate::node::Surroundings;
use crate::node_itself::ACCEPT_ADVERTISEMENTS;
use crate::overlaps::overlaps;
use crate::paths;
use crate::records::Record;

/// What differs, by whose it is.
#[derive(Default)]
struct Damage {
    shared: Vec<Change>,
    of_pods: BTreeMap<SandboxId, Vec<Change>>,
    has_other_rules: bool,
}

impl Damage {
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

/// What came of mending one pod.
enum Outcome {
    Mended,
    /// It broke again right after it was mended: not now.
    Waits,
    Failed(kernel::Error),
}

impl State {
    /// Mends everything, however often it was mended before.
    pub(crate) fn converge(&mut self) -> Result<(), Error> {
        if self.purpose == Purpose::Purge {
            return Ok(());
        }
        self.mend(None)?;
        for (sandbox, record) in &self.records.sandboxes {
            self.kernel.harden_link(&record.link(sandbox))?;
        }
        Ok(())
    }

    pub(crate) fn converge_tables(&mut self) -> Result<(), Error> {
        if self.purpose == Purpose::Purge {
            return Ok(());
        }
        let desired = self.desired();
        Ok(self.kernel.converge_tables(&desired.tables)?)
    }

    /// Mends what is broken, unless it was mended just now: then it waits. Says until when.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Instant> {
        match self.mend(Some(now)) {
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

    /// Without a time, whatever was mended when.
    fn mend(&mut self, now: Option<Instant>) -> Result<Option<Instant>, Error> {
        let outcome = self.mend_all(now);
        self.tell_left_out();
        self.tell_targets();
        self.tell_published();
        outcome
    }

    fn mend_all(&mut self, now: Option<Instant>) -> Result<Option<Instant>, Error> {
        let mut damage = self.examine()?;
        let mut dues = Vec::new();
        let mut fault = None;
        if damage.has_shared() {
            match now.and_then(|now| self.shared.due(now)) {
                Some(due) => {
                    dues.push(due);
                    fault = damage.fault();
                }
                None => {
                    if let Some(now) = now {
                        let fault = damage.fault();
                        tracing::warn!(fault, "somebody changed the pod network; mending it");
                        self.shared.try_now(now);
                    }
                    damage = self.mend_shared(damage)?;
                }
            }
        }
        let mut outcomes = BTreeMap::new();
        for (sandbox, changes) in &damage.of_pods {
            let outcome = self.mend_pod(sandbox, changes, now);
            if !matches!(outcome, Outcome::Mended) {
                let patience = self.of_pods.get(sandbox);
                dues.extend(now.and_then(|now| patience?.due(now)));
            }
            outcomes.insert(sandbox.clone(), outcome);
        }
        self.tell(fault, &damage, &outcomes);
        Ok(dues.into_iter().min())
    }

    fn examine(&mut self) -> Result<Damage, Error> {
        self.kernel.validate_bridge()?;
        let observed = self.look_around()?;
        if self.knows_peers {
            self.tell_speaker();
        }
        let mut actual = observed.state;
        let mut desired = match self.knows_peers {
            true => self.desired(),
            false => self.desired().with_ways_of(&actual),
        };
        actual.settings = self.kernel.settings(desired.settings.keys())?;
        // Where it was told not to listen, somebody else does; and links may be gone.
        desired.settings.retain(|name, _| {
            let listens = matches!(actual.settings.get(name).map(String::as_str), Some("1" | "2"));
            listens || !name.ends_with(ACCEPT_ADVERTISEMENTS)
        });
        self.remember_settings(&actual, &desired)?;
        let owners: BTreeMap<_, _> =
            self.records.sandboxes.iter().map(|(it, pod)| (pod.link(it), it.clone())).collect();
        let mut damage = Damage::default();
        for change in changes(&actual, &desired) {
            match change.link().and_then(|it| owners.get(it)) {
                None => damage.shared.push(change),
                Some(sandbox) => damage.of_pods.entry(sandbox.clone()).or_default().push(change),
            }
        }
        for (sandbox, changes) in &mut damage.of_pods {
            // Both ends change at once or not at all.
            let is_known = self.namespaces.contains_key(sandbox);
            changes.retain(|it| is_known || !matches!(it, Change::SetMtu { .. }));
        }
        damage.of_pods.retain(|sandbox, changes| {
            !changes.is_empty() && self.is_of_the_living(sandbox, changes)
        });
        damage.has_other_rules = self.kernel.has_other_rules(&desired.tables)?;
        Ok(damage)
    }

    /// With the links by which others reach this node, which follow from its addresses.
    fn look_around(&mut self) -> Result<Observed, Error> {
        let local = |state: &Self| state.place.addresses(&state.surroundings.addresses);
        let before = local(self);
        let mut observed = self.kernel.observe(&before)?;
        self.place.follow(&observed.surroundings.world);
        self.surroundings.addresses = observed.surroundings.addresses.clone();
        let now = local(self);
        if now != before {
            tracing::info!(?before, ?now, "where others find this node");
            observed = self.kernel.observe(&now)?;
        }
        let surroundings = std::mem::take(&mut observed.surroundings);
        self.surroundings = self.with_those_told(surroundings);
        Ok(observed)
    }

    /// A link that goes with its sandbox is no loss. Where the namespace is not known yet, after a
    /// start, nothing can be made in it.
    fn is_of_the_living(&self, sandbox: &SandboxId, changes: &[Change]) -> bool {
        if self.leaving.contains(sandbox) {
            return false;
        }
        match self.namespaces.get(sandbox) {
            Some(namespace) => !matches!(namespace.open(), Ok(None)),
            None => !changes.iter().any(|it| matches!(it, Change::Connect { .. })),
        }
    }

    /// Whoever deletes the bridge takes its addresses first, and we may look in between: then the
    /// bridge that was to be mended goes under our hands, and what is broken now is mended instead.
    fn mend_shared(&mut self, damage: Damage) -> Result<Damage, Error> {
        let gone = match self.try_to_mend_shared(&damage) {
            Err(err) if err.is_missing_link() => err,
            result => return result.map(|()| damage).map_err(Error::from),
        };
        tracing::debug!(fault = error_chain(&gone), "looking at the pod network once more");
        let damage = self.examine()?;
        self.try_to_mend_shared(&damage)?;
        Ok(damage)
    }

    fn try_to_mend_shared(&mut self, damage: &Damage) -> Result<(), kernel::Error> {
        self.kernel.apply(&damage.shared, None)?;
        self.kernel.harden_bridge()?;
        self.keep_computing()?;
        if damage.has_other_rules {
            let desired = self.desired();
            self.kernel.converge_tables(&desired.tables)?;
        }
        Ok(())
    }

    fn mend_pod(
        &mut self,
        sandbox: &SandboxId,
        changes: &[Change],
        now: Option<Instant>,
    ) -> Outcome {
        if let Some(now) = now {
            let patience = self.of_pods.entry(sandbox.clone()).or_default();
            if patience.due(now).is_some() {
                return Outcome::Waits;
            }
            patience.try_now(now);
        }
        match self.change_link(sandbox, changes) {
            Ok(()) => Outcome::Mended,
            Err(err) => Outcome::Failed(err),
        }
    }

    /// What is still broken, what was lost and mended, and what is whole again.
    fn tell(
        &self,
        fault: Option<String>,
        damage: &Damage,
        outcomes: &BTreeMap<SandboxId, Outcome>,
    ) {
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.fault = fault;
            for (sandbox, outcome) in outcomes {
                let words = damage.of_pods.get(sandbox).into_iter().flatten();
                let what = words.filter_map(Change::fault).next();
                if let (Some(record), Some(what)) = (self.records.sandboxes.get(sandbox), what) {
                    note(status, sandbox, record, what, outcome);
                }
            }
            for (sandbox, loss) in &mut status.losses {
                if !outcomes.contains_key(sandbox) {
                    (loss.is_mended, loss.is_pods_own) = (true, false);
                }
            }
            *status != before
        });
    }

    fn desired(&self) -> KernelState {
        let node = self.this_node(self.records.sandboxes.clone());
        let (ways, _) = paths::admit(self.backend, &node, &self.peers);
        self.narrowed(self.backend.desired(&node, &ways))
    }

    /// Who is not named is reached: so this is told when the kernel was.
    fn tell_left_out(&self) {
        let node = self.this_node(BTreeMap::new());
        let (_, left_out) = paths::admit(self.backend, &node, &self.peers);
        if self.left_out.send_if_modified(|it| std::mem::replace(it, left_out.clone()) != left_out)
        {
            self.tell_changed();
        }
    }

    /// What others need to know of this node may follow from what is around it.
    fn tell_published(&mut self) {
        let published = self.published();
        let overlaps = overlaps(&self.ranges, &self.surroundings.networks, &self.name_servers);
        let before = (std::mem::replace(&mut self.said, published), &self.overlaps);
        if before != (self.said.clone(), &overlaps) {
            self.overlaps = overlaps;
            self.tell_changed();
        }
    }

    pub(crate) fn tell_changed(&self) {
        self.changed.send_modify(|it| *it += 1);
    }

    /// With links on which the machine listened to routers before we told it to listen still.
    fn with_those_told(&self, mut surroundings: Surroundings) -> Surroundings {
        let told = self.records.settings_before.keys().filter_map(|it| {
            let link = it.strip_suffix(ACCEPT_ADVERTISEMENTS)?;
            Some(link.rsplit_once('/')?.1.to_owned())
        });
        surroundings.advertised.extend(told);
        surroundings
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
        if !is_new {
            return Ok(());
        }
        self.inherited.save(&self.records.settings_before);
        self.directory.save(&self.records)
    }
}

/// Counts a loss that is new. What the node cannot help, and what somebody breaks again and again,
/// does not count against it.
fn note(
    status: &mut Status,
    sandbox: &SandboxId,
    record: &Record,
    what: String,
    outcome: &Outcome,
) {
    let pod = &record.pod;
    let loss = status.losses.entry(sandbox.clone()).or_insert_with(|| Loss {
        pod: pod.clone(),
        what: String::new(),
        times: 0,
        is_mended: true,
        is_pods_own: false,
    });
    if loss.is_mended {
        tracing::warn!(%pod, what, "the pod lost its network");
        loss.times = loss.times.saturating_add(1);
        loss.what = what;
    }
    loss.is_mended = matches!(outcome, Outcome::Mended);
    loss.is_pods_own = match outcome {
        Outcome::Mended => false,
        Outcome::Waits => true,
        Outcome::Failed(err) => {
            loss.what = error_chain(err);
            err.is_in_pod()
        }
    };
    if loss.is_mended {
        tracing::info!(%pod, "connected the pod to its network again");
    }
}
