//! Whether bytes were signed with the key to a public one, for the keys that certificates have.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::public_key::PublicKey;
use x509_parser::signature_algorithm::RsaSsaPssParams;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

/// A public key, by what is checked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Ed25519,
    P256,
    P384,
    P521,
    /// Of another curve.
    Curve,
    /// With so many bits.
    Rsa(usize),
    Unknown,
}

#[derive(Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Key {
    pub(super) fn of(key: &SubjectPublicKeyInfo<'_>) -> Self {
        match key.algorithm.algorithm.to_id_string().as_str() {
            "1.3.101.112" => return Self::Ed25519,
            "1.2.840.10045.2.1" => {}
            _ => {
                return match key.parsed() {
                    Ok(PublicKey::RSA(rsa)) => Self::Rsa(bits(rsa.modulus)),
                    _ => Self::Unknown,
                };
            }
        }
        let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
        match curve.map(|it| it.to_id_string()).as_deref() {
            Some("1.2.840.10045.3.1.7") => Self::P256,
            Some("1.3.132.0.34") => Self::P384,
            Some("1.3.132.0.35") => Self::P521,
            Some(_) => Self::Curve,
            None => Self::Unknown,
        }
    }
}

/// In whole bytes.
fn bits(modulus: &[u8]) -> usize {
    let zeros = modulus.iter().take_while(|it| **it == 0).count();
    (modulus.len() - zeros) * 8
}

/// Why `data` was not signed so, with the key to `key`.
pub(super) fn check(
    key: &SubjectPublicKeyInfo<'_>,
    algorithm: &AlgorithmIdentifier<'_>,
    signature: &[u8],
    data: &[u8],
) -> Result<(), String> {
    let (verifier, failure) = match algorithm.algorithm.to_id_string().as_str() {
        "1.3.101.112" => {
            let verifier: &dyn VerificationAlgorithm = &signature::ED25519;
            (Some(verifier), "x509: Ed25519 verification failure")
        }
        "1.2.840.10045.4.1" => ecdsa(Key::of(key), Hash::Sha1),
        "1.2.840.10045.4.3.2" => ecdsa(Key::of(key), Hash::Sha256),
        "1.2.840.10045.4.3.3" => ecdsa(Key::of(key), Hash::Sha384),
        "1.2.840.10045.4.3.4" => ecdsa(Key::of(key), Hash::Sha512),
        "1.2.840.113549.1.1.5" => rsa(Hash::Sha1),
        "1.2.840.113549.1.1.11" => rsa(Hash::Sha256),
        "1.2.840.113549.1.1.12" => rsa(Hash::Sha384),
        "1.2.840.113549.1.1.13" => rsa(Hash::Sha512),
        "1.2.840.113549.1.1.10" => pss(algorithm),
        _ => (None, ""),
    };
    let Some(verifier) = verifier else {
        return Err("x509: cannot verify signature: algorithm unimplemented".to_owned());
    };
    verify(verifier, key, signature, data).map_err(|()| failure.to_owned())
}

/// Whether the bytes of `data` were signed in the one way that each sort of key has for that.
pub(super) fn is_signed_plainly(
    key: &SubjectPublicKeyInfo<'_>,
    signature: &[u8],
    data: &[u8],
) -> bool {
    let verifier: &dyn VerificationAlgorithm = match Key::of(key) {
        Key::Ed25519 => &signature::ED25519,
        Key::P256 => &signature::ECDSA_P256_SHA256_ASN1,
        Key::P384 => &signature::ECDSA_P384_SHA256_ASN1,
        Key::P521 => &signature::ECDSA_P521_SHA256_ASN1,
        Key::Rsa(_) => &signature::RSA_PSS_2048_8192_SHA256,
        Key::Curve | Key::Unknown => return false,
    };
    verify(verifier, key, signature, data).is_ok()
}

fn verify(
    verifier: &'static dyn VerificationAlgorithm,
    key: &SubjectPublicKeyInfo<'_>,
    signature: &[u8],
    data: &[u8],
) -> Result<(), ()> {
    let key = UnparsedPublicKey::new(verifier, &key.subject_public_key.data);
    key.verify(data, signature).map_err(|_| ())
}

type Verifier = (Option<&'static dyn VerificationAlgorithm>, &'static str);

fn ecdsa(key: Key, hash: Hash) -> Verifier {
    let verifier: &'static dyn VerificationAlgorithm = match (key, hash) {
        (Key::P256, Hash::Sha256) => &signature::ECDSA_P256_SHA256_ASN1,
        (Key::P256, Hash::Sha384) => &signature::ECDSA_P256_SHA384_ASN1,
        (Key::P256, Hash::Sha512) => &signature::ECDSA_P256_SHA512_ASN1,
        (Key::P384, Hash::Sha256) => &signature::ECDSA_P384_SHA256_ASN1,
        (Key::P384, Hash::Sha384) => &signature::ECDSA_P384_SHA384_ASN1,
        (Key::P384, Hash::Sha512) => &signature::ECDSA_P384_SHA512_ASN1,
        (Key::P521, Hash::Sha256) => &signature::ECDSA_P521_SHA256_ASN1,
        (Key::P521, Hash::Sha384) => &signature::ECDSA_P521_SHA384_ASN1,
        (Key::P521, Hash::Sha512) => &signature::ECDSA_P521_SHA512_ASN1,
        _ => return (None, ""),
    };
    (Some(verifier), "x509: ECDSA verification failure")
}

fn rsa(hash: Hash) -> Verifier {
    let verifier: &'static dyn VerificationAlgorithm = match hash {
        Hash::Sha1 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Hash::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Hash::Sha512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    };
    (Some(verifier), "crypto/rsa: verification error")
}

fn pss(algorithm: &AlgorithmIdentifier<'_>) -> Verifier {
    let parameters = algorithm.parameters.as_ref();
    let parameters = parameters.and_then(|it| RsaSsaPssParams::try_from(it).ok());
    let hash = parameters.map(|it| it.hash_algorithm_oid().to_id_string());
    let verifier: &'static dyn VerificationAlgorithm = match hash.as_deref() {
        Some("2.16.840.1.101.3.4.2.1") => &signature::RSA_PSS_2048_8192_SHA256,
        Some("2.16.840.1.101.3.4.2.2") => &signature::RSA_PSS_2048_8192_SHA384,
        Some("2.16.840.1.101.3.4.2.3") => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return (None, ""),
    };
    (Some(verifier), "crypto/rsa: verification error")
}
