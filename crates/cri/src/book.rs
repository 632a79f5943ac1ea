//! What is known of the runtime's sandboxes and containers.
//!
//! A look at the runtime takes time, and things are made and removed meanwhile: what was written
//! after the look began is newer than the look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use node_api::containers::{Container, ContainerState, Resources};
use node_api::sandboxes::{Sandbox, SandboxState};
use node_api::{ContainerId, Event, Events, SandboxId};
use tokio::sync::broadcast;

/// How many events a reader may lag behind.
const EVENTS_MAX: usize = 1024;

pub(crate) struct Book {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
}

impl Default for Book {
    fn default() -> Self {
        Self { state: Mutex::default(), events: broadcast::Sender::new(EVENTS_MAX) }
    }
}

#[derive(Default)]
struct State {
    /// Counts writes.
    now: u64,
    sandboxes: BTreeMap<SandboxId, Written<Sandbox>>,
    containers: BTreeMap<ContainerId, Written<Container>>,
    /// Removed, and when: a look that began before may still show them.
    gone_sandboxes: BTreeMap<SandboxId, u64>,
    gone_containers: BTreeMap<ContainerId, u64>,
}

struct Written<T> {
    value: T,
    at: u64,
}

/// What a look at the runtime has found.
#[derive(Default)]
pub(crate) struct Look {
    pub(crate) began: u64,
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
}

impl Book {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the order of their creation.
    pub(crate) fn sandboxes(&self) -> Vec<Sandbox> {
        let mut all: Vec<Sandbox> =
            self.state().sandboxes.values().map(|it| it.value.clone()).collect();
        all.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        all
    }

    pub(crate) fn sandbox(&self, id: &SandboxId) -> Option<Sandbox> {
        self.state().sandboxes.get(id).map(|it| it.value.clone())
    }

    /// In the order of their creation.
    pub(crate) fn containers(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        let state = self.state();
        let all = state.containers.values().map(|it| &it.value);
        let mut wanted: Vec<Container> =
            all.filter(|it| sandbox.is_none_or(|id| it.sandbox == *id)).cloned().collect();
        wanted.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        wanted
    }

    pub(crate) fn container(&self, id: &ContainerId) -> Option<Container> {
        self.state().containers.get(id).map(|it| it.value.clone())
    }

