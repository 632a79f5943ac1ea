//! The certificate that was issued: for the key that was asked for, and for the time that it says.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1beta1::{PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::certificates::{pem, request};
use crate::check::text;

const CHAIN_BYTES_MAX: usize = 100 * 1024;
const LABEL: &str = "CERTIFICATE";
const LIFETIME_MIN: SignedDuration = SignedDuration::from_hours(1);
/// Between the ends of a certificate's life and when its pod asks for another.
const REFRESH_MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// The first problem alone: later ones follow from it.
pub(super) fn validate(
    new: &PodCertificateRequest,
    stored: &PodCertificateRequest,
    errors: &mut FieldErrors,
) {
    let status = new.status.clone().unwrap_or_default();
    let path = Path::new("status");
    let path_chain = path.child("certificateChain");
    let chain = text(status.certificate_chain.as_ref());
    if chain.len() > CHAIN_BYTES_MAX {
        return errors.too_long(&path_chain, CHAIN_BYTES_MAX);
    }
    let mut refuse = |detail: &str| errors.invalid(&path_chain, chain, detail);
    let blocks = pem::blocks(chain);
    let Some((first, others)) = blocks.split_first() else {
        return refuse("issued certificate chain must contain at least one certificate");
    };
    if first.label != LABEL {
        let detail = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return refuse(detail);
    }
    let Ok(([], leaf)) = X509Certificate::from_der(&first.bytes) else {
        return refuse("leaf certificate does not parse as valid X.509");
    };
    let is_named_well = validate_names(&leaf, &path_chain, errors);
    if !is_for_key(&leaf, &stored.spec) {
        let detail = "leaf certificate was not issued to the requested public key";
        return errors.invalid(&path_chain, chain, detail);
    }
    let times = [
        ("notBefore", &status.not_before),
        ("notAfter", &status.not_after),
        ("beginRefreshAt", &status.begin_refresh_at),
    ];
    let is_timed = validate_presence(&times, &path, errors);
    if !is_named_well || !is_timed || !validate_times(&leaf, new, &path, errors) {
        return;
    }
    for block in others {
        let detail = if block.label != LABEL {
            "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
        } else if !matches!(X509Certificate::from_der(&block.bytes), Ok(([], _))) {
            "intermediate certificate does not parse as valid X.509"
        } else {
            continue;
        };
        return errors.invalid(&path_chain, chain, detail);
    }
}

/// Whether every name could be one.
fn validate_names(leaf: &X509Certificate<'_>, path: &Path, errors: &mut FieldErrors) -> bool {
    let names = leaf.subject_alternative_name().ok().flatten();
    let mut is_well = true;
    let mut refuse = |name: &str, detail: &str| {
        is_well = false;
        errors.invalid(path, name, detail);
    };
    for name in names.iter().flat_map(|it| &it.value.general_names) {
        match name {
            GeneralName::DNSName(name) => {
                if name.is_empty() {
                    refuse(name, "leaf certificate should not contain empty DNSName");
                }
                if name.contains("..") {
                    refuse(name, "leaf certificate's DNSName should not contain '..'");
                }
                if name.starts_with('.') || name.ends_with('.') {
                    let detail = "leaf certificate's DNSName should not start or end with '.'";
                    refuse(name, detail);
                }
            }
            GeneralName::RFC822Name(name) if !is_mail_address(name) => {
                refuse(name, "leaf certificate should not contain invalid EmailAddress");
            }
            _ => {}
        }
    }
    is_well
}

fn is_mail_address(text: &str) -> bool {
    let is_plain = |it: &str| {
        !it.is_empty()
            && it.bytes().all(|it| it.is_ascii_graphic() && !b"<>()[],;:\\\"".contains(&it))
    };
    text.rsplit_once('@').is_some_and(|(who, domain)| {
        is_plain(who) && !who.contains('@') && is_plain(domain) && !domain.starts_with('.')
    })
}

fn is_for_key(leaf: &X509Certificate<'_>, spec: &PodCertificateRequestSpec) -> bool {
    let stub = &spec.stub_pkc_s10_request.0;
    if stub.is_empty() {
        let key = spec.pkix_public_key.as_ref();
        return key.is_some_and(|it| it.0 == leaf.public_key().raw);
    }
    request::parse(stub)
        .is_ok_and(|it| it.certification_request_info.subject_pki.raw == leaf.public_key().raw)
}

fn validate_presence(
    times: &[(&str, &Option<Time>)],
    path: &Path,
    errors: &mut FieldErrors,
) -> bool {
    for (field, _) in times.iter().filter(|(_, time)| time.is_none()) {
        let detail = match *field {
            "beginRefreshAt" => {
                "must be present and in the range [notbefore+10min, notafter-10min]"
            }
            _ => "must be present and consistent with the issued certificate",
        };
        errors.required(&path.child(field), detail);
    }
    times.iter().all(|(_, time)| time.is_some())
}

/// Whether the times of the status are those of the certificate, and it lives as long as it may.
/// That it lives from now on is for whoever has a clock.
fn validate_times(
    leaf: &X509Certificate<'_>,
    new: &PodCertificateRequest,
    path: &Path,
    errors: &mut FieldErrors,
) -> bool {
    let status = new.status.clone().unwrap_or_default();
    let time = |it: &Option<Time>| it.as_ref().map(|it| it.0).unwrap_or_default();
    let (start, end) = (time(&status.not_before), time(&status.not_after));
    let refresh = time(&status.begin_refresh_at);
    let of = |seconds: i64| Timestamp::from_second(seconds).unwrap_or_default();
    let validity = leaf.validity();
    let (leaf_start, leaf_end) =
        (of(validity.not_before.timestamp()), of(validity.not_after.timestamp()));
    let lifetime = leaf_end.duration_since(leaf_start);
    let max = new.spec.max_expiration_seconds.unwrap_or_default();
    let (field, value, detail) = if start != leaf_start {
        let detail = "must be set to the NotBefore time encoded in the leaf certificate";
        ("notBefore", start.to_string(), detail.to_owned())
    } else if end != leaf_end {
        let detail = "must be set to the NotAfter time encoded in the leaf certificate";
        ("notAfter", end.to_string(), detail.to_owned())
    } else if lifetime < LIFETIME_MIN {
        let detail = "leaf certificate lifetime must be >= 1 hour";
        ("certificateChain", format!("{lifetime:#}"), detail.to_owned())
    } else if lifetime > SignedDuration::from_secs(i64::from(max)) {
        let detail =
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})");
        ("certificateChain", format!("{lifetime:#}"), detail)
    } else if refresh.duration_since(start) < REFRESH_MARGIN {
        let detail = "must be at least 10 minutes after status.notBefore";
        ("beginRefreshAt", refresh.to_string(), detail.to_owned())
    } else if end.duration_since(refresh) < REFRESH_MARGIN {
        let detail = "must be at least 10 minutes before status.notAfter";
        ("beginRefreshAt", refresh.to_string(), detail.to_owned())
    } else {
        return true;
    };
    errors.invalid(&path.child(field), value, &detail);
    false
}
