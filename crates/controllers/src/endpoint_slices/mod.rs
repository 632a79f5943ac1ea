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
use apimachinery::ObjectKey;
use informer::Indexer;
use reconcile::{Failed, Next, OwnWrites, Reconciler, itself};
use telemetry::{Description, Stability};

use self::plan::{CONTROLLER, Observed};
use crate::backends::{BY_SELECTOR, Pace};
use crate::flags::at_least_one;
use crate::pods::BY_LABEL;
use crate::slices::{self, BY_SERVICE, Writer};
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

/// Who waits for slices is without endpoints: look again earlier than others do.
const PATIENCE: Duration = Duration::from_secs(30);

const CHANGES: Description<1> = Description {
    name: "endpoint_slice_controller_changes",
    stability: Stability::Alpha,
    help: "Number of EndpointSlice changes",
    labels: ["operation"],
};

struct EndpointSlices {
    services: Indexer<Service>,
    pods: Indexer<PodView>,
    slices: Indexer<EndpointSlice>,
    writer: Writer,
    own_writes: Arc<OwnWrites<EndpointSlice>>,
    endpoints_per_slice: usize,
    pace: Pace,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let services = controller.indexed_cache(&[(BY_SELECTOR, backends::index_by_selector)]);
    let own_writes = controller.own_writes(PATIENCE);
    let reconciler = EndpointSlices {
        services: services.clone(),
        pods: controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]),
        slices: controller.indexed_cache(&[(BY_SERVICE, slices::index_by_service)]),
        writer: Writer {
            api: startup.client.api(),
            own_writes: own_writes.clone(),
            changes: startup.metrics.counters(&CHANGES),
        },
        own_writes,
        endpoints_per_slice: settings.max_endpoints_per_slice.into(),
        pace: Pace::new(startup.world.clock.clone()),
    };
    controller
        .watches(itself::<Service>)
        .follows(move |change, queue| backends::follow_pod(change, &services, queue))
        .watches(|it: &EndpointSlice| slices::service_of(it, CONTROLLER))
        .workers(settings.concurrent_service_endpoint_syncs)
        .run(reconciler);
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
        let slices = self.slices.by_index(BY_SERVICE, &slices::index_value(key, CONTROLLER));
        let pods = backends::selected(&self.pods, &key.namespace, selector);
        let (n_pods, endpoints_per_slice) = (pods.len(), self.endpoints_per_slice);
        let actions = plan::plan(&Observed { service, pods, slices, endpoints_per_slice });
        if !actions.is_empty() {
            self.pace.wrote(key, n_pods);
        }
        for action in actions {
            self.writer.apply(key, action).await?;
        }
        Ok(Next::Settled)
    }
}
