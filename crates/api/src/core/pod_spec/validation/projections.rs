//! The sources of a projected volume: what each says, one in each, and no two at one path.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::validate_label_selector;

use crate::certificates::cluster_trust_bundle::name_problems;
use crate::certificates::pod_certificate_request::{
    expiration_seconds_max, validate_user_annotations,
};
use crate::certificates::signer_name;
use crate::check::text;
use crate::codec;
use crate::core::volume_sources::relative;

use super::downward;
use super::volumes::validate_items;

const KEY_TYPES: &[&str] =
    &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_SECONDS_MIN: i32 = 3600;

pub(super) fn validate_sources(
    projected: &ProjectedVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut paths = Paths { taken: BTreeSet::new(), path };
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let path = path.child("sources").index(index);
        validate_objects(source, &path, &mut paths, errors);
        if let Some(token) = &source.service_account_token {
            validate_token(token, &path.child("serviceAccountToken"), errors);
        }
        if let Some(bundle) = &source.cluster_trust_bundle {
            validate_bundle(bundle, &path.child("clusterTrustBundle"), errors);
            paths.take(&bundle.path, errors);
        }
        if let Some(certificate) = &source.pod_certificate {
            let path = path.child("podCertificate");
            validate_certificate(certificate, &path, &mut paths, errors);
        }
        if n_sources(source) > 1 {
            errors.forbidden(&path, "may not specify more than 1 volume type per source");
        }
    }
}

fn n_sources(source: &VolumeProjection) -> usize {
    [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ]
    .into_iter()
    .filter(|it| *it)
    .count()
}

/// Where sources put their files.
struct Paths<'a> {
    taken: BTreeSet<String>,
    /// Of the volume, which is at fault.
    path: &'a Path,
}

impl Paths<'_> {
    fn take(&mut self, file: &str, errors: &mut FieldErrors) {
        self.take_as(file, file, errors);
    }

    /// `shown` is the value that the error names.
    fn take_as(&mut self, file: &str, shown: &str, errors: &mut FieldErrors) {
        if !self.taken.insert(file.to_owned()) {
            errors.invalid(self.path, shown, "conflicting duplicate paths");
        }
    }
}

fn validate_objects(
    source: &VolumeProjection,
    path: &Path,
    paths: &mut Paths<'_>,
    errors: &mut FieldErrors,
) {
    let secret = source.secret.as_ref().map(|it| ("secret", &it.name, &it.items));
    let config_map = source.config_map.as_ref().map(|it| ("configMap", &it.name, &it.items));
    for (field, name, items) in [secret, config_map].into_iter().flatten() {
        let path = path.child(field);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        validate_items(items.as_deref(), &path.child("items"), errors);
        for item in items.iter().flatten().filter(|it| !it.path.is_empty()) {
            paths.take_as(&item.path, name, errors);
        }
    }
    for file in source.downward_api.iter().flat_map(|it| it.items.iter().flatten()) {
        downward::validate_file(file, &path.child("downwardAPI"), errors);
        if !file.path.is_empty() {
            paths.take(&file.path, errors);
        }
    }
}

fn validate_token(token: &ServiceAccountTokenProjection, path: &Path, errors: &mut FieldErrors) {
    let path_seconds = path.child("expirationSeconds");
    let seconds = token.expiration_seconds.unwrap_or_default();
    if seconds < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&path_seconds, seconds, detail);
    } else if seconds > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&path_seconds, seconds, detail);
    }
    if token.path.is_empty() {
        errors.required(&path.child("path"), "");
    } else {
        relative(&token.path, &path.child("path"), errors);
    }
}

fn validate_bundle(bundle: &ClusterTrustBundleProjection, path: &Path, errors: &mut FieldErrors) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => {
            let detail = "only one of name and signerName may be used";
            errors.invalid(path, codec::tree(bundle), detail);
        }
        (Some(name), None) => validate_bundle_name(bundle, name, path, errors),
        (None, Some(signer)) => {
            let path_signer = path.child("signerName");
            if signer.is_empty() {
                errors.required(&path_signer, "must be a valid signer name");
            }
            signer_name::validate(signer, &path_signer, errors);
            if let Some(selector) = &bundle.label_selector {
                validate_label_selector(selector, &path.child("labelSelector"), errors);
            }
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
    if bundle.path.is_empty() {
        errors.required(&path.child("path"), "");
    }
    validate_file(&bundle.path, &path.child("path"), errors);
}

fn validate_bundle_name(
    bundle: &ClusterTrustBundleProjection,
    name: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path_name = path.child("name");
    if name.is_empty() {
        errors.required(&path_name, "must be a valid object name");
    }
    // The name of a signer's bundle begins with the signer's, in which it has `:` for `/`.
    let signer = name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/"));
    for message in name_problems(name, &signer.unwrap_or_default()) {
        let detail = format!("not a valid clustertrustbundlename: {message}");
        errors.invalid(&path_name, name, &detail);
    }
    if let Some(selector) = &bundle.label_selector {
        let detail = "labelSelector must be unset if name is specified";
        errors.invalid(&path.child("labelSelector"), codec::tree(selector), detail);
    }
}

fn validate_certificate(
    certificate: &PodCertificateProjection,
    path: &Path,
    paths: &mut Paths<'_>,
    errors: &mut FieldErrors,
) {
    signer_name::validate(&certificate.signer_name, &path.child("signerName"), errors);
    if let Some(annotations) = &certificate.user_annotations {
        validate_user_annotations(annotations, &path.child("userAnnotations"), errors);
    }
    if !KEY_TYPES.contains(&certificate.key_type.as_str()) {
        errors.not_supported(&path.child("keyType"), certificate.key_type.as_str(), KEY_TYPES);
    }
    if let Some(seconds) = certificate.max_expiration_seconds {
        let path = path.child("maxExpirationSeconds");
        if seconds < CERTIFICATE_SECONDS_MIN {
            let detail = "if provided, maxExpirationSeconds must be >= 3600";
            errors.invalid(&path, seconds, detail);
        }
        let max = expiration_seconds_max(&certificate.signer_name);
        if seconds > max {
            let detail = format!("if provided, maxExpirationSeconds must be <= {max}");
            errors.invalid(&path, seconds, &detail);
        }
    }
    let files = [
        ("credentialBundlePath", text(certificate.credential_bundle_path.as_ref())),
        ("keyPath", text(certificate.key_path.as_ref())),
        ("certificateChainPath", text(certificate.certificate_chain_path.as_ref())),
    ];
    for (field, file) in files.into_iter().filter(|it| !it.1.is_empty()) {
        validate_file(file, &path.child(field), errors);
        paths.take(file, errors);
    }
    if files.iter().all(|it| it.1.is_empty()) {
        let detail =
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, detail);
    }
}

/// A path below the volume that is not one of those that volumes have for themselves.
fn validate_file(file: &str, path: &Path, errors: &mut FieldErrors) {
    relative(file, path, errors);
    if file.starts_with("..") && !file.starts_with("../") && file != ".." {
        errors.invalid(path, file, "must not start with '..'");
    }
}
