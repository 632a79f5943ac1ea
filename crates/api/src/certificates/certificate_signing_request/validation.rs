//! What is wrong with a CertificateSigningRequest.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::APPROVAL;
use super::conditions::{APPROVED, DENIED, FAILED, all, of};
use crate::certificates::{pem, request, signer_name};
use crate::kind::Part;
use crate::{codec, semantic};

/// What requests had before they named a signer.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i32 = 600;
const STATUSES: &[&str] = &["False", "True", "Unknown"];
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn certificate(request: &CertificateSigningRequest) -> &[u8] {
    let status = request.status.as_ref();
    status.and_then(|it| it.certificate.as_ref()).map_or(&[], |it| it.0.as_slice())
}

/// What was stored before it was checked may stay.
struct Tolerated {
    signer: bool,
    unknown_usages: bool,
    same_usages: bool,
    same_types: bool,
    empty_types: bool,
    both_decisions: bool,
    certificate: bool,
}

impl Tolerated {
    fn of(new: &CertificateSigningRequest, stored: &CertificateSigningRequest) -> Self {
        let usages = stored.spec.usages.as_deref().unwrap_or_default();
        let types: Vec<&str> = all(stored).iter().map(|it| it.type_.as_str()).collect();
        let has = |type_: &str| types.contains(&type_);
        let is_certificate_same = certificate(new) == certificate(stored);
        Self {
            signer: stored.spec.signer_name == LEGACY_SIGNER,
            unknown_usages: usages.iter().any(|it| !USAGES.contains(&it.as_str())),
            same_usages: usages.iter().collect::<BTreeSet<_>>().len() < usages.len(),
            same_types: types.iter().collect::<BTreeSet<_>>().len() < types.len(),
            empty_types: has(""),
            both_decisions: has(APPROVED) && has(DENIED),
            certificate: is_certificate_same || certificate_problem(certificate(stored)).is_some(),
        }
    }
}

pub(super) fn validate(
    new: &CertificateSigningRequest,
    stored: Option<&CertificateSigningRequest>,
    errors: &mut FieldErrors,
) {
    let tolerated = stored.map(|it| Tolerated::of(new, it));
    let tolerates = |which: fn(&Tolerated) -> bool| tolerated.as_ref().is_some_and(which);
    let (spec, path) = (&new.spec, Path::new("spec"));
    if let Err(why) = request::check(&spec.request) {
        let is_none = spec.request.0.is_empty();
        let shown = if is_none { Value::Null } else { codec::tree(&spec.request) };
        errors.invalid(&path.child("request"), shown, &why);
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    let (unknown, same) = (tolerates(|it| it.unknown_usages), tolerates(|it| it.same_usages));
    validate_usages(usages, (unknown, same), &path.child("usages"), errors);
    let path_signer = path.child("signerName");
    if spec.signer_name == LEGACY_SIGNER && !tolerates(|it| it.signer) {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.invalid(&path_signer, spec.signer_name.as_str(), detail);
    } else {
        signer_name::validate(&spec.signer_name, &path_signer, errors);
    }
    if let Some(seconds) = spec.expiration_seconds.filter(|it| *it < EXPIRATION_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&path.child("expirationSeconds"), seconds, detail);
    }
    validate_conditions(new, tolerated.as_ref(), errors);
    if !tolerates(|it| it.certificate)
        && let Some(why) = certificate_problem(certificate(new))
    {
        let path = Path::new("status").child("certificate");
        errors.invalid(&path, "<certificate data>", &why);
    }
}

fn validate_usages(
    usages: &[String],
    (allows_unknown, allows_same): (bool, bool),
    path: &Path,
    errors: &mut FieldErrors,
) {
    if usages.is_empty() {
        errors.required(path, "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !allows_unknown && !USAGES.contains(&usage.as_str()) {
            errors.not_supported(&path.index(index), usage.as_str(), USAGES);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !seen.insert(usage) && !allows_same {
            errors.duplicate(&path.index(index), usage.as_str());
        }
    }
}

fn validate_conditions(
    new: &CertificateSigningRequest,
    tolerated: Option<&Tolerated>,
    errors: &mut FieldErrors,
) {
    let path = Path::new("status").child("conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in all(new).iter().enumerate() {
        let (type_, path_one) = (condition.type_.as_str(), path.index(index));
        if type_.is_empty() && !tolerated.is_some_and(|it| it.empty_types) {
            errors.required(&path_one.child("type"), "");
        }
        // A decision is not taken back by saying that it is not so.
        let is_decision = [APPROVED, DENIED, FAILED].contains(&type_);
        let statuses = if is_decision { &["True"] } else { STATUSES };
        crate::check::one_of(&condition.status, statuses, &path_one.child("status"), errors);
        let other = match type_ {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if other.is_some_and(|it| seen.contains(it))
            && !tolerated.is_some_and(|it| it.both_decisions)
        {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&path, type_, detail);
        }
        if !seen.insert(type_) && !tolerated.is_some_and(|it| it.same_types) {
            errors.duplicate(&path_one.child("type"), type_);
        }
    }
}

/// Decisions stay; who may take them, and who may sign, is a matter of the door.
pub(super) fn validate_update(
    new: &CertificateSigningRequest,
    stored: &CertificateSigningRequest,
    part: Part,
    errors: &mut FieldErrors,
) {
    let path = Path::new("status").child("conditions");
    for type_ in [APPROVED, DENIED, FAILED] {
        if of(new, type_).len() < of(stored, type_).len() {
            let detail = format!("updates may not remove a condition of type {type_:?}");
            errors.forbidden(&path, &detail);
        }
    }
    let approvals = if part == Part::Other(APPROVAL) { &[][..] } else { &[APPROVED, DENIED] };
    for type_ in approvals {
        let (new, old) = (of(new, type_), of(stored, type_));
        if new.len() > old.len() {
            let detail = format!("updates may not add a condition of type {type_:?}");
            errors.forbidden(&path, &detail);
        } else if new.len() == old.len() && !semantic::equal(&new, &old) {
            let detail = format!("updates may not modify a condition of type {type_:?}");
            errors.forbidden(&path, &detail);
        }
    }
    if certificate(new) != certificate(stored) {
        let path = Path::new("status").child("certificate");
        if part != Part::Status {
            errors.forbidden(&path, "updates may not set certificate content");
        } else if !certificate(stored).is_empty() {
            errors.forbidden(&path, "updates may not modify existing certificate content");
        }
    }
}

/// None at all is none that is wrong.
fn certificate_problem(text: &[u8]) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let blocks = pem::blocks(&String::from_utf8_lossy(text));
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            let label = block.label;
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut rest = block.bytes.as_slice();
        while !rest.is_empty() {
            match X509Certificate::from_der(rest) {
                Ok((after, _)) => rest = after,
                Err(_) => return Some("x509: malformed certificate".to_owned()),
            }
        }
    }
    None
}
