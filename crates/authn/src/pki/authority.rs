//! The certificate authority: makes itself once, then signs servers and clients.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber, date_time_ymd,
};
use stdx::Random;

use super::{Error, Identity, not_after};

const DAY: u64 = 24 * 3600;
const VALIDITY_AUTHORITY: Duration = Duration::from_secs(10 * 365 * DAY);
const VALIDITY_LEAF: Duration = Duration::from_secs(365 * DAY);
/// Certificates begin this much in the past: clocks of other machines may be behind.
const SKEW: Duration = Duration::from_secs(5 * 60);

pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new, self-signed authority.
    pub fn create(common_name: &str, now: Timestamp, random: &Random) -> Result<Self, Error> {
        let mut params = params(now, VALIDITY_AUTHORITY, random);
        params.distinguished_name = subject(common_name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = new_key()?;
        let certificate = params.self_signed(&key).map_err(sign)?;
        Self::load(&certificate.pem(), &key.serialize_pem())
    }

    pub fn load(certificate_pem: &str, private_key_pem: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(private_key_pem).map_err(|err| Error::Key(err.to_string()))?;
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key)
            .map_err(|err| Error::Certificate(err.to_string()))?;
        Ok(Self { certificate_pem: certificate_pem.to_owned(), issuer })
    }

    /// What others verify with: `ca.crt`.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The authority with its own key, to be stored.
    pub fn identity(&self) -> Identity {
        Identity {
            certificate_pem: self.certificate_pem.clone(),
            private_key_pem: self.issuer.key().serialize_pem(),
        }
    }

    pub fn not_after(&self) -> Result<Timestamp, Error> {
        not_after(&self.certificate_pem)
    }

    pub(super) fn key(&self) -> &KeyPair {
        self.issuer.key()
    }

    /// A server that is reached under these names and addresses.
    pub fn issue_server(
        &self,
        common_name: &str,
        names: &[&str],
        addresses: &[IpAddr],
        now: Timestamp,
        random: &Random,
    ) -> Result<Identity, Error> {
        let mut params = params(now, VALIDITY_LEAF, random);
        params.distinguished_name = subject(common_name, &[])?;
        for name in names {
            let name = (*name).try_into().map_err(|_| Error::Name((*name).to_owned()))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A client that is the user `common_name` in the groups `organizations` (at most one).
    pub fn issue_client(
        &self,
        common_name: &str,
        organizations: &[&str],
        now: Timestamp,
        random: &Random,
    ) -> Result<Identity, Error> {
        let mut params = params(now, VALIDITY_LEAF, random);
        params.distinguished_name = subject(common_name, organizations)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Identity, Error> {
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = new_key()?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(sign)?;
        Ok(Identity { certificate_pem: certificate.pem(), private_key_pem: key.serialize_pem() })
    }
}

fn sign(err: rcgen::Error) -> Error {
    Error::Sign(err.to_string())
}

pub(super) fn new_key() -> Result<KeyPair, Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|err| Error::Key(err.to_string()))
}

fn params(now: Timestamp, validity: Duration, random: &Random) -> CertificateParams {
    let mut serial = [0u8; 16];
    random.fill(&mut serial);
    // Positive, and not zero.
    serial[0] = (serial[0] & 0x7f) | 0x01;
    let epoch = date_time_ymd(1970, 1, 1);
    let now = epoch + Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = now - SKEW;
    params.not_after = now + validity;
    params
}

fn subject(common_name: &str, organizations: &[&str]) -> Result<DistinguishedName, Error> {
    let mut subject = DistinguishedName::new();
    match organizations {
        [] => {}
        [organization] => subject.push(DnType::OrganizationName, *organization),
        // The certificate builder keeps one value per attribute.
        many => return Err(Error::Organizations(many.len())),
    }
    subject.push(DnType::CommonName, common_name);
    Ok(subject)
}
