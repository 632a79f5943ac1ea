//! What is known of sandboxes and containers, in memory, and who is told of changes.
//!
//! One lock, never held while waiting. Changes come from acknowledged requests and from holders, in
//! their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use node_api::containers::{Container, ContainerState};
use node_api::sandboxes::{Sandbox, SandboxConfig, SandboxState};
use node_api::{ContainerId, Error, Event, Events, PodRef, PodUid, SandboxId};
use tokio::sync::{broadcast, watch};

use super::link::Link;
use super::process::Process;
use super::recorded::Recorded;
use super::unreadable::{Kept, Unreadable};

/// A reader that is further behind is told [`Event::Missed`].
const EVENTS_MAX: usize = 1024;

pub(super) struct Book {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<SandboxId, SandboxEntry>,
    containers: BTreeMap<ContainerId, ContainerEntry>,
    /// Sandboxes that are being made, by pod and attempt.
    claims: BTreeSet<(PodUid, u32)>,
    unreadable: Vec<Kept>,
}

struct SandboxEntry {
    sandbox: Sandbox,
    holder: Holder,
}

/// What is known of a sandbox's holder.
#[derive(Clone)]
pub(super) enum Holder {
    /// Its process has ended.
    Gone,
    /// Its process lives; it was asked, and has not answered yet.
    Silent(Arc<Process>),
    Linked(Arc<Link>),
}

impl Holder {
    /// `None`: it is gone.
    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Gone => None,
            Self::Silent(process) => Some(process),
            Self::Linked(link) => Some(&link.process),
        }
    }

    fn is_silent(&self) -> bool {
        match self {
            Self::Gone => false,
            Self::Silent(_) => true,
            Self::Linked(link) => link.is_silent(),
        }
    }
}

struct ContainerEntry {
    sandbox: SandboxId,
    record: Recorded,
    state: watch::Sender<ContainerState>,
}

impl ContainerEntry {
    fn container(&self, id: &ContainerId) -> Container {
        Container {
            id: id.clone(),
            sandbox: self.sandbox.clone(),
            config: self.record.config.clone(),
            created: self.record.created,
            state: self.state.borrow().clone(),
        }
    }
}

/// A container with what its owner needs besides what everybody sees.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) sandbox: SandboxId,
    pub(super) record: Recorded,
    pub(super) state: watch::Receiver<ContainerState>,
}

/// The right to make one sandbox.
pub(super) struct Claim<'a> {
    book: &'a Book,
    key: (PodUid, u32),
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.book.state().claims.remove(&self.key);
    }
}

impl Default for Book {
    fn default() -> Self {
        Self { state: Mutex::default(), events: broadcast::Sender::new(EVENTS_MAX) }
    }
}

impl Book {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the holders that are silent now: who comes late must hear of them too.
    pub(super) fn events(&self) -> Events {
        let events = self.events.subscribe();
        let silent: Vec<Event> = {
            let state = self.state();
            let silent = state.sandboxes.values().filter(|it| it.holder.is_silent());
            silent.map(|it| silent_event(&it.sandbox)).collect()
        };
        let following = futures_util::stream::unfold(events, |mut events| async {
            match events.recv().await {
                Ok(event) => Some((event, events)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Event::Missed, events)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        });
        futures_util::stream::iter(silent).chain(following).boxed()
    }

    fn tell(&self, event: Event) {
        // Nobody listens: nobody needs to know.
        let _ = self.events.send(event);
    }

    /// One attempt of one pod has one sandbox.
    pub(super) fn claim(&self, config: &SandboxConfig) -> Result<Claim<'_>, Error> {
        let key = (config.pod.uid.clone(), config.attempt);
        let mut state = self.state();
        let exists = state
            .sandboxes
            .values()
            .any(|it| it.sandbox.config.pod.uid == key.0 && it.sandbox.config.attempt == key.1);
        if let Some(kept) = state.unreadable.iter().find(|it| it.is_sandbox_of(&key.0)) {
            let Unreadable { sandbox, why, .. } = &kept.report;
            return Err(Error::Refused(format!(
                "sandbox {sandbox} of this pod runs and cannot be read: {why}"
            )));
        }
        if exists || !state.claims.insert(key.clone()) {
            let (pod, attempt) = (&config.pod, config.attempt);
            return Err(Error::Refused(format!(
                "pod {pod} has a sandbox for attempt {attempt} already"
            )));
        }
        Ok(Claim { book: self, key })
    }

    pub(super) fn add_sandbox(&self, sandbox: Sandbox, holder: Holder) {
        self.state().sandboxes.insert(sandbox.id.clone(), SandboxEntry { sandbox, holder });
    }

