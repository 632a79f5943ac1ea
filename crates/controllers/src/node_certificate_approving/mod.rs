//! Approves what nodes that joined ask for beside their kubelet's client certificate: one to serve
//! with, for the node's own names and addresses alone, and one for each component that they run.
//! Upstream leaves the first to people; so this one runs where it is named, and in `xebec up`.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{APPROVAL, APPROVED};
use api::core::Service;
use api::core::node::NodeView;
use api::discovery::EndpointSlice;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};

pub(crate) use self::garbage::plan_any;
use self::plan::Verdict;
use crate::{Descriptor, Flags, Startup, certificates};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "node-certificate-approving-controller",
    aliases: &[],
    identity: "certificate-controller",
    is_on_by_default: false,
    flags: Flags::NONE,
    start,
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Its Node may say otherwise in a moment: comes again.
    #[error("certificate request {request} of a node is not approved: {why}")]
    NotYet { request: String, why: String },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct Approving {
    requests: Indexer<CertificateSigningRequest>,
    nodes: Indexer<NodeView>,
    services: Indexer<Service>,
    slices: Indexer<EndpointSlice>,
    writes: Arc<OwnWrites<CertificateSigningRequest>>,
    api: Api<CertificateSigningRequest>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Approving {
        requests: controller.cache(),
        nodes: controller.cache(),
        services: controller.cache(),
        slices: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
    };
    controller.watches(itself::<CertificateSigningRequest>).run(reconciler);
}

impl Reconciler for Approving {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(request) = self.requests.get(key) else { return Ok(Next::Settled) };
        if !plan::is_of_node(&request) {
            return Ok(Next::Settled);
        }
        let around = plan::around(self.nodes.list(), &self.services.list(), &self.slices.list());
        match plan::plan(&request, &around) {
            Verdict::NotOurs => Ok(Next::Settled),
            Verdict::Wait(why) => Err(Error::NotYet { request: key.name.clone(), why }),
            Verdict::Approve(message) => {
                let mut changed = CertificateSigningRequest::clone(&request);
                certificates::decide(&mut changed, APPROVED, "AutoApproved", message.to_owned());
                let written = self.api.update_subresource(changed, APPROVAL).await.unless_gone();
                let failed = Failed::to::<CertificateSigningRequest>("approve", key);
                if let Some(written) = written.map_err(failed)? {
                    self.writes.changed(key, &request, written.meta());
                }
                Ok(Next::Settled)
            }
        }
    }
}
