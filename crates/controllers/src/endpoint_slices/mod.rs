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
use reconcile::{Next, Reconciler, WorkQueue};
use stdx::SharedClock;

use self::plan::{Action, CONTROLLER, MANAGED_BY, Observed, SERVICE_NAME};
use self::written::Written;
use crate::backends::{BY_SELECTOR, Pace};
use crate::endpoints::follow_pods;
use crate::handlers::{on_change, on_transition};
use crate::pods::BY_LABEL;
use crate::{Descriptor, Startup, backends, owners, pods};

pub(crate) const DESCRIPTOR: Descriptor =
    Descriptor { name: "endpointslice-controller", identity: "endpointslice-controller", start };

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

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let services = context.factory.informer::<Service>();
    let pods = context.factory.informer::<Pod>();
    services.add_index(BY_SELECTOR, backends::index_by_selector);
    pods.add_index(BY_LABEL, pods::index_by_label);
    let slices = context.factory.informer::<EndpointSlice>();
    slices.add_index(BY_SERVICE, index_by_service);
    let written = Arc::new(Written::default());
    let reconciler = EndpointSlices {
        services: services.indexer(),
        pods: pods.indexer(),
        slices: slices.indexer(),
        api: client.api(),
        written: written.clone(),
        endpoints_per_slice: context.config.max_endpoints_per_slice,
        pace: Pace::new(context.world.clock.clone()),
        clock: context.world.clock.clone(),
    };
    let to_queue = queue.clone();
    on_change(&services, move |it| to_queue.add(key_of(&it.metadata)));
    follow_pods(&pods, &services.indexer(), queue.clone());
    let to_queue = queue.clone();
    on_transition(&slices, move |before, after| {
        let Some(slice) = after.or(before) else {
            return;
        };
        let Some(service) = service_of(slice) else {
            return;
        };
        if after.is_none() {
            written.forget_slice(&service, owners::name(&slice.metadata));
        }
        to_queue.add(service);
    });
    let workers = context.config.concurrent_service_endpoint_syncs;
    context.run(descriptor, queue, workers, reconciler);
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
