//! A client authority, as far as certificates without extensions need it: nothing in them can say
//! more than it does.

use rustls::pki_types::SignatureVerificationAlgorithm;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Version};

use super::der;

#[derive(Debug)]
pub(super) struct Authority {
    /// Encoded.
    subject: Vec<u8>,
    not_before: i64,
    not_after: i64,
    key: PublicKey,
}

impl Authority {
    /// `None` if it may not sign such certificates.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() || !may_sign(&certificate) {
            return None;
        }
        let validity = certificate.validity();
        Some(Self {
            subject: certificate.subject().as_raw().to_vec(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            key: PublicKey::read(certificate.public_key())?,
        })
    }

    pub(super) fn is_named(&self, issuer: &[u8]) -> bool {
        self.subject == issuer
    }

    pub(super) fn is_valid(&self, unix_seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&unix_seconds)
    }

    pub(super) fn key(&self) -> &PublicKey {
        &self.key
    }
}

/// As Go asks of the parent of a leaf: an authority by its basic constraints, which signs
/// certificates, for clients. One that limits names, or has a critical extension that nobody here
/// understands, is left to webpki: what it says about a certificate without names is not to be
/// guessed.
fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let mut is_authority = certificate.version() == X509Version::V1;
    for extension in certificate.extensions() {
        let is_fine = match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(it) => {
                is_authority = it.ca;
                it.ca
            }
            ParsedExtension::KeyUsage(it) => it.key_cert_sign(),
            ParsedExtension::ExtendedKeyUsage(it) => it.any || it.client_auth,
            ParsedExtension::NameConstraints(_) => false,
            _ => !extension.critical,
        };
        if !is_fine {
            return false;
        }
    }
    is_authority
}

/// As signatures are verified with it.
#[derive(Debug)]
pub(super) struct PublicKey {
    /// The content of the AlgorithmIdentifier, parameters included.
    algorithm: Vec<u8>,
    bits: Vec<u8>,
}

impl PublicKey {
    pub(super) fn read(info: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let [algorithm, bits] = der::elements(info.raw)?;
        let (algorithm, bits) = (der::content(algorithm)?, der::bytes(bits)?);
        Some(Self { algorithm: algorithm.to_vec(), bits: bits.to_vec() })
    }

    /// `None` if the algorithm is not for keys of this kind.
    pub(super) fn verify(
        &self,
        algorithm: &dyn SignatureVerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let is_for_this = algorithm.public_key_alg_id().as_ref() == self.algorithm;
        is_for_this.then(|| algorithm.verify_signature(&self.bits, message, signature).is_ok())
    }
}
