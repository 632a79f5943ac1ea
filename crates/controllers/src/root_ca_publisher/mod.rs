//! Every active namespace has the ConfigMap `kube-root-ca.crt` with the authority of the API
//! server.

mod garbage;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::config_map::ConfigMap;
use api::core::namespace::Namespace;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};
use tokio::time::Instant;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{Action, NAME};
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "root-ca-certificate-publisher-controller",
    aliases: &["root-ca-cert-publisher"],
    identity: "root-ca-cert-publisher",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

struct RootCaPublisher {
    namespaces: Indexer<Namespace>,
    config_maps: Indexer<ConfigMap>,
    own_writes: Arc<OwnWrites<ConfigMap>>,
    api: Api<ConfigMap>,
    root_ca: String,
    metrics: Metrics,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = RootCaPublisher {
        namespaces: controller.cache(),
        config_maps: controller.cache(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        root_ca: startup.root_ca.clone(),
        metrics: Metrics::new(&startup.metrics),
    };
    controller
        .watches(itself::<Namespace>)
        .watches(|it: &ConfigMap| owners::namespace_of_named(&it.metadata, NAME))
        .run(reconciler);
}

impl Reconciler for RootCaPublisher {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let started = Instant::now();
        let outcome = self.publish(key).await;
        self.metrics.synced(&outcome, started.elapsed());
        outcome
    }
}

impl RootCaPublisher {
    async fn publish(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let namespace = &key.name;
        let observed = self.namespaces.get(key);
        let published = ObjectKey::new(namespace, NAME);
        let stored = self.config_maps.get(&published);
        let written = match plan::plan(observed.as_deref(), stored.as_deref(), &self.root_ca) {
            None => return Ok(Next::Settled),
            Some(Action::Update(wanted)) => self.api.update(wanted).await,
            Some(Action::Create(wanted)) => self.api.create(wanted).await,
        };
        let written = written.unless_there_or_over();
        if let Some(written) = written.map_err(Failed::to::<ConfigMap>("publish", &published))? {
            self.own_writes.wrote(key, written.meta());
        }
        Ok(Next::Settled)
    }
}