    pub(super) fn forget_sandbox(&self, id: &SandboxId) {
        let mut state = self.state();
        state.sandboxes.remove(id);
        state.containers.retain(|_, it| it.sandbox != *id);
        state.unreadable.retain(|it| it.report.sandbox != *id);
    }

    pub(super) fn sandbox(&self, id: &SandboxId) -> Option<(Sandbox, Holder)> {
        self.state().sandboxes.get(id).map(|it| (it.sandbox.clone(), it.holder.clone()))
    }

    /// Of a sandbox that is not known it is gone.
    pub(super) fn holder(&self, id: &SandboxId) -> Holder {
        self.state().sandboxes.get(id).map_or(Holder::Gone, |it| it.holder.clone())
    }

    pub(super) fn add_unreadable(&self, kept: Kept) {
        self.state().unreadable.push(kept);
    }

    pub(super) fn unreadable(&self) -> Vec<Kept> {
        self.state().unreadable.clone()
    }

    pub(super) fn sandboxes(&self) -> Vec<Sandbox> {
        let state = self.state();
        let mut all: Vec<_> = state.sandboxes.values().map(|it| it.sandbox.clone()).collect();
        all.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        all
    }

    pub(super) fn set_holder(&self, id: &SandboxId, holder: Holder) {
        if let Some(entry) = self.state().sandboxes.get_mut(id) {
            entry.holder = holder;
        }
    }

    /// It was asked and does not answer.
    pub(super) fn tell_silent(&self, id: &SandboxId) {
        let event = self.state().sandboxes.get(id).map(|it| silent_event(&it.sandbox));
        event.into_iter().for_each(|it| self.tell(it));
    }

    /// Nothing of it runs any more.
    pub(super) fn sandbox_ended(&self, id: &SandboxId) {
        let pod = {
            let mut state = self.state();
            let Some(entry) = state.sandboxes.get_mut(id) else { return };
            entry.holder = Holder::Gone;
            if entry.sandbox.state == SandboxState::NotReady {
                return;
            }
            entry.sandbox.state = SandboxState::NotReady;
            entry.sandbox.config.pod.clone()
        };
        self.tell(Event::Sandbox { pod, sandbox: id.clone() });
    }

    pub(super) fn add_container(
        &self,
        id: ContainerId,
        sandbox: SandboxId,
        record: Recorded,
        state: ContainerState,
    ) {
        let entry = ContainerEntry { sandbox, record, state: watch::Sender::new(state) };
        self.state().containers.insert(id, entry);
    }

    pub(super) fn forget_container(&self, id: &ContainerId) {
        self.state().containers.remove(id);
    }

    pub(super) fn container(&self, id: &ContainerId) -> Option<Container> {
        self.state().containers.get(id).map(|it| it.container(id))
    }

    pub(super) fn containers(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        let state = self.state();
        let mut all: Vec<_> = state
            .containers
            .iter()
            .filter(|(_, it)| sandbox.is_none_or(|sandbox| it.sandbox == *sandbox))
            .map(|(id, it)| it.container(id))
            .collect();
        all.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        all
    }

    pub(super) fn known(&self, id: &ContainerId) -> Option<Known> {
        let state = self.state();
        let entry = state.containers.get(id)?;
        Some(Known {
            sandbox: entry.sandbox.clone(),
            record: entry.record.clone(),
            state: entry.state.subscribe(),
        })
    }

    pub(super) fn update_record(&self, id: &ContainerId, record: Recorded) {
        if let Some(entry) = self.state().containers.get_mut(id) {
            entry.record = record;
        }
    }

    /// An exit is final. Tells everybody if something changed.
    pub(super) fn set_container_state(&self, id: &ContainerId, new: ContainerState) {
        let changed = {
            let state = self.state();
            let Some(entry) = state.containers.get(id) else { return };
            let changed = entry.state.send_if_modified(|it| {
                let is_final = matches!(it, ContainerState::Exited(_));
                let changes = !is_final && *it != new;
                if changes {
                    *it = new;
                }
                changes
            });
            changed.then(|| (pod_of(&state, &entry.sandbox), entry.sandbox.clone()))
        };
        if let Some((Some(pod), sandbox)) = changed {
            self.tell(Event::Container { pod, sandbox, container: id.clone() });
        }
    }
}

fn pod_of(state: &State, sandbox: &SandboxId) -> Option<PodRef> {
    state.sandboxes.get(sandbox).map(|it| it.sandbox.config.pod.clone())
}

fn silent_event(sandbox: &Sandbox) -> Event {
    Event::Silent { pod: sandbox.config.pod.clone(), sandbox: sandbox.id.clone() }
}
