//! Asks the cluster for a certificate (CertificateSigningRequest) and waits until it is signed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{DENIED, FAILED, decisions};
use apimachinery::ApiError;
use authn::pki::{Identity, Subject, Wanted};
use client::{Client, ListOptions};
use futures_util::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stdx::World;

use super::Refusal;

/// Between watches that ended.
const RETRY: Duration = Duration::from_millis(200);

/// What is asked for.
pub(super) struct Wish<'a> {
    /// And the usage of the certificate.
    pub(super) signer: (&'a str, &'a str),
    pub(super) subject: &'a Subject,
    pub(super) patience: Duration,
}

/// `what` is named where it fails.
pub(super) async fn ask(
    client: &Client,
    wish: &Wish<'_>,
    what: &str,
    world: &World,
) -> Result<Identity> {
    let (signer, usage) = wish.signer;
    let wanted = Wanted::create(wish.subject)?;
    let name = format!("xebec-{}", world.random.uuid());
    let request = CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(wanted.request_pem.into_bytes()),
            signer_name: signer.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), usage.to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let created = client.api::<CertificateSigningRequest>().create(request).await;
    created.with_context(|| format!("asking for the certificate of {what}"))?;
    let waiting = tokio::time::timeout(wish.patience, wait(client, &name, what));
    let unsigned = || Refusal::NotSigned {
        what: what.to_owned(),
        seconds: wish.patience.as_secs(),
        request: name.clone(),
    };
    let certificate = waiting.await.map_err(|_| unsigned())??;
    let certificate_pem = String::from_utf8(certificate).context("reading the certificate")?;
    Ok(Identity { certificate_pem, private_key_pem: wanted.private_key_pem })
}

/// Of one request, which is followed.
async fn wait(client: &Client, name: &str, what: &str) -> Result<Vec<u8>> {
    let requests = client.api::<CertificateSigningRequest>();
    loop {
        let known = requests.get("", name).await.context("looking at the request")?;
        if let Some(certificate) = issued(&known, what)? {
            return Ok(certificate);
        }
        let options = ListOptions {
            field_selector: Some(format!("metadata.name={name}")),
            resource_version: known.metadata.resource_version.clone(),
            ..ListOptions::default()
        };
        // Whatever it says, the request is looked at again.
        if let Ok(mut changes) = requests.watch("", options).await {
            let _ = changes.next().await;
        } else {
            tokio::time::sleep(RETRY).await;
        }
    }
}

fn issued(request: &Arc<CertificateSigningRequest>, what: &str) -> Result<Option<Vec<u8>>> {
    let refused = decisions(request).iter().find(|it| it.type_ == DENIED || it.type_ == FAILED);
    if let Some(refused) = refused {
        let why = refused.message.clone().or_else(|| refused.reason.clone());
        let refusal = Refusal::Denied { what: what.to_owned(), why: why.unwrap_or_default() };
        return Err(refusal.into());
    }
    let certificate = request.status.as_ref().and_then(|it| it.certificate.clone());
    Ok(certificate.map(|it| it.0).filter(|it| !it.is_empty()))
}

/// Whether the server does not know who asks.
pub(crate) fn is_unauthorized(err: &anyhow::Error) -> bool {
    let mut causes = err.chain().filter_map(|it| it.downcast_ref::<ApiError>());
    causes.any(|it| it.code() == 401)
}
