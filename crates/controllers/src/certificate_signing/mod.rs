//! Signs what was approved, for Kubernetes' own signers: each with the key that this process has
//! for it (`--cluster-signing-*-file`; in `xebec up` the cluster's own authority). Without any key
//! the controller does not start.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{FAILED, verified};
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use k8s_openapi::ByteString;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::Action;
use crate::flags::duration;
use crate::{Descriptor, Flags, Signers, Startup, certificates};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "certificatesigningrequest-signing-controller",
    aliases: &["csrsigning"],
    identity: "certificate-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// How long certificates that are signed for others are good; a request may ask for less
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s", value_parser = duration)]
    cluster_signing_duration: Duration,
}

const WORKERS: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("sign certificate request {request}")]
    Sign {
        request: ObjectKey,
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct Signing {
    requests: Indexer<CertificateSigningRequest>,
    writes: Arc<OwnWrites<CertificateSigningRequest>>,
    api: Api<CertificateSigningRequest>,
    signers: Signers,
    duration: Duration,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    if startup.signers.is_empty() {
        let controller = DESCRIPTOR.name;
        tracing::warn!(controller, "not started: there is no --cluster-signing-cert-file");
        return;
    }
    let mut controller = startup.controller();
    let reconciler = Signing {
        requests: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        signers: startup.signers.clone(),
        duration: startup.settings::<Settings>().cluster_signing_duration,
        clock: startup.world.clock.clone(),
    };
    controller.watches(itself::<CertificateSigningRequest>).workers(WORKERS).run(reconciler);
}

impl Reconciler for Signing {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(request) = self.requests.get(key) else { return Ok(Next::Settled) };
        let Some(signer) = self.signers.get(request.spec.signer_name.as_str()) else {
            return Ok(Next::Settled);
        };
        let failed = |source| Error::Sign { request: key.clone(), source };
        let mut changed = CertificateSigningRequest::clone(&request);
        match plan::plan(&request, self.duration, self.clock.now()) {
            Action::Nothing => return Ok(Next::Settled),
            Action::Fail(message) => {
                let reason = "SignerValidationFailure";
                certificates::decide(&mut changed, FAILED, reason, message);
            }
            Action::Sign(wish) => {
                let end = signer.not_after().map_err(failed)?;
                let now = self.clock.now();
                let terms = plan::terms(wish, end, now).map_err(|it| failed(it.into()))?;
                let der = verified(&request.spec.request).map_err(|it| failed(it.into()))?;
                let pem = signer.sign(&der, &terms).map_err(failed)?;
                let status = changed.status.get_or_insert_default();
                status.certificate = Some(ByteString(pem.into_bytes()));
            }
        }
        let written = self.api.update_status(changed).await.unless_gone();
        let written = written.map_err(Failed::to::<CertificateSigningRequest>("sign", key))?;
        if let Some(written) = written {
            self.writes.changed(key, &request, written.meta());
        }
        Ok(Next::Settled)
    }
}
