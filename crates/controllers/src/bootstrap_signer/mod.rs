//! Signs `kube-public/cluster-info` with every bootstrap token that is for it, so that who has a
//! token can tell that the cluster has it too.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::ConfigMap;
use api::core::secret::SecretView;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, Startup, bootstrap_tokens, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "bootstrap-signer-controller",
    aliases: &["bootstrapsigner"],
    identity: "bootstrap-signer",
    is_on_by_default: false,
    flags: Flags::NONE,
    start,
};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";

struct Signer {
    secrets: Indexer<SecretView>,
    config_maps: Indexer<ConfigMap>,
    writes: Arc<OwnWrites<ConfigMap>>,
    api: Api<ConfigMap>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Signer {
        secrets: controller.cache(),
        config_maps: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    let key = || ObjectKey::new(NAMESPACE, NAME);
    controller
        .watches(move |it: &ConfigMap| {
            owners::namespace_of_named(&it.metadata, NAME)
                .filter(|it| it.name == NAMESPACE)
                .map(|_| key())
        })
        .watches(move |it: &SecretView| bootstrap_tokens::of(it).map(|_| key()))
        .run(reconciler);
}

impl Reconciler for Signer {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(config_map) = self.config_maps.get(key) else { return Ok(Next::Settled) };
        let secrets = self.secrets.list();
        let (tokens, next) = plan::tokens(&secrets, self.clock.now());
        if let Some(data) = plan::plan(config_map.data.as_ref(), &tokens) {
            let signed = ConfigMap { data: Some(data), ..ConfigMap::clone(&config_map) };
            let written = self.api.update(signed).await.unless_gone();
            if let Some(written) = written.map_err(Failed::to::<ConfigMap>("sign", key))? {
                self.writes.changed(key, &config_map, written.meta());
            }
        }
        Ok(next.map_or(Next::Settled, Next::After))
    }
}
