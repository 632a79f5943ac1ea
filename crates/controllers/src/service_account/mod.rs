//! Every active namespace has the ServiceAccount `default`.

mod plan;
#[cfg(test)]
mod tests;

use api::core::namespace::Namespace;
use api::core::service_account::ServiceAccount;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::Api;
use informer::Indexer;
use reconcile::{Next, Reconciler, WorkQueue};

use self::plan::NAME;
use crate::handlers::on_change;
use crate::{Descriptor, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor =
    Descriptor { name: "serviceaccount-controller", identity: "service-account-controller", start };

#[derive(Debug, thiserror::Error)]
#[error("create service account {namespace}/{NAME}")]
pub(crate) struct Error {
    namespace: String,
    #[source]
    source: ApiError,
}

struct ServiceAccounts {
    namespaces: Indexer<Namespace>,
    accounts: Indexer<ServiceAccount>,
    api: Api<ServiceAccount>,
}

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let namespaces = context.factory.informer::<Namespace>();
    let accounts = context.factory.informer::<ServiceAccount>();
    let reconciler = ServiceAccounts {
        namespaces: namespaces.indexer(),
        accounts: accounts.indexer(),
        api: client.api(),
    };
    let to_queue = queue.clone();
    on_change(&namespaces, move |it| to_queue.add(key_of(&it.metadata)));
    let to_queue = queue.clone();
    on_change(&accounts, move |it| {
        if owners::name(&it.metadata) == NAME {
            to_queue.add(ObjectKey::cluster(owners::namespace(&it.metadata)));
        }
    });
    context.run(descriptor, queue, 1, reconciler);
}

impl Reconciler for ServiceAccounts {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let namespace = &key.name;
        let observed = self.namespaces.get(key);
        let stored = self.accounts.get(&ObjectKey::new(namespace, NAME));
        let Some(account) = plan::plan(observed.as_deref(), stored.as_deref()) else {
            return Ok(Next::Settled);
        };
        match self.api.create(account).await {
            Ok(_) => Ok(Next::Settled),
            Err(err) if err.is_already_exists() || is_namespace_gone(&err) => Ok(Next::Settled),
            Err(source) => Err(Error { namespace: namespace.clone(), source }),
        }
    }
}

/// The namespace ended between our look and our write: there is nothing left to do in it.
pub(crate) fn is_namespace_gone(err: &ApiError) -> bool {
    let causes = err.details().and_then(|it| it.causes.as_ref());
    err.is_not_found()
        || causes
            .into_iter()
            .flatten()
            .any(|it| it.reason.as_deref() == Some("NamespaceTerminating"))
}
