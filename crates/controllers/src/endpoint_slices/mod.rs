//! EndpointSlices of every Service with a selector.
//!
//! Slices have generated names, so a cache that is behind could make us create them twice: `Written`
//! remembers our own writes until the cache shows them.

mod plan;
#[cfg(test)]
mod tests;
mod written;

use std::sync::Arc;

use api::core::pod::Pod;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Change, Next, Reconciler, itself};
use stdx::SharedClock;

use self::plan::{Action, CONTROLLER, MANAGED_BY, Observed, SERVICE_NAME};
use self::written::Written;
use crate::backends::{BY_SELECTOR, Pace};
use crate::flags::at_least_one;
use crate::pods::BY_LABEL;
use crate::{Descriptor, Flags, Startup, backends, owners, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "endpointslice-controller",
    aliases: &["endpointslice"],
    identity: "endpointslice-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Services whose EndpointSlices are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_service_endpoint_syncs: usize,
    /// Endpoints that one slice has at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_endpoints_per_slice: u16,
}

const BY_SERVICE: &str = "service-name";

#[derive(Debug, thiserror::Error)]
#[error("write endpoint slices of service {service}")]
pub(crate) struct Error {
    service: ObjectKey,
    #[source]
    source: ApiError,
}

struct EndpointSlices {
    services: Indexer<Service>,
    pods: Indexer<Pod>,
    slices: Indexer<EndpointSlice>,
    api: Api<EndpointSlice>,
    written: Arc<Written>,
    endpoints_per_slice: usize,
    pace: Pace,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services = controller.indexed_cache(&[(BY_SELECTOR, backends::index_by_selector)]);
    let written = Arc::new(Written::default());
    let reconciler = EndpointSlices {
        services: services.clone(),
        pods: controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]),
        slices: controller.indexed_cache(&[(BY_SERVICE, index_by_service)]),
        api: startup.client.api(),
        written: written.clone(),
        endpoints_per_slice: settings.max_endpoints_per_slice.into(),
        pace: Pace::new(startup.world.clock.clone()),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(itself::<Service>)
        .follows(move |change, queue| backends::follow_pod(change, &services, queue))
        .watches(service_of)
        .follows(move |change: Change<'_, EndpointSlice>, _| {
            if let Change::Deleted(slice) = change
                && let Some(service) = service_of(slice)
            {
                written.forget_slice(&service, owners::name(&slice.metadata));
            }
        })
        .workers(settings.concurrent_service_endpoint_syncs)
        .run(reconciler);
}

/// The Service whose slice this is, when we manage it.
fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let labels = slice.metadata.labels.as_ref()?;
    if labels.get(MANAGED_BY).map(String::as_str) != Some(CONTROLLER) {
        return None;
    }
    let service = labels.get(SERVICE_NAME)?;
    Some(ObjectKey::new(owners::namespace(&slice.metadata), service.clone()))
}

fn index_by_service(slice: &EndpointSlice) -> Vec<String> {
    service_of(slice).map(|it| it.to_string()).into_iter().collect()
}

fn version(slice: &EndpointSlice) -> u64 {
    slice.metadata.resource_version.as_deref().and_then(|it| it.parse().ok()).unwrap_or(0)
}

impl Reconciler for EndpointSlices {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(service) = self.services.get(key) else {
            // The garbage collector takes the slices along.
            self.written.forget(key);
            self.pace.forget(key);
            return Ok(Next::Settled);
        };
        let slices = self.slices.by_index(BY_SERVICE, &key.to_string());
        if let Some(wait) = self.written.wait(key, &slices, self.clock.now()) {
            return Ok(Next::After(wait));
        }
        let Some(selector) = backends::selector(&service) else {
            return Ok(Next::Settled);
        };
        if owners::is_deleting(&service.metadata) {
            return Ok(Next::Settled);
        }
        if let Some(wait) = self.pace.wait(key) {
            return Ok(Next::After(wait));
        }
        let pods = backends::selected(&self.pods, &key.namespace, selector);
        let (n_pods, endpoints_per_slice) = (pods.len(), self.endpoints_per_slice);
        let actions = plan::plan(&Observed { service, pods, slices, endpoints_per_slice });
        if !actions.is_empty() {
            self.pace.wrote(key, n_pods);
        }
        for action in actions {
            match self.apply(key, action).await {
                Ok(()) => {}
                Err(err) if crate::service_account::is_namespace_gone(&err) => {}
                Err(source) => return Err(Error { service: key.clone(), source }),
            }
        }
        Ok(Next::Settled)
    }
}

impl EndpointSlices {
    async fn apply(&self, service: &ObjectKey, action: Action) -> Result<(), ApiError> {
        let written = match action {
            Action::Create(slice) => self.api.create(*slice).await?,
            Action::Update(slice) => self.api.update(*slice).await?,
            Action::Delete(slice) => return self.delete(&slice).await,
        };
        let name = owners::name(&written.metadata);
        self.written.note(service, name, version(&written), self.clock.now());
        Ok(())
    }

    async fn delete(&self, slice: &EndpointSlice) -> Result<(), ApiError> {
        let key = key_of(&slice.metadata);
        let preconditions =
            Preconditions { uid: slice.metadata.uid.clone(), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.api.delete(&key.namespace, &key.name, options).await {
            Err(err) if !err.is_not_found() => Err(err),
            _ => Ok(()),
        }
    }
}
