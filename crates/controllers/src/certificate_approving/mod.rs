//! Approves the client certificates of kubelets, for whoever may ask for one: for the node that
//! they are, or for any.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::authorization::SubjectAccessReview;
use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{APPROVAL, APPROVED};
use apimachinery::{ObjectKey, User};
use client::reviews::{Access, review_access};
use client::{Api, Client};
use informer::Indexer;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};

pub(crate) use self::garbage::plan_any;
use self::plan::Way;
use crate::{Descriptor, Flags, Startup, certificates};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "certificatesigningrequest-approving-controller",
    aliases: &["csrapproving"],
    identity: "certificate-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

const WORKERS: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Rights may be given later: comes again.
    #[error("recognized csr {request:?} as {tried:?} but subject access review was not approved")]
    NotAllowed { request: String, tried: Vec<&'static str> },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct Approving {
    requests: Indexer<CertificateSigningRequest>,
    writes: Arc<OwnWrites<CertificateSigningRequest>>,
    api: Api<CertificateSigningRequest>,
    client: Client,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Approving {
        requests: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        client: startup.client.clone(),
    };
    controller.watches(itself::<CertificateSigningRequest>).workers(WORKERS).run(reconciler);
}

impl Reconciler for Approving {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(request) = self.requests.get(key) else { return Ok(Next::Settled) };
        let ways = plan::plan(&request);
        for way in ways {
            if self.is_allowed(key, &request, way).await? {
                self.approve(key, &request, way).await?;
                return Ok(Next::Settled);
            }
        }
        if ways.is_empty() {
            return Ok(Next::Settled);
        }
        let tried = ways.iter().map(|it| it.subresource).collect();
        Err(Error::NotAllowed { request: key.name.clone(), tried })
    }
}

impl Approving {
    /// Whether who asked may have it this way.
    async fn is_allowed(
        &self,
        key: &ObjectKey,
        request: &CertificateSigningRequest,
        way: &Way,
    ) -> Result<bool, Failed> {
        let spec = &request.spec;
        let user = User {
            name: spec.username.clone().unwrap_or_default(),
            uid: spec.uid.clone().unwrap_or_default(),
            groups: spec.groups.clone().unwrap_or_default(),
            extra: spec.extra.clone().unwrap_or_default(),
        };
        let some = |it: &str| Some(it.to_owned());
        let access = Access::Resource(Box::new(ResourceAttributes {
            group: some("certificates.k8s.io"),
            resource: some("certificatesigningrequests"),
            verb: some("create"),
            subresource: some(way.subresource),
            version: some("*"),
            ..ResourceAttributes::default()
        }));
        let allowed = review_access(&self.client, &user, access).await;
        allowed.map_err(Failed::to::<SubjectAccessReview>("ask for the rights of", key))
    }

    async fn approve(
        &self,
        key: &ObjectKey,
        request: &Arc<CertificateSigningRequest>,
        way: &Way,
    ) -> Result<(), Failed> {
        let mut changed = CertificateSigningRequest::clone(request);
        certificates::decide(&mut changed, APPROVED, "AutoApproved", way.message.to_owned());
        let written = self.api.update_subresource(changed, APPROVAL).await.unless_gone();
        let written = written.map_err(Failed::to::<CertificateSigningRequest>("approve", key))?;
        if let Some(written) = written {
            self.writes.changed(key, request, written.meta());
        }
        Ok(())
    }
}