    pub(crate) fn events(&self) -> Events {
        let events = self.events.subscribe();
        futures_util::stream::unfold(events, |mut events| async move {
            match events.recv().await {
                Ok(event) => Some((event, events)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Event::Missed, events)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    /// To be given to a [`Look`].
    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    pub(crate) fn put_sandbox(&self, sandbox: Sandbox) {
        let events = self.state().put_sandbox(sandbox);
        self.tell(events);
    }

    pub(crate) fn put_container(&self, container: Container) {
        let events = self.state().put_container(container);
        self.tell(events);
    }

    pub(crate) fn set_resources(&self, id: &ContainerId, resources: Resources) {
        let mut state = self.state();
        state.now += 1;
        let now = state.now;
        if let Some(written) = state.containers.get_mut(id) {
            written.value.config.resources = resources;
            written.at = now;
        }
    }

    pub(crate) fn forget_sandbox(&self, id: &SandboxId) {
        let mut state = self.state();
        state.now += 1;
        let now = state.now;
        state.sandboxes.remove(id);
        state.gone_sandboxes.insert(id.clone(), now);
        let inside = state.containers.iter().filter(|(_, it)| it.value.sandbox == *id);
        let inside: Vec<ContainerId> = inside.map(|(id, _)| id.clone()).collect();
        for id in inside {
            state.containers.remove(&id);
            state.gone_containers.insert(id, now);
        }
    }

    pub(crate) fn forget_container(&self, id: &ContainerId) {
        let mut state = self.state();
        state.now += 1;
        let now = state.now;
        state.containers.remove(id);
        state.gone_containers.insert(id.clone(), now);
    }

    pub(crate) fn apply(&self, look: Look) {
        let events = self.state().apply(look);
        self.tell(events);
    }

    fn tell(&self, events: Vec<Event>) {
        for event in events {
            // Nobody listens: nobody needs to know.
            let _ = self.events.send(event);
        }
    }
}

impl State {
    fn put_sandbox(&mut self, sandbox: Sandbox) -> Vec<Event> {
        self.now += 1;
        let before = self.sandboxes.get(&sandbox.id).map(|it| it.value.state);
        let has_ended =
            before == Some(SandboxState::Ready) && sandbox.state == SandboxState::NotReady;
        let event = Event::Sandbox { pod: sandbox.config.pod.clone(), sandbox: sandbox.id.clone() };
        let at = self.now;
        self.sandboxes.insert(sandbox.id.clone(), Written { value: sandbox, at });
        if has_ended { vec![event] } else { Vec::new() }
    }

    fn put_container(&mut self, container: Container) -> Vec<Event> {
        self.now += 1;
        let before = self.containers.get(&container.id).map(|it| &it.value.state);
        let is_news = before.unwrap_or(&ContainerState::Created) != &container.state;
        let pod = self.sandboxes.get(&container.sandbox).map(|it| it.value.config.pod.clone());
        let event = pod.filter(|_| is_news).map(|pod| Event::Container {
            pod,
            sandbox: container.sandbox.clone(),
            container: container.id.clone(),
        });
        let at = self.now;
        self.containers.insert(container.id.clone(), Written { value: container, at });
        event.into_iter().collect()
    }

    fn apply(&mut self, look: Look) -> Vec<Event> {
        let began = look.began;
        let is_newer = |at: Option<u64>| at.is_some_and(|it| it > began);
        let mut events = Vec::new();
        let seen: BTreeSet<SandboxId> = look.sandboxes.iter().map(|it| it.id.clone()).collect();
        for sandbox in look.sandboxes {
            let at = self.sandboxes.get(&sandbox.id).map(|it| it.at);
            if !is_newer(at) && !is_newer(self.gone_sandboxes.get(&sandbox.id).copied()) {
                events.extend(self.put_sandbox(sandbox));
            }
        }
        let of_containers: BTreeSet<ContainerId> =
            look.containers.iter().map(|it| it.id.clone()).collect();
        for container in look.containers {
            let at = self.containers.get(&container.id).map(|it| it.at);
            if !is_newer(at) && !is_newer(self.gone_containers.get(&container.id).copied()) {
                events.extend(self.put_container(container));
            }
        }
        events.extend(self.lose(began, &seen, &of_containers));
        // Looks that begin from now on do not show them.
        self.gone_sandboxes.retain(|_, at| *at > began);
        self.gone_containers.retain(|_, at| *at > began);
        events
    }

    /// What somebody else has removed.
    fn lose(
        &mut self,
        began: u64,
        sandboxes: &BTreeSet<SandboxId>,
        containers: &BTreeSet<ContainerId>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let lost: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(id, it)| it.at <= began && !containers.contains(*id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in lost {
            let Some(Written { value, .. }) = self.containers.remove(&id) else { continue };
            if let Some(sandbox) = self.sandboxes.get(&value.sandbox) {
                let pod = sandbox.value.config.pod.clone();
                events.push(Event::Container { pod, sandbox: value.sandbox, container: id });
            }
        }
        self.sandboxes.retain(|id, it| {
            let is_kept = it.at > began || sandboxes.contains(id);
            if !is_kept {
                let pod = it.value.config.pod.clone();
                events.push(Event::Sandbox { pod, sandbox: id.clone() });
            }
            is_kept
        });
        events
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use node_api::{PodRef, PodUid};

    use super::*;

    fn sandbox(name: &str) -> Sandbox {
        let pod = PodRef { namespace: "n".into(), name: name.into(), uid: PodUid::new(name) };
        Sandbox {
            id: SandboxId::new(name),
            config: node_api::fake::plain_sandbox(pod),
            created: Timestamp::UNIX_EPOCH,
            state: SandboxState::Ready,
            addresses: Vec::new(),
        }
    }

    fn container(name: &str, state: ContainerState) -> Container {
        Container {
            id: ContainerId::new(name),
            sandbox: SandboxId::new("s"),
            config: Default::default(),
            created: Timestamp::UNIX_EPOCH,
            state,
        }
    }

    #[test]
    fn what_was_written_during_a_look_is_newer_than_the_look() {
        let book = Book::default();
        book.put_sandbox(sandbox("s"));
        book.put_container(container("old", ContainerState::Created));
        let began = book.now();
        book.put_container(container("new", ContainerState::Created));
        book.forget_container(&ContainerId::new("old"));
        book.apply(Look {
            began,
            sandboxes: vec![sandbox("s")],
            containers: vec![container("old", ContainerState::Created)],
        });
        let ids: Vec<String> =
            book.containers(None).into_iter().map(|it| it.id.to_string()).collect();
        assert_eq!(ids, ["new"]);
    }

    #[tokio::test]
    async fn changes_are_told_once() {
        let book = Book::default();
        book.put_sandbox(sandbox("s"));
        let mut events = book.events();
        let running = ContainerState::Running { started: Timestamp::UNIX_EPOCH };
        let look = || Look {
            began: book.now(),
            sandboxes: vec![sandbox("s")],
            containers: vec![container("c", running.clone())],
        };
        book.apply(look());
        book.apply(look());
        book.apply(Look { began: book.now(), ..Look::default() });
        let mut told = Vec::new();
        for _ in 0..3 {
            told.push(match events.next().await.unwrap() {
                Event::Container { container, .. } => format!("container {container}"),
                Event::Sandbox { sandbox, .. } => format!("sandbox {sandbox}"),
                Event::Silent { sandbox, .. } => format!("silent {sandbox}"),
                Event::Missed => "missed".to_owned(),
            });
        }
        assert_eq!(told, ["container c", "container c", "sandbox s"]);
    }
}
