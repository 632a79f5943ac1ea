//! Who approves or denies a request for a certificate has the permission to, for its signer.

#[cfg(test)]
mod tests;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::APPROVAL;
use apimachinery::ApiError;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;
use crate::plugins::signers;

pub struct CertificateApproval;

/// The signer is the one that was asked for, whatever is written now.
async fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let Some(request) = context.old_as::<CertificateSigningRequest>() else { return Ok(()) };
    let why = "user not permitted to approve requests with signerName";
    signers::authorize(context, "approve", &request.spec.signer_name, why).await
}

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Update
            && request.is("certificates.k8s.io", "certificatesigningrequests", APPROVAL)
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async move { validate(context).await.map(|()| None) })
    }
}
