//! Pods: bound to a node, evicted, and reached through their kubelet.

mod bind;
mod evict;
mod proxy;
mod streams;

use std::sync::Arc;

use admission::Draft;
use api::kind::Door;
use api::{ApiObject, Dynamic};
use apimachinery::ApiError;

use crate::kinds::pod_template::drop_disabled;
use crate::kubelets::Kubelets;
use crate::pipeline::hooks::{Acting, Exchange, Hooks, Of, Streaming};
use crate::pipeline::{Core, Request, method_not_allowed};

pub(crate) use bind::Bindings;

pub(crate) struct Pods {
    kubelets: Arc<Kubelets>,
}

impl Pods {
    pub(crate) fn new(kubelets: Arc<Kubelets>) -> Self {
        Self { kubelets }
    }
}

impl Hooks for Pods {
    fn of(&self) -> &'static [Of] {
        &[("", "pods")]
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        drop_disabled(core, draft, old);
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        match request.subresource() {
            Some("binding") => Box::pin(bind::bind(core, request)),
            Some("eviction") => Box::pin(evict::evict(core, request)),
            _ => Box::pin(std::future::ready(Err(method_not_allowed()))),
        }
    }

    fn stream_options(&self, exchange: &Exchange) -> Result<Option<Dynamic>, ApiError> {
        match exchange.request.door() {
            Some(Door::Proxy) => Ok(Some(crate::proxy::options("PodProxyOptions", exchange))),
            _ => streams::options(exchange),
        }
    }

    fn connect<'a>(&'a self, core: &'a Arc<Core>, exchange: Exchange) -> Streaming<'a> {
        match exchange.request.door() {
            Some(Door::Proxy) => Box::pin(proxy::connect(core, exchange)),
            _ => Box::pin(streams::connect(core, &self.kubelets, exchange)),
        }
    }
}
