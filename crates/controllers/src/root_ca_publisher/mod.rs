//! Every active namespace has the ConfigMap `kube-root-ca.crt` with the authority of the API server.

mod plan;
#[cfg(test)]
mod tests;

use api::core::config_map::ConfigMap;
use api::core::namespace::Namespace;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::Api;
use informer::Indexer;
use reconcile::{Next, Reconciler, WorkQueue};

use self::plan::{Action, NAME};
use crate::handlers::on_change;
use crate::service_account::is_namespace_gone;
use crate::{Descriptor, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "root-ca-certificate-publisher-controller",
    identity: "root-ca-cert-publisher",
    start,
};

#[derive(Debug, thiserror::Error)]
#[error("publish config map {namespace}/{NAME}")]
pub(crate) struct Error {
    namespace: String,
    #[source]
    source: ApiError,
}

struct RootCaPublisher {
    namespaces: Indexer<Namespace>,
    config_maps: Indexer<ConfigMap>,
    api: Api<ConfigMap>,
    root_ca: String,
}

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let namespaces = context.factory.informer::<Namespace>();
    let config_maps = context.factory.informer::<ConfigMap>();
    let reconciler = RootCaPublisher {
        namespaces: namespaces.indexer(),
        config_maps: config_maps.indexer(),
        api: client.api(),
        root_ca: context.root_ca.clone(),
    };
    let to_queue = queue.clone();
    on_change(&namespaces, move |it| to_queue.add(key_of(&it.metadata)));
    let to_queue = queue.clone();
    on_change(&config_maps, move |it| {
        if owners::name(&it.metadata) == NAME {
            to_queue.add(ObjectKey::cluster(owners::namespace(&it.metadata)));
        }
    });
    context.run(descriptor, queue, 1, reconciler);
}

impl Reconciler for RootCaPublisher {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let namespace = &key.name;
        let observed = self.namespaces.get(key);
        let stored = self.config_maps.get(&ObjectKey::new(namespace, NAME));
        let written = match plan::plan(observed.as_deref(), stored.as_deref(), &self.root_ca) {
            None => return Ok(Next::Settled),
            Some(Action::Update(wanted)) => self.api.update(wanted).await,
            Some(Action::Create(wanted)) => self.api.create(wanted).await,
        };
        match written {
            Ok(_) => Ok(Next::Settled),
            Err(err) if err.is_already_exists() || is_namespace_gone(&err) => Ok(Next::Settled),
            Err(source) => Err(Error { namespace: namespace.clone(), source }),
        }
    }
}
