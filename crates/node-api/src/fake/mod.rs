//! A node in memory, for tests of what stands on it. Implements every trait of this crate.
//!
//! What containers, registries and commands do is scripted ([`Program`], [`Exec`]); calls are
//! recorded as text, can be made to fail and to take time. Time is tokio's, so that it can be
//! paused; nothing runs in the background.

mod calls;
mod cgroups;
mod containers;
mod images;
mod network;
mod plain;
mod programs;
mod sandboxes;
mod state;
mod streams;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use stdx::{Cidr, World};
use tokio::io::DuplexStream;
use tokio::sync::{broadcast, mpsc, watch};

pub use plain::{plain_container, plain_sandbox};
pub use programs::{Exec, Program};

use crate::containers::{Container, ContainerState, Resources, Usage};
use crate::images::{Image, ImageConfig};
use crate::{ContainerId, Error, SandboxId};
use state::State;

/// How many events a reader may lag behind.
const EVENTS_MAX: usize = 256;
/// How many connections to a listening port wait to be taken.
const BACKLOG: usize = 16;

/// Clones are the same node.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    state: Mutex<State>,
    events: broadcast::Sender<crate::Event>,
    network: watch::Sender<crate::network::Status>,
    status: watch::Sender<crate::sandboxes::Status>,
    /// Tells those who wait that the state changed.
    changed: watch::Sender<()>,
}

impl Node {
    pub fn new(world: &World) -> Self {
        Self {
            inner: Arc::new(Inner {
                world: world.clone(),
                state: Mutex::new(State {
                    pod_cidrs: Cidr::containing([10, 244, 0, 0].into(), 24).into_iter().collect(),
                    ..State::default()
                }),
                events: broadcast::Sender::new(EVENTS_MAX),
                network: watch::Sender::default(),
                status: watch::Sender::new(sandboxes::healthy()),
                changed: watch::Sender::new(()),
            }),
        }
    }

    /// What containers of this name do: the first run the first, and so on; the last repeats.
    /// Without a script they run until they are stopped.
    pub fn script(&self, container: &str, programs: impl IntoIterator<Item = Program>) {
        let programs = programs.into_iter().collect();
        self.state().programs.insert(container.to_owned(), programs);
    }

    /// What commands in containers of this name do, also those that already run. Without one they
    /// succeed in silence.
    pub fn on_exec(
        &self,
        container: &str,
        respond: impl Fn(&[String]) -> Exec + Send + Sync + 'static,
    ) {
        self.state().execs.insert(container.to_owned(), Arc::new(respond));
    }

    /// Connections to this port in any pod come out of the receiver. Without a listener they are
    /// refused.
    pub fn listen(&self, port: u16) -> mpsc::Receiver<DuplexStream> {
        let (tx, rx) = mpsc::channel(BACKLOG);
        self.state().listeners.insert(port, tx);
        rx
    }

    /// Puts an image on the node.
    pub fn add_image(&self, reference: &str, config: ImageConfig) -> Result<Image, Error> {
        Ok(self.state().registry_add(reference, config)?.on_node())
    }

    /// Offers an image for pulling. Pulls of others end with `NotFound`.
    pub fn serve_image(&self, reference: &str, config: ImageConfig) -> Result<Image, Error> {
        Ok(self.state().registry_add(reference, config)?.image())
    }

    /// The next `times` calls whose text starts with `call` fail.
    pub fn fail(
        &self,
        call: &str,
        times: usize,
        error: impl Fn() -> Error + Send + Sync + 'static,
    ) {
        self.state().calls.fail(call, times, Arc::new(error));
    }

    /// Calls whose text starts with `call` take this long from now on.
    pub fn delay(&self, call: &str, delay: Duration) {
        self.state().calls.delay(call, delay);
    }

    /// Every call so far that changes something, in order.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.made().to_vec()
    }

    /// As [`Self::calls`], and forgets them.
    pub fn take_calls(&self) -> Vec<String> {
        self.state().calls.take()
    }

    /// Ends a running container now, as if its program had exited.
    pub fn exit(&self, id: &ContainerId, code: i32) {
        let now = self.now();
        self.change(|state| state.end(id, code, None, now));
    }

    /// Ends the sandbox's holder, and with it everything in it, as a `kill -9` would.
    pub fn kill_sandbox(&self, id: &SandboxId) {
        let now = self.now();
        self.change(|state| state.end_sandbox(id, now));
    }

    /// Nothing can be started from now on, for this reason; or it can again.
    pub fn set_fault(&self, fault: Option<&str>) {
        self.inner.status.send_modify(|it| it.fault = fault.map(str::to_owned));
    }

    /// The runtime has this way to run containers too, from now on.
    pub fn add_handler(&self, name: &str) {
        self.inner.status.send_modify(|it| {
            it.handlers.insert(name.to_owned(), Default::default());
        });
    }

    pub fn set_usage(&self, id: &ContainerId, usage: Usage) {
        self.state().usages.insert(id.clone(), usage);
    }

    /// The running containers' names, in the order of their creation.
    pub fn running(&self) -> Vec<String> {
        let is_running = |it: &Container| matches!(it.state, ContainerState::Running { .. });
        let containers = crate::Containers::list(self, None);
        containers.into_iter().filter(is_running).map(|it| it.config.name).collect()
    }

    pub fn cgroups(&self) -> BTreeMap<String, Resources> {
        self.state().cgroups.clone()
    }

    /// Who has which addresses.
    pub fn attached(&self) -> BTreeMap<SandboxId, Vec<IpAddr>> {
        let state = self.state();
        state.attachments.iter().map(|(id, it)| (id.clone(), it.addresses.clone())).collect()
    }

    fn now(&self) -> jiff::Timestamp {
        self.inner.world.clock.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and tells everybody who waits, if there is something to tell: those who
    /// wait come here too. What has ended by now is ended first.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, events, is_news) = {
            let mut state = self.state();
            let end = state.next_end();
            state.settle(self.now());
            let result = change(&mut state);
            let is_news = !state.events.is_empty() || state.next_end() != end;
            (result, std::mem::take(&mut state.events), is_news)
        };
        for event in events {
            // Nobody listens: nobody needs to know.
            let _ = self.inner.events.send(event);
        }
        if is_news {
            self.inner.changed.send_replace(());
            self.forget_losses();
        }
        result
    }

    /// Waits until `done`, whatever it takes.
    async fn wait(&self, done: impl Fn(&State) -> bool) {
        let mut changed = self.inner.changed.subscribe();
        loop {
            let (is_done, deadline) = self.change(|state| (done(state), state.next_end()));
            if is_done {
                return;
            }
            changed.mark_unchanged();
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    fn event_stream(&self) -> crate::Events {
        let (node, events) = (self.clone(), self.inner.events.subscribe());
        futures_util::stream::unfold((node, events), |(node, mut events)| async move {
            let event = node.next_event(&mut events).await?;
            Some((event, (node, events)))
        })
        .boxed()
    }

    async fn next_event(
        &self,
        events: &mut broadcast::Receiver<crate::Event>,
    ) -> Option<crate::Event> {
        let mut changed = self.inner.changed.subscribe();
        loop {
            let deadline = self.state().next_end();
            tokio::select! {
                biased;
                event = events.recv() => return match event {
                    Ok(event) => Some(event),
                    Err(broadcast::error::RecvError::Lagged(_)) => Some(crate::Event::Missed),
                    Err(broadcast::error::RecvError::Closed) => None,
                },
                () = sleep_until(deadline) => self.change(|_| ()),
                _ = changed.changed() => {}
            }
        }
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
