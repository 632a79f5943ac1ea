//! A client certificate of version 1: a name and a key, signed by an authority, without any
//! extension.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

use super::authority::{Authority, PublicKey};
use super::der;

pub(super) struct Version1<'a> {
    certificate: X509Certificate<'a>,
    /// What the signature is over.
    signed: &'a [u8],
    /// The content of the signature's AlgorithmIdentifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Version1<'a> {
    /// `None` for all others, and for what is no certificate: those are webpki's to judge.
    pub(super) fn read(certificate: &'a [u8]) -> Option<Self> {
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        let [signed, algorithm, signature] = der::elements(certificate)?;
        let tbs = &parsed.tbs_certificate;
        let has_more =
            tbs.issuer_uid.is_some() || tbs.subject_uid.is_some() || !tbs.extensions().is_empty();
        // The algorithm is there twice, and only one of them is signed.
        let is_consistent = tbs.signature == parsed.signature_algorithm;
        if tbs.version != X509Version::V1 || has_more || !is_consistent || !rest.is_empty() {
            return None;
        }
        let (algorithm, signature) = (der::content(algorithm)?, der::bytes(signature)?);
        Some(Self { signed, algorithm, signature, certificate: parsed })
    }

    pub(super) fn verify(
        &self,
        authorities: &[Authority],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.validate_time(now)?;
        self.validate_algorithm(algorithms)?;
        let issuer = self.certificate.issuer().as_raw();
        let mut refusal = CertificateError::UnknownIssuer;
        for authority in authorities.iter().filter(|it| it.is_named(issuer)) {
            if !authority.is_valid(seconds_of(now)) {
                // What a chain says whose authority has ended.
                refusal = CertificateError::Expired;
                continue;
            }
            if self.is_signed_by(authority.key(), algorithms) {
                return Ok(());
            }
            refusal = CertificateError::BadSignature;
        }
        Err(refusal.into())
    }

    fn validate_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        let validity = self.certificate.validity();
        let unix = |it: ASN1Time| {
            let seconds = u64::try_from(it.timestamp()).unwrap_or_default();
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
        };
        let (not_before, not_after) = (validity.not_before, validity.not_after);
        if seconds_of(now) < not_before.timestamp() {
            return Err(CertificateError::NotValidYetContext {
                time: now,
                not_before: unix(not_before),
            });
        }
        if seconds_of(now) > not_after.timestamp() {
            return Err(CertificateError::ExpiredContext { time: now, not_after: unix(not_after) });
        }
        Ok(())
    }

    /// SHA-1 and the like prove nothing.
    fn validate_algorithm(
        &self,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), CertificateError> {
        if algorithms.iter().any(|it| it.signature_alg_id().as_ref() == self.algorithm) {
            return Ok(());
        }
        Err(CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: self.algorithm.to_vec(),
            // Too many for a line of a log.
            supported_algorithms: Vec::new(),
        })
    }

    fn is_signed_by(
        &self,
        key: &PublicKey,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        let named = algorithms.iter().filter(|it| it.signature_alg_id().as_ref() == self.algorithm);
        // One name may stand for the same with keys of several kinds.
        named.filter_map(|it| key.verify(*it, self.signed, self.signature)).next() == Some(true)
    }

    pub(super) fn verify_tls12(
        &self,
        message: &[u8],
        signed: &DigitallySignedStruct,
        supported: &WebPkiSupportedAlgorithms,
    ) -> Result<HandshakeSignatureValid, Error> {
        let scheme = supported.mapping.iter().find(|it| it.0 == signed.scheme);
        let (_, algorithms) =
            scheme.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let key = PublicKey::read(self.certificate.public_key());
        let key = key.ok_or(CertificateError::BadEncoding)?;
        let outcome = algorithms.iter().find_map(|it| key.verify(*it, message, signed.signature()));
        match outcome {
            Some(true) => Ok(HandshakeSignatureValid::assertion()),
            Some(false) => Err(CertificateError::BadSignature.into()),
            None => Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()),
        }
    }

    pub(super) fn verify_tls13(
        &self,
        message: &[u8],
        signed: &DigitallySignedStruct,
        supported: &WebPkiSupportedAlgorithms,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(self.certificate.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, supported)
    }
}

fn seconds_of(now: UnixTime) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
