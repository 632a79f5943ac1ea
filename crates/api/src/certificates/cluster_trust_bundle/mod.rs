//! ClusterTrustBundle: whom to trust, under a name. Stored as v1beta1.

#[cfg(test)]
mod tests;
pub mod v1alpha1;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::certificates::pem;
use crate::check::text;
use crate::kind::{Part, Resource};
use crate::{cell, version};

pub use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
pub(crate) use validation::name_problems;

/// The certificates in a bundle, in DER, in order.
pub fn anchors(bundle: &ClusterTrustBundle) -> Vec<Vec<u8>> {
    pem::blocks(&bundle.spec.trust_bundle).into_iter().map(|it| it.bytes).collect()
}

const FIELDS: &[(&str, &str)] = &[("spec.signerName", "spec.signerName")];

impl Resource for ClusterTrustBundle {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "certificates.k8s.io/v1alpha1";
        is_known.then(|| version::convert_stored::<v1alpha1::ClusterTrustBundle, Self>(json))
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_anchors(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("SignerName", "string")] }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::or_none(text(self.spec.signer_name.as_ref()))]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", text(self.spec.signer_name.as_ref()).to_owned())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        FIELDS
    }
}
