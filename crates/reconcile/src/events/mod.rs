//! Events about objects: said by anybody, correlated, and written by one task per recorder.

mod correlator;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::Identified;
use api::core::event::Event;
use apimachinery::ApiError;
use client::{Client, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use lifecycle::{Shutdown, Tasks};
use stdx::World;
use tokio::sync::mpsc;

use correlator::{Correlator, Said, Write};

/// Events that wait to be written; more are dropped, since events are a help and never a duty.
const QUEUE: usize = 1000;
const ATTEMPTS_MAX: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Records core/v1 Events, aggregated and rate limited as client-go's correlator does (same event
/// again: count + 1). Never waits and never fails: events are written by a task of its own from a
/// bounded queue.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<Said>,
    component: Arc<str>,
    /// How many events found the queue full.
    dropped: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl EventRecorder {
    pub fn new(tasks: &Tasks, client: Client, world: World, component: &'static str) -> Self {
        Self::start(tasks, client, world, component, None)
    }

    /// For a component of one node: events say which.
    pub fn on_host(
        tasks: &Tasks,
        client: Client,
        world: World,
        component: &'static str,
        host: &str,
    ) -> Self {
        Self::start(tasks, client, world, component, Some(host.to_owned()))
    }

    fn start(
        tasks: &Tasks,
        client: Client,
        world: World,
        component: &'static str,
        host: Option<String>,
    ) -> Self {
        let (queue, said) = mpsc::channel(QUEUE);
        let correlator = Correlator::new(component, host);
        tasks.spawn(&format!("events/{component}"), |shutdown| {
            write_all(client, world, correlator, said, shutdown)
        });
        Self { queue, component: component.into(), dropped: Arc::default() }
    }

    pub fn event<T: Identified>(&self, about: &T, kind: EventType, reason: &str, message: String) {
        self.event_about(reference(about), kind, reason, message);
    }

    /// For objects that are known by reference only.
    pub fn event_about(
        &self,
        about: ObjectReference,
        kind: EventType,
        reason: &str,
        message: String,
    ) {
        let said = Said { about, kind: kind.name(), reason: reason.to_owned(), message };
        if let Err(mpsc::error::TrySendError::Full(said)) = self.queue.try_send(said) {
            // Powers of two: a burst says so at once, and does not fill the log.
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(component = %self.component, reason = said.reason, dropped, "too many events wait; dropped");
            }
        }
    }
}

fn reference<T: Identified>(about: &T) -> ObjectReference {
    let (facts, key) = (T::FACTS, about.key());
    let version = apimachinery::GroupVersion::new(facts.group, facts.version);
    ObjectReference {
        api_version: Some(version.to_string()),
        kind: Some(facts.kind.to_owned()),
        name: Some(key.name),
        namespace: Some(key.namespace).filter(|it| !it.is_empty()),
        uid: Some(about.uid().to_owned()).filter(|it| !it.is_empty()),
        resource_version: Some(about.version()).filter(|it| *it > 0).map(|it| it.to_string()),
        ..ObjectReference::default()
    }
}

async fn write_all(
    client: Client,
    world: World,
    mut correlator: Correlator,
    mut said: mpsc::Receiver<Said>,
    shutdown: Shutdown,
) {
    loop {
        let said = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            said = said.recv() => match said { Some(it) => it, None => return },
        };
        let Some(write) = correlator.step(said, world.clock.now()) else {
            continue;
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = write_one(&client, write) => {}
        }
    }
}

async fn write_one(client: &Client, write: Write) {
    for attempt in 1..=ATTEMPTS_MAX {
        match send(client, &write).await {
            Ok(()) => return,
            Err(err) if err.is_retryable() && attempt < ATTEMPTS_MAX => {
                tokio::time::sleep(RETRY_DELAY * attempt).await;
            }
            Err(err) => {
                let reason = write.event.reason.as_deref().unwrap_or_default();
                tracing::debug!(reason, error = %err, attempt, "event could not be written");
                return;
            }
        }
    }
}

async fn send(client: &Client, write: &Write) -> Result<(), ApiError> {
    let api = client.api::<Event>();
    let Some(patch) = &write.patch else {
        return api.create(write.event.clone()).await.map(|_| ());
    };
    let meta = &write.event.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    match api.patch(namespace, name, PatchKind::Merge, patch.clone()).await {
        // The event before was old enough to be gone: this one stands for both.
        Err(err) if err.is_not_found() => api.create(write.event.clone()).await.map(|_| ()),
        other => other.map(|_| ()),
    }
}
