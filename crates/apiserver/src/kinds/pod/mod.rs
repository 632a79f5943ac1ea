//! Pods: bound to a node, evicted, and reached through their kubelet.

mod bind;
mod evict;
mod proxy;
mod streams;

use std::sync::Arc;

use api::Dynamic;
use api::kind::Door;
use apimachinery::{ApiError, Reason};
use client::Verb;

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

    fn validate_call(&self, request: &Request) -> Result<(), ApiError> {
        let is_write = matches!(request.call.verb, Verb::Update | Verb::Patch);
        if is_write && request.subresource() == Some("resize") {
            let why = "resizing pods in place is not supported by this server";
            return Err(ApiError::new(Reason::MethodNotAllowed, why));
        }
        Ok(())
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
