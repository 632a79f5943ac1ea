//! Requests for certificates (PKCS #10, RFC 2986): what they ask for, and whether whoever asks has
//! the key.

use std::net::IpAddr;

use k8s_openapi::ByteString;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pem;
use super::signature;

const LABEL: &str = "CERTIFICATE REQUEST";

/// What is asked for, as far as anybody here looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Of the subject: the user, where the certificate is a user's.
    pub common_name: String,
    /// Of the subject: the groups, where the certificate is a user's.
    pub organizations: Vec<String>,
    /// Under which other names the subject goes.
    pub names: AlternativeNames,
}

/// What a certificate is good for beside its subject: servers, mostly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub dns: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub uris: Vec<String>,
}

impl AlternativeNames {
    /// As a request asks for them; what is of no known sort is left out, as upstream.
    pub fn of(request: &X509CertificationRequest<'_>) -> Self {
        let mut names = Self::default();
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(extension) = extension else { continue };
            for name in &extension.general_names {
                names.add(name);
            }
        }
        names
    }

    fn add(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(it) => self.dns.push((*it).to_owned()),
            GeneralName::RFC822Name(it) => self.emails.push((*it).to_owned()),
            GeneralName::URI(it) => self.uris.push((*it).to_owned()),
            GeneralName::IPAddress(it) => self.addresses.extend(address(it)),
            _ => {}
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4().or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The first block of the text.
fn der(text: &ByteString) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(&text.0);
    let first = pem::blocks(&text).into_iter().next();
    let block = first.filter(|it| it.label == LABEL);
    block.map(|it| it.bytes).ok_or_else(|| format!("PEM block type must be {LABEL}"))
}

pub(super) fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    match X509CertificationRequest::from_der(der) {
        Ok(([], request)) => Ok(request),
        Ok(_) => Err("asn1: syntax error: trailing data".to_owned()),
        Err(_) => Err("asn1: structure error: this is no certificate request".to_owned()),
    }
}

/// What a request asks for; whether whoever asks has the key is not looked at.
pub fn asked(text: &ByteString) -> Result<Asked, String> {
    let der = der(text)?;
    let request = parse(&der)?;
    let subject = &request.certification_request_info.subject;
    let texts = subject.iter_organization().filter_map(|it| it.as_str().ok());
    // Of several the last counts, as upstream.
    let name = subject.iter_common_name().filter_map(|it| it.as_str().ok()).last();
    Ok(Asked {
        common_name: name.unwrap_or_default().to_owned(),
        organizations: texts.map(str::to_owned).collect(),
        names: AlternativeNames::of(&request),
    })
}

/// The request in DER, if whoever asks has the key.
pub fn verified(text: &ByteString) -> Result<Vec<u8>, String> {
    let der = der(text)?;
    check_signature(&parse(&der)?)?;
    Ok(der)
}

/// Why it cannot be signed by anybody.
pub(super) fn check(text: &ByteString) -> Result<(), String> {
    let der = der(text)?;
    check_signature(&parse(&der)?)
}

pub(super) fn check_signature(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    let key: &SubjectPublicKeyInfo<'_> = &request.certification_request_info.subject_pki;
    signature::check(
        key,
        &request.signature_algorithm,
        &request.signature_value.data,
        request.certification_request_info.raw,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> ByteString {
        ByteString(text.as_bytes().to_vec())
    }

    #[test]
    fn requests_of_every_sort_of_key_are_read() {
        for text in [
            include_str!("../../testdata/request.pem"),
            include_str!("../../testdata/request-p521.pem"),
            include_str!("../../testdata/request-rsa.pem"),
            include_str!("../../testdata/request-ed25519.pem"),
        ] {
            assert_eq!(check(&bytes(text)), Ok(()));
        }
        let nodes = asked(&bytes(include_str!("../../testdata/request.pem"))).unwrap();
        assert_eq!(nodes.organizations, ["system:nodes"]);
        assert_eq!(nodes.common_name, "system:node:web");
    }

    #[test]
    fn what_is_no_request_is_said() {
        let label = "PEM block type must be CERTIFICATE REQUEST";
        assert_eq!(check(&bytes("")), Err(label.to_owned()));
        assert_eq!(
            check(&bytes(include_str!("../../testdata/authority.pem"))),
            Err(label.to_owned())
        );
        let other = include_str!("../../testdata/authority.pem").replace("TE-", "TE REQUEST-");
        assert!(check(&bytes(&other)).unwrap_err().starts_with("asn1: structure error"));
    }

    #[test]
    fn who_does_not_have_the_key_cannot_ask() {
        for (text, why) in [
            (include_str!("../../testdata/request.pem"), "x509: ECDSA verification failure"),
            (include_str!("../../testdata/request-rsa.pem"), "crypto/rsa: verification error"),
            (
                include_str!("../../testdata/request-ed25519.pem"),
                "x509: Ed25519 verification failure",
            ),
        ] {
            let mut der = der(&bytes(text)).unwrap();
            let last = der.len() - 1;
            der[last] ^= 1;
            let request = parse(&der).unwrap();
            assert_eq!(check_signature(&request), Err(why.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes).map(|it| check_signature(&it));
            let _ = check(&ByteString(bytes));
        }

        #[test]
        fn a_request_that_was_tampered_with_is_read_or_refused(
            changes in prop::collection::vec((0_usize..240, any::<u8>()), 1..4),
        ) {
            let mut der = der(&bytes(include_str!("../../testdata/request.pem"))).unwrap();
            for (at, to) in changes {
                if let Some(byte) = der.get_mut(at) {
                    *byte = to;
                }
            }
            let _ = parse(&der).map(|it| check_signature(&it));
        }
    }
}
