//! Whether the two halves of a Secret for TLS fit: what Go says of those that do not, which is what
//! clients are told (`tls.X509KeyPair`).

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Blocks of one text that are looked at.
const BLOCKS_MAX: usize = 64;
const PRIVATE_KEY: &str = "PRIVATE KEY";
const UNREADABLE: &str = "tls: failed to parse private key";

/// A key's public half, and what it is for.
#[derive(Debug, PartialEq, Eq)]
enum Public {
    Rsa(Vec<u8>),
    Ecdsa(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// What is wrong with a certificate and a key, both as PEM.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let certificates = blocks(certificate);
    let Some(first) = certificates.iter().find(|it| it.label == "CERTIFICATE") else {
        return Some(without_certificate(&labels(&certificates)));
    };
    let keys = blocks(key);
    let is_key = |it: &&Pem| it.label.ends_with(PRIVATE_KEY);
    let Some(key) = keys.iter().find(is_key) else {
        return Some(without_key(&labels(&keys)));
    };
    let Ok((_, read)) = X509Certificate::from_der(&first.contents) else {
        return Some("x509: malformed certificate".to_owned());
    };
    let info = read.public_key();
    let bytes = info.subject_public_key.data.to_vec();
    let wanted = match info.algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.1" => Public::Rsa(bytes),
        "1.2.840.10045.2.1" => Public::Ecdsa(bytes),
        "1.3.101.112" => Public::Ed25519(bytes),
        _ => return Some("tls: unknown public key algorithm".to_owned()),
    };
    let public = match public_half(&key.contents) {
        Ok(public) => public?,
        Err(Unreadable) => return Some(UNREADABLE.to_owned()),
    };
    if std::mem::discriminant(&public) != std::mem::discriminant(&wanted) {
        return Some("tls: private key type does not match public key type".to_owned());
    }
    (public != wanted).then(|| "tls: private key does not match public key".to_owned())
}

fn blocks(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).take(BLOCKS_MAX).filter_map(Result::ok).collect()
}

fn labels(blocks: &[Pem]) -> Vec<&str> {
    blocks.iter().map(|it| it.label.as_str()).collect()
}

fn without_certificate(labels: &[&str]) -> String {
    match labels {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with(PRIVATE_KEY) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a \
             private key; PEM inputs may have been switched"
                .to_owned()
        }
        all => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM \
             blocks of the following types: [{}]",
            all.join(" ")
        ),
    }
}

fn without_key(labels: &[&str]) -> String {
    match labels {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        ["CERTIFICATE"] => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        all => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after \
             skipping PEM blocks of the following types: [{}]",
            all.join(" ")
        ),
    }
}

struct Unreadable;

/// Absent: a key that Go would take and that is not known here, such as a short one.
fn public_half(der: &[u8]) -> Result<Option<Public>, Unreadable> {
    let rsa = rsa::KeyPair::from_der(der).or_else(|_| rsa::KeyPair::from_pkcs8(der));
    match rsa {
        Ok(pair) => return Ok(Some(Public::Rsa(pair.public_key().as_ref().to_vec()))),
        Err(err) if err.to_string().contains("Too") => return Ok(None),
        Err(_) => {}
    }
    for algorithm in [
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &ECDSA_P521_SHA512_ASN1_SIGNING,
    ] {
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der)
            .or_else(|_| EcdsaKeyPair::from_private_key_der(algorithm, der));
        if let Ok(pair) = pair {
            return Ok(Some(Public::Ecdsa(pair.public_key().as_ref().to_vec())));
        }
    }
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| Unreadable)?;
    Ok(Some(Public::Ed25519(pair.public_key().as_ref().to_vec())))
}
