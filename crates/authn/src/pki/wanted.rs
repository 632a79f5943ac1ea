//! A key with a request for its certificate (PKCS #10), for whoever is to ask somebody else.

use std::net::IpAddr;

use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, SanType};
use sha2::{Digest as _, Sha256};
use x509_parser::pem::parse_x509_pem;

use super::Error;
use super::authority::new_key;

/// Whose certificate it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organization: String,
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

pub struct Wanted {
    pub private_key_pem: String,
    pub request_pem: String,
}

impl Wanted {
    pub fn create(subject: &Subject) -> Result<Self, Error> {
        let key = new_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, subject.organization.as_str());
        params.distinguished_name.push(DnType::CommonName, subject.common_name.as_str());
        for name in &subject.names {
            let name = name.as_str().try_into().map_err(|_| Error::Name(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(subject.addresses.iter().map(|it| SanType::IpAddress(*it)));
        let request = params.serialize_request(&key);
        let request =
            request.and_then(|it| it.pem()).map_err(|err| Error::Sign(err.to_string()))?;
        Ok(Self { private_key_pem: key.serialize_pem(), request_pem: request })
    }
}

/// From when to when the first certificate in `pem` holds.
pub fn validity(pem: &str) -> Result<(Timestamp, Timestamp), Error> {
    read(pem, |it| {
        let at = |it: x509_parser::time::ASN1Time| Timestamp::from_second(it.timestamp());
        Some((at(it.validity().not_before).ok()?, at(it.validity().not_after).ok()?))
    })
}

/// SHA-256 of the public key of the first certificate in `pem`, in hexadecimal digits: what an
/// authority is known by, whatever certificates it has.
pub fn pin(pem: &str) -> Result<String, Error> {
    read(pem, |it| {
        let digest = Sha256::digest(it.public_key().raw);
        Some(digest.iter().map(|it| format!("{it:02x}")).collect())
    })
}

fn read<T>(
    pem: &str,
    look: impl FnOnce(&x509_parser::certificate::X509Certificate<'_>) -> Option<T>,
) -> Result<T, Error> {
    let unreadable = |err: String| Error::Certificate(err);
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|err| unreadable(err.to_string()))?;
    let certificate = pem.parse_x509().map_err(|err| unreadable(err.to_string()))?;
    look(&certificate).ok_or_else(|| unreadable("a time in it is none".to_owned()))
}

#[cfg(test)]
mod tests {
    use api::certificates::certificate_signing_request::{asked, verified};
    use jiff::Timestamp;
    use k8s_openapi::ByteString;
    use stdx::Random;

    use super::{Subject, Wanted, pin, validity};
    use crate::pki::Authority;

    #[test]
    fn a_request_says_who_it_is_for_and_proves_the_key() {
        let subject = Subject {
            common_name: "system:node:b".to_owned(),
            organization: "system:nodes".to_owned(),
            names: vec!["b".to_owned()],
            addresses: vec!["192.0.2.2".parse().unwrap(), "fd00::2".parse().unwrap()],
        };
        let wanted = Wanted::create(&subject).unwrap();
        let request = ByteString(wanted.request_pem.into_bytes());
        assert!(verified(&request).is_ok());
        let asked = asked(&request).unwrap();
        assert_eq!(
            (asked.common_name, asked.organizations),
            (subject.common_name, vec![subject.organization])
        );
        assert_eq!((asked.names.dns, asked.names.addresses), (subject.names, subject.addresses));
    }

    #[test]
    fn an_authority_is_known_by_its_key() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let authority = Authority::create("a", now, &Random::from_seed(1)).unwrap();
        let one = pin(authority.certificate_pem()).unwrap();
        assert_eq!(one.len(), 64);
        let other = Authority::create("a", now, &Random::from_seed(1)).unwrap();
        assert_ne!(one, pin(other.certificate_pem()).unwrap());
        let (begin, end) = validity(authority.certificate_pem()).unwrap();
        assert!(begin <= now && now < end);
        assert!(pin("no certificate").is_err());
    }
}
