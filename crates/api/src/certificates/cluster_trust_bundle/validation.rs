//! What is wrong with a ClusterTrustBundle.

use std::collections::BTreeMap;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use crate::certificates::pem::{self, Block};
use crate::certificates::signer_name;
use crate::check::{self, text};

const BUNDLE_BYTES_MAX: usize = 1024 * 1024;
/// Stands for what is too long to show.
const OMITTED: &str = "<value omitted>";

pub(super) fn validate(bundle: &ClusterTrustBundle, errors: &mut FieldErrors) {
    let signer = text(bundle.spec.signer_name.as_ref());
    let name = text(bundle.metadata.name.as_ref());
    // No name at all is said of every kind alike.
    if !name.is_empty() {
        let path = Path::new("metadata").child("name");
        check::format(name, &name_problems(name, signer), &path, errors);
    }
    if !signer.is_empty() {
        signer_name::validate(signer, &Path::new("spec").child("signerName"), errors);
    }
}

/// A bundle of a signer is named after it.
pub(crate) fn name_problems(name: &str, signer: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            let why = "ClusterTrustBundle without signer name must not have \":\" in its name";
            return vec![why.to_owned()];
        }
        return is_dns_subdomain(name);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => is_dns_subdomain(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

/// Anchors that are there already are not read again.
pub(super) fn validate_update(
    bundle: &ClusterTrustBundle,
    stored: &ClusterTrustBundle,
    errors: &mut FieldErrors,
) {
    if bundle.spec.trust_bundle != stored.spec.trust_bundle {
        validate_anchors(bundle, errors);
    }
    let signer = text(bundle.spec.signer_name.as_ref());
    let is_same = signer == text(stored.spec.signer_name.as_ref());
    check::immutable(is_same, signer, &Path::new("spec").child("signerName"), errors);
}

/// Certificates of authorities, each there once.
pub(super) fn validate_anchors(bundle: &ClusterTrustBundle, errors: &mut FieldErrors) {
    let path = Path::new("spec").child("trustBundle");
    if bundle.spec.trust_bundle.len() > BUNDLE_BYTES_MAX {
        return errors.too_long(&path, BUNDLE_BYTES_MAX);
    }
    let blocks = pem::blocks(&bundle.spec.trust_bundle);
    let problems = blocks.iter().map(anchor_problem).enumerate();
    let problems: Vec<String> = problems
        .filter_map(|(index, problem)| Some(format!("entry {index} {}", problem?)))
        .collect();
    if !problems.is_empty() {
        problems.iter().for_each(|it| errors.invalid(&path, OMITTED, it));
        return;
    }
    if blocks.is_empty() {
        errors.invalid(&path, OMITTED, "at least one trust anchor must be provided");
    }
    let mut places: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    for (index, block) in blocks.iter().enumerate() {
        places.entry(&block.bytes).or_default().push(index.to_string());
    }
    for indices in places.values().filter(|it| it.len() > 1) {
        let detail = format!("duplicate trust anchor (indices [{}])", indices.join(" "));
        errors.invalid(&path, OMITTED, &detail);
    }
}

fn anchor_problem(block: &Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    let Ok(([], certificate)) = X509Certificate::from_der(&block.bytes) else {
        return Some("does not parse as X.509".to_owned());
    };
    match certificate.basic_constraints() {
        Ok(Some(constraints)) if constraints.value.ca => None,
        Ok(_) => Some("does not have the CA bit set".to_owned()),
        Err(_) => Some("has invalid basic constraints".to_owned()),
    }
}
