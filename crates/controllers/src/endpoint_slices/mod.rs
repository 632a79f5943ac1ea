//! EndpointSlices of every Service with a selector.
//!
//! Slices have generated names, so a cache that is behind could make us create them twice: our own
//! writes are remembered until the cache shows them.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use api::object::key_of;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, Reconciler, is_namespace_gone, itself};

use self::plan::{Action, CONTROLLER, MANAGED_BY, Observed, SERVICE_NAME};
use crate::backends::{BY_SELECTOR, Pace};
use crate::flags::at_least_one;
use crate::pods::BY_LABEL;
use crate::{Descriptor, Flags, RETRIES_MAX, Startup, backends, owners, pods};

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
/// Who waits for slices is without endpoints: look again earlier than others do.
const PATIENCE: Duration = Duration::from_secs(30);

struct EndpointSlices {
    services: Indexer<Service>,
    pods: Indexer<PodView>,
    slices: Indexer<EndpointSlice>,
    api: Api<EndpointSlice>,
    own_writes: Arc<OwnWrites<EndpointSlice>>,
    endpoints_per_slice: usize,
    pace: Pace,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services = controller.indexed_cache(&[(BY_SELECTOR, backends::index_by_selector)]);
    let reconciler = EndpointSlices {
        services: services.clone(),
        pods: controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]),
        slices: controller.indexed_cache(&[(BY_SERVICE, index_by_service)]),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        endpoints_per_slice: settings.max_endpoints_per_slice.into(),
        pace: Pace::new(startup.world.clock.clone()),
    };
    controller
        .watches(itself::<Service>)
        .follows(move |change, queue| backends::follow_pod(change, &services, queue))
        .watches(service_of)
        .workers(settings.concurrent_service_endpoint_syncs)
        .gives_up_after(RETRIES_MAX)
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

impl Reconciler for EndpointSlices {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(service) = self.services.get(key) else {
            // The garbage collector takes the slices along.
            self.own_writes.forget(key);
            self.pace.forget(key);
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.own_writes.wait(key) {
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
        let slices = self.slices.by_index(BY_SERVICE, &key.to_string());
        let pods = backends::selected(&self.pods, &key.namespace, selector);
        let (n_pods, endpoints_per_slice) = (pods.len(), self.endpoints_per_slice);
        let actions = plan::plan(&Observed { service, pods, slices, endpoints_per_slice });
        if !actions.is_empty() {
            self.pace.wrote(key, n_pods);
        }
        for action in actions {
            self.apply(key, action).await?;
        }
        Ok(Next::Settled)
    }
}

impl EndpointSlices {
    async fn apply(&self, service: &ObjectKey, action: Action) -> Result<(), Failed> {
        let written = match action {
            Action::Delete(slice) => return self.delete(service, &slice).await,
            Action::Create(slice) => {
                let created = self.api.create(*slice).await.unless(is_namespace_gone);
                // It has no name yet: its Service's says which it is.
                created.map_err(Failed::to::<Service>("create a slice of", service))?
            }
            Action::Update(slice) => {
                let key = key_of(&slice.metadata);
                let updated = self.api.update(*slice).await.unless(is_namespace_gone);
                updated.map_err(Failed::to::<EndpointSlice>("update", &key))?
            }
        };
        if let Some(written) = written {
            self.own_writes.wrote(service, written.meta());
        }
        Ok(())
    }

    async fn delete(&self, service: &ObjectKey, slice: &EndpointSlice) -> Result<(), Failed> {
        let key = key_of(&slice.metadata);
        let preconditions =
            Preconditions { uid: slice.metadata.uid.clone(), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        if deleted.unless_gone().map_err(Failed::to::<EndpointSlice>("delete", &key))?.is_some() {
            self.own_writes.deleted(service, slice);
        }
        Ok(())
    }
}
