//! CertificateSigningRequest: somebody asks for a certificate, somebody else approves, and a third
//! one signs. Each has a door of their own.

mod conditions;
mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::table::Column;
use apimachinery::{FieldErrors, User};
use jiff::Timestamp;
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::pem;
use crate::kind::{Part, Resource};

pub use super::request::{AlternativeNames, Asked, asked, verified};
pub use conditions::{APPROVED, DENIED, FAILED, all as decisions, fill_in_times};
pub use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

/// The subresource that approves and denies.
pub const APPROVAL: &str = "approval";
/// In `spec.extra` of requests that were made with a certificate of a node: since which revision it
/// is one of that node.
pub const NODE_SINCE: &str = "xebec.local/node-since";

impl Resource for CertificateSigningRequest {
    codec!();

    /// The status is always there.
    fn apply_defaults(&mut self) {
        self.status.get_or_insert_default();
    }

    /// Who asks is the server's to say, and nobody approves their own request with it.
    fn prepare_create(&mut self) {
        let spec = &mut self.spec;
        (spec.username, spec.uid, spec.groups, spec.extra) = (None, None, None, None);
        self.status = Some(Default::default());
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        self.spec = stored.spec.clone();
        match part {
            Part::Main => self.status.clone_from(&stored.status),
            Part::Other(_) => {
                let conditions = self.status.take().and_then(|it| it.conditions);
                let status = stored.status.clone().unwrap_or_default();
                self.status =
                    Some(k8s_openapi::api::certificates::v1::CertificateSigningRequestStatus {
                        conditions,
                        ..status
                    });
            }
            Part::Status => conditions::keep_approval(self, stored),
        }
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate(self, Some(stored), errors);
        validation::validate_update(self, stored, part, errors);
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", self.spec.signer_name.clone())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("spec.signerName", "spec.signerName")]
    }
}

/// Says who asks.
pub fn fill_in_user(request: &mut CertificateSigningRequest, user: &User) {
    let some = |it: &str| (!it.is_empty()).then(|| it.to_owned());
    let spec = &mut request.spec;
    spec.username = some(&user.name);
    spec.uid = some(&user.uid);
    spec.groups = (!user.groups.is_empty()).then(|| user.groups.clone());
    spec.extra = (!user.extra.is_empty()).then(|| user.extra.clone());
}

/// When the certificate ends, where there is one that can be read.
pub fn certificate_end(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let certificate = &request.status.as_ref()?.certificate.as_ref()?.0;
    let block = pem::blocks(&String::from_utf8_lossy(certificate)).into_iter().next()?;
    let (_, certificate) = X509Certificate::from_der(&block.bytes).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}
