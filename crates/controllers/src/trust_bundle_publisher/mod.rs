//! Publishes the authority of the API server as the one ClusterTrustBundle of its signer, and takes
//! away others that go by that signer's name.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::certificates::ClusterTrustBundle;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions, Written};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler};
use telemetry::{Buckets, Counter, Description, Family, Histogram, Stability, exponential};
use tokio::time::Instant;

pub(crate) use self::garbage::plan_any;
use self::plan::Action;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    aliases: &[],
    identity: "kube-apiserver-serving-clustertrustbundle-publisher",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

const SYNCS: Description<1> = Description {
    name: "clustertrustbundle_publisher_sync_total",
    stability: Stability::Alpha,
    help: "Number of syncs that occurred in cluster trust bundle publisher.",
    labels: ["code"],
};
const DURATION: Description<1> = Description {
    name: "clustertrustbundle_publisher_sync_duration_seconds",
    stability: Stability::Alpha,
    help: "The time it took to sync a cluster trust bundle.",
    labels: ["code"],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<15>(0.001, 2.0));
/// There is one thing to do.
const ALL: &str = "all-bundles";

struct Publisher {
    bundles: Indexer<ClusterTrustBundle>,
    own_writes: Arc<OwnWrites<ClusterTrustBundle, &'static str>>,
    api: Api<ClusterTrustBundle>,
    root_ca: String,
    syncs: Family<Counter, 1>,
    duration: Family<Histogram, 1>,
}

fn start(startup: &Startup<'_>) {
    if startup.root_ca.is_empty() {
        let controller = DESCRIPTOR.name;
        tracing::warn!(controller, "not started: there is no --root-ca-file");
        return;
    }
    let mut controller = startup.controller();
    let reconciler = Publisher {
        bundles: controller.cache(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        root_ca: startup.root_ca.clone(),
        syncs: startup.metrics.counters(&SYNCS),
        duration: startup.metrics.histograms(&DURATION, BUCKETS),
    };
    controller.queue().add(ALL);
    controller.watches(|it: &ClusterTrustBundle| plan::is_ours(it).then_some(ALL)).run(reconciler);
}

impl Reconciler for Publisher {
    type Key = &'static str;
    type Error = Failed;

    async fn reconcile(&self, _all: &&'static str) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(&ALL) {
            return Ok(Next::After(wait));
        }
        let started = Instant::now();
        let published = self.publish().await;
        let code = match &published {
            Ok(()) => "200".to_owned(),
            Err(err) => err.cause().code().to_string(),
        };
        let took: Duration = started.elapsed();
        self.duration.with([&code]).observe(took);
        self.syncs.with([&code]).increment();
        published.map(|()| Next::Settled)
    }
}

impl Publisher {
    async fn publish(&self) -> Result<(), Failed> {
        for action in plan::plan(&self.bundles.list(), &self.root_ca) {
            match action {
                Action::Create(bundle) => {
                    let key = bundle.key();
                    let created = self.api.create(bundle).await;
                    let created = created.unless(apimachinery::ApiError::is_already_exists);
                    self.note(created.map_err(Failed::to::<ClusterTrustBundle>("publish", &key))?);
                }
                Action::Update(bundle) => {
                    let key = bundle.key();
                    let updated = self.api.update(bundle).await.unless_gone();
                    self.note(updated.map_err(Failed::to::<ClusterTrustBundle>("publish", &key))?);
                }
                Action::Delete { name, uid } => self.delete(&name, uid).await?,
            }
        }
        Ok(())
    }

    fn note(&self, written: Option<Written<ClusterTrustBundle>>) {
        if let Some(written) = written {
            self.own_writes.wrote(&ALL, written.meta());
        }
    }

    async fn delete(&self, name: &str, uid: String) -> Result<(), Failed> {
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete("", name, options).await.unless_replaced();
        let key = ObjectKey::cluster(name);
        deleted.map_err(Failed::to::<ClusterTrustBundle>("delete", &key))?;
        Ok(())
    }
}
