//! Nobody becomes one of the masters by a certificate of the API server's clients.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::asked;
use apimachinery::ApiError;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

pub struct CertificateSubjectRestriction;

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let request = context.object_as::<CertificateSigningRequest>();
    let Some(request) = request.filter(|it| it.spec.signer_name == SIGNER) else { return Ok(()) };
    let asked = asked(&request.spec.request);
    let asked = asked.map_err(|why| context.forbidden(&format!("failed to parse CSR: {why}")))?;
    if asked.organizations.iter().any(|it| it == MASTERS) {
        let why = format!("use of {SIGNER} signer with {MASTERS} group is not allowed");
        return Err(context.forbidden(&why));
    }
    Ok(())
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Create
            && request.is("certificates.k8s.io", "certificatesigningrequests", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(validate(context).map(|()| None)))
    }
}
