//! The key that a certificate is asked for, and whether whoever asks has it.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequestSpec;
use serde_json::Value;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::invalid_unshown;
use crate::certificates::request;
use crate::certificates::signature::{self, Key};
use crate::codec;

const BYTES_MAX: usize = 10 * 1024;
const RSA_BITS: [usize; 2] = [3072, 4096];

/// A request in which nothing but the key counts.
pub(super) fn validate_stub(
    spec: &PodCertificateRequestSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("stubPKCS10Request");
    let der = &spec.stub_pkc_s10_request.0;
    if der.len() > BYTES_MAX {
        return errors.too_long(&path, BYTES_MAX);
    }
    let Ok(request) = request::parse(der) else {
        return invalid_unshown(&path, "must be a valid PKCS#10 CSR", errors);
    };
    let key = Key::of(&request.certification_request_info.subject_pki);
    let curves = "elliptic public keys must use curve P256, P384, or P521";
    if let Some((value, detail)) = key_problem(key, curves) {
        return match value {
            Value::Null => invalid_unshown(&path, detail, errors),
            value => errors.invalid(&path, value, detail),
        };
    }
    if request::check_signature(&request).is_err() {
        invalid_unshown(&path, "invalid signature", errors);
    }
}

/// A key alone, with the pod's uid signed by it.
pub(super) fn validate_bare(
    spec: &PodCertificateRequestSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let empty = ByteString::default();
    let bytes = spec.pkix_public_key.as_ref().unwrap_or(&empty);
    let proof = spec.proof_of_possession.as_ref().unwrap_or(&empty);
    let (path_key, path_proof) = (path.child("pkixPublicKey"), path.child("proofOfPossession"));
    for (bytes, path) in [(bytes, &path_key), (proof, &path_proof)] {
        if bytes.0.len() > BYTES_MAX {
            return errors.too_long(path, BYTES_MAX);
        }
    }
    let Ok(([], key)) = SubjectPublicKeyInfo::from_der(&bytes.0) else {
        let detail = "must be a valid PKIX-serialized public key";
        return errors.invalid(&path_key, codec::tree(bytes), detail);
    };
    let curves = "elliptic public keys must use curve P256 or P384";
    if let Some((value, detail)) = key_problem(Key::of(&key), curves) {
        let value = if value.is_null() { codec::tree(bytes) } else { value };
        return errors.invalid(&path_key, value, detail);
    }
    if !signature::is_signed_plainly(&key, &proof.0, spec.pod_uid.as_bytes()) {
        invalid_unshown(&path_proof, "could not verify proof-of-possession signature", errors);
    }
}

/// What is shown of a key that is not taken, and why it is not.
fn key_problem(key: Key, curves: &'static str) -> Option<(Value, &'static str)> {
    match key {
        Key::Ed25519 | Key::P256 | Key::P384 | Key::P521 => None,
        Key::Rsa(bits) if RSA_BITS.contains(&bits) => None,
        Key::Rsa(bits) => {
            let shown = Value::from(format!("{bits}-bit modulus"));
            Some((shown, "RSA keys must have modulus size 3072 or 4096"))
        }
        Key::Curve => Some((Value::from("another curve"), curves)),
        Key::Unknown => {
            let why = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
            Some((Value::Null, why))
        }
    }
}
