//! Who signs a request for a certificate, or fails it, has the permission to, for its signer.

#[cfg(test)]
mod tests;

use api::certificates::CertificateSigningRequest;
use apimachinery::ApiError;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;
use crate::plugins::signers;

pub struct CertificateSigning;

/// Whoever leaves certificate and conditions as they are signs nothing.
fn is_signing(new: &CertificateSigningRequest, old: &CertificateSigningRequest) -> bool {
    let of = |it: &CertificateSigningRequest| {
        let status = it.status.clone().unwrap_or_default();
        let certificate = status.certificate.filter(|it| !it.0.is_empty());
        (certificate, status.conditions.unwrap_or_default())
    };
    of(new) != of(old)
}

async fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let new = context.object_as::<CertificateSigningRequest>();
    let old = context.old_as::<CertificateSigningRequest>();
    let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
    if !is_signing(new, old) {
        return Ok(());
    }
    let why = "user not permitted to sign requests with signerName";
    signers::authorize(context, "sign", &old.spec.signer_name, why).await
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Update
            && request.is("certificates.k8s.io", "certificatesigningrequests", "status")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async move { validate(context).await.map(|()| None) })
    }
}
