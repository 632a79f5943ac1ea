//! One Endpoints object per Service with a selector. A pod event costs its own labels; a reconcile
//! the Service's pods.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::core::endpoints::Endpoints;
use api::core::pod::PodView;
use api::core::service::Service;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use k8s_openapi::api::core::v1::ObjectReference;
use reconcile::{
    EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself,
};

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Observed};
use crate::backends::{BY_SELECTOR, Pace, Triggers};
use crate::flags::{at_least_one, duration};
use crate::pods::BY_LABEL;
use crate::{Descriptor, Flags, RETRIES_MAX, Startup, backends, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "endpoints-controller",
    aliases: &["endpoint"],
    identity: "endpoint-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Services whose Endpoints are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_endpoint_syncs: usize,
    /// How long changes of pods are gathered before their Services are looked at
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    endpoint_updates_batch_period: Duration,
}

/// Reason of an event, and how its message begins.
const CREATE: (&str, &str) = ("FailedToCreateEndpoint", "Failed to create endpoint for service");
const UPDATE: (&str, &str) = ("FailedToUpdateEndpoint", "Failed to update endpoint");

struct EndpointsController {
    services: Indexer<Service>,
    pods: Indexer<PodView>,
    endpoints: Indexer<Endpoints>,
    api: Api<Endpoints>,
    own_writes: Arc<OwnWrites<Endpoints>>,
    pace: Pace,
    triggers: Triggers,
    events: EventRecorder,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services = controller.indexed_cache(&[(BY_SELECTOR, backends::index_by_selector)]);
    let reconciler = EndpointsController {
        services: services.clone(),
        pods: controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]),
        endpoints: controller.cache(),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        pace: Pace::new(startup.world.clock.clone()),
        triggers: Triggers::default(),
        events: startup.events_of("endpoint-controller"),
    };
    let (pause, known) = (settings.endpoint_updates_batch_period, services.clone());
    controller
        .watches(itself::<Service>)
        .follows(move |change, queue| backends::follow_pod(change, &services, queue, pause))
        // Endpoints that stand alone are somebody else's, unless a Service went while nobody looked.
        .watches(move |it: &Endpoints| {
            itself(it).filter(|key| plan::is_ours(it) || known.get(key).is_some())
        })
        .workers(settings.concurrent_endpoint_syncs)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

impl Reconciler for EndpointsController {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let endpoints = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            self.delete(key, endpoints).await?;
            return Ok(Next::Settled);
        };
        let Some(selector) = backends::selector(&service) else { return Ok(Next::Settled) };
        if let Some(wait) = self.pace.wait(key) {
            return Ok(Next::After(wait));
        }
        let pods = backends::selected(&self.pods, &key.namespace, selector);
        let n_pods = pods.len();
        let (trigger, seen) = self.triggers.look(key, &service, &pods);
        if let Some(action) = plan::plan(&Observed { service, pods, endpoints, trigger }) {
            self.apply(key, action, n_pods).await?;
        }
        self.triggers.keep(key, seen);
        Ok(Next::Settled)
    }
}

impl EndpointsController {
    async fn apply(&self, key: &ObjectKey, action: Action, n_pods: usize) -> Result<(), Failed> {
        let (told, written) = match action {
            Action::Create(endpoints) => (CREATE, self.api.create(*endpoints).await),
            Action::Update(endpoints) => (UPDATE, self.api.update(*endpoints).await),
        };
        let written = written.unless_there_or_over();
        if let Err(err) = &written
            && !err.is_conflict()
        {
            let message = format!("{} {key}: {err}", told.1);
            let about = about(key);
            self.events.event_about(about, EventType::Warning, told.0, message);
        }
        if let Some(written) = written.map_err(Failed::to::<Endpoints>("write", key))? {
            self.own_writes.wrote(key, written.meta());
            self.pace.wrote(key, n_pods);
        }
        Ok(())
    }

    /// The Service is gone; its Endpoints have no owner reference that would take them along.
    async fn delete(
        &self,
        key: &ObjectKey,
        endpoints: Option<Arc<Endpoints>>,
    ) -> Result<(), Failed> {
        self.own_writes.forget(key);
        self.pace.forget(key);
        self.triggers.forget(key);
        let Some(endpoints) = endpoints else {
            return Ok(());
        };
        let preconditions =
            Preconditions { uid: endpoints.metadata.uid.clone(), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_gone().map_err(Failed::to::<Endpoints>("delete", key))?;
        Ok(())
    }
}

fn about(key: &ObjectKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Endpoints".to_owned()),
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        ..ObjectReference::default()
    }
}
