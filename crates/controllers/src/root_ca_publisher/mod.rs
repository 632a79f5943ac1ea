//! Every active namespace has the ConfigMap `kube-root-ca.crt` with the authority of the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::config_map::ConfigMap;
use api::core::namespace::Namespace;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::Api;
use informer::Indexer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use reconcile::{Next, Reconciler, WorkQueue};

use crate::handlers::on_change;
use crate::service_account::is_namespace_gone;
use crate::{Descriptor, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "root-ca-certificate-publisher-controller",
    identity: "root-ca-cert-publisher",
    start,
};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// The text that upstream's ConfigMap has.
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

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
    reconcile::run_synced(
        &context.tasks.child(descriptor.name),
        &context.factory,
        queue,
        1,
        Arc::new(reconciler),
    );
}

impl RootCaPublisher {
    fn wanted(&self, stored: Option<&ConfigMap>, namespace: &str) -> ConfigMap {
        let mut config_map = stored.cloned().unwrap_or_else(|| ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        });
        let annotations = config_map.metadata.annotations.get_or_insert_default();
        annotations.insert(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned());
        config_map.data = Some(BTreeMap::from([("ca.crt".to_owned(), self.root_ca.clone())]));
        config_map.binary_data = None;
        config_map
    }
}

impl Reconciler for RootCaPublisher {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let namespace = &key.name;
        let is_active =
            self.namespaces.get(key).is_some_and(|it| !owners::is_deleting(&it.metadata));
        if !is_active {
            return Ok(Next::Settled);
        }
        let stored = self.config_maps.get(&ObjectKey::new(namespace, NAME));
        let wanted = self.wanted(stored.as_deref(), namespace);
        let written = match stored {
            Some(stored) if *stored == wanted => return Ok(Next::Settled),
            Some(_) => self.api.update(wanted).await,
            None => self.api.create(wanted).await,
        };
        match written {
            Ok(_) => Ok(Next::Settled),
            Err(err) if err.is_already_exists() || is_namespace_gone(&err) => Ok(Next::Settled),
            Err(source) => Err(Error { namespace: namespace.clone(), source }),
        }
    }
}
