//! Every active namespace has the ServiceAccount `default`.

mod plan;
#[cfg(test)]
mod tests;

use api::core::namespace::Namespace;
use api::core::service_account::ServiceAccount;
use apimachinery::{ApiError, ObjectKey};
use client::Api;
use informer::Indexer;
use reconcile::{Next, Reconciler, itself};

use self::plan::NAME;
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "serviceaccount-controller",
    aliases: &["serviceaccount"],
    identity: "service-account-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

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

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = ServiceAccounts {
        namespaces: controller.cache(),
        accounts: controller.cache(),
        api: startup.client.api(),
    };
    controller
        .watches(itself::<Namespace>)
        .watches(|it: &ServiceAccount| owners::namespace_of_named(&it.metadata, NAME))
        .run(reconciler);
}

impl Reconciler for ServiceAccounts {
    type Key = ObjectKey;
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
