//! One Endpoints object per Service with a selector. A pod event costs its own labels; a reconcile the Service's pods.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::endpoints::Endpoints;
use api::core::pod::Pod;
use api::core::service::Service;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Next, Reconciler, WorkQueue};

use self::plan::{Action, Observed};
use crate::backends::{BY_SELECTOR, Pace};
use crate::handlers::{on_change, on_transition};
use crate::own_writes::OwnWrites;
use crate::pods::BY_LABEL;
use crate::{Descriptor, Startup, backends, pods};

pub(crate) const DESCRIPTOR: Descriptor =
    Descriptor { name: "endpoints-controller", identity: "endpoint-controller", start };

#[derive(Debug, thiserror::Error)]
#[error("write endpoints {service}")]
pub(crate) struct Error {
    service: ObjectKey,
    #[source]
    source: ApiError,
}

struct EndpointsController {
    services: Indexer<Service>,
    pods: Indexer<Pod>,
    endpoints: Indexer<Endpoints>,
    api: Api<Endpoints>,
    own_writes: OwnWrites,
    pace: Pace,
}

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let services = context.factory.informer::<Service>();
    let pods = context.factory.informer::<Pod>();
    services.add_index(BY_SELECTOR, backends::index_by_selector);
    pods.add_index(BY_LABEL, pods::index_by_label);
    let endpoints = context.factory.informer::<Endpoints>();
    let reconciler = EndpointsController {
        services: services.indexer(),
        pods: pods.indexer(),
        endpoints: endpoints.indexer(),
        api: client.api(),
        own_writes: OwnWrites::default(),
        pace: Pace::new(context.world.clock.clone()),
    };
    let to_queue = queue.clone();
    on_change(&services, move |it| to_queue.add(key_of(&it.metadata)));
    follow_pods(&pods, &services.indexer(), queue.clone());
    let (to_queue, known) = (queue.clone(), services.indexer());
    on_change(&endpoints, move |it| {
        // Endpoints that stand alone are somebody else's.
        let key = key_of(&it.metadata);
        if known.get(&key).is_some() {
            to_queue.add(key);
        }
    });
    let workers = context.config.concurrent_endpoint_syncs;
    context.run(descriptor, queue, workers, reconciler);
}

/// Wakes the Services that select a pod when something that endpoints show has changed.
pub(crate) fn follow_pods(
    pods: &informer::SharedInformer<Pod>,
    services: &Indexer<Service>,
    queue: WorkQueue,
) {
    let services = services.clone();
    on_transition(pods, move |before, after| {
        if let (Some(before), Some(after)) = (before, after)
            && !backends::is_relevant(before, after)
        {
            return;
        }
        for pod in [before, after].into_iter().flatten() {
            backends::services_of(&services, pod).into_iter().for_each(|it| queue.add(it));
        }
    });
}

impl Reconciler for EndpointsController {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let endpoints = self.endpoints.get(key);
        if endpoints.as_ref().is_some_and(|it| !self.own_writes.is_shown(&it.metadata)) {
            return Ok(Next::Settled);
        }
        let written = match self.services.get(key) {
            None => self.delete(key, endpoints).await,
            Some(service) => match backends::selector(&service) {
                None => Ok(()),
                Some(selector) => {
                    if let Some(wait) = self.pace.wait(key) {
                        return Ok(Next::After(wait));
                    }
                    let pods = backends::selected(&self.pods, &key.namespace, selector);
                    let n_pods = pods.len();
                    let action = plan::plan(&Observed { service, pods, endpoints });
                    self.apply(key, action, n_pods).await
                }
            },
        };
        match written {
            Ok(()) => Ok(Next::Settled),
            // Made by an earlier reconcile, and not in the cache yet: its event comes.
            Err(err) if err.is_already_exists() => Ok(Next::Settled),
            Err(err) if crate::service_account::is_namespace_gone(&err) => Ok(Next::Settled),
            Err(source) => Err(Error { service: key.clone(), source }),
        }
    }
}

impl EndpointsController {
    async fn apply(
        &self,
        key: &ObjectKey,
        action: Option<Action>,
        n_pods: usize,
    ) -> Result<(), ApiError> {
        let written = match action {
            None => return Ok(()),
            Some(Action::Create(endpoints)) => self.api.create(*endpoints).await?,
            Some(Action::Update(endpoints)) => self.api.update(*endpoints).await?,
        };
        self.own_writes.note(&written.metadata);
        self.pace.wrote(key, n_pods);
        Ok(())
    }

    /// The Service is gone; its Endpoints have no owner reference that would take them along.
    async fn delete(
        &self,
        key: &ObjectKey,
        endpoints: Option<Arc<Endpoints>>,
    ) -> Result<(), ApiError> {
        self.own_writes.forget(key);
        self.pace.forget(key);
        let Some(endpoints) = endpoints else {
            return Ok(());
        };
        let preconditions =
            Preconditions { uid: endpoints.metadata.uid.clone(), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        self.api.delete(&key.namespace, &key.name, options).await
    }
}
