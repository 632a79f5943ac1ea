//! The public half of a key that signs service-account tokens: all that is needed to know them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::Error;
use super::service_account_key::{ServiceAccountKey, is_private};

/// prime256v1 and secp384r1 (RFC 5480).
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";

#[derive(Clone, Debug)]
pub struct VerifyingKey {
    id: String,
    algorithm: Algorithm,
    parts: Parts,
}

/// As the key set shows them.
#[derive(Clone, Debug)]
enum Parts {
    Point { curve: &'static str, x: String, y: String },
    Rsa { modulus: String, exponent: String },
}

fn wrong(err: impl ToString) -> Error {
    Error::Key(err.to_string())
}

impl VerifyingKey {
    /// All keys of a file: public ones, or private ones, of which the public half counts.
    pub fn load_all(pem: &str) -> Result<Vec<Self>, Error> {
        let mut keys = Vec::new();
        for block in Pem::iter_from_buffer(pem.as_bytes()) {
            let block = block.map_err(wrong)?;
            match block.label.as_str() {
                "PUBLIC KEY" => keys.push(Self::from_der(&block.contents)?),
                label if is_private(label) => {
                    let pair = ServiceAccountKey::from_block(label, &block.contents)?;
                    keys.push(pair.public().clone());
                }
                // What OpenSSL writes before a key.
                "EC PARAMETERS" => {}
                other => return Err(wrong(format!("no key is expected in a block {other:?}"))),
            }
        }
        if keys.is_empty() {
            return Err(wrong("there is no key in PEM"));
        }
        Ok(keys)
    }

    /// From a SubjectPublicKeyInfo.
    pub(super) fn from_der(info: &[u8]) -> Result<Self, Error> {
        let (_, read) = SubjectPublicKeyInfo::from_der(info).map_err(wrong)?;
        let curve = read.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
        let curve = curve.map(|it| it.to_id_string());
        let (algorithm, parts) = match (read.parsed().map_err(wrong)?, curve.as_deref()) {
            (PublicKey::RSA(key), _) => (Algorithm::RS256, rsa(key.modulus, key.exponent)),
            (PublicKey::EC(it), Some(P256)) => (Algorithm::ES256, point("P-256", it.data())?),
            (PublicKey::EC(it), Some(P384)) => (Algorithm::ES384, point("P-384", it.data())?),
            _ => return Err(wrong("tokens are signed with RSA, ECDSA P-256 or ECDSA P-384 keys")),
        };
        // As upstream names keys, so that other verifiers of the same key agree on its name.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(info));
        Ok(Self { id, algorithm, parts })
    }

    /// The `kid` of tokens and of the key set.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn decoding(&self) -> Result<DecodingKey, Error> {
        let read = match &self.parts {
            Parts::Point { x, y, .. } => DecodingKey::from_ec_components(x, y),
            Parts::Rsa { modulus, exponent } => DecodingKey::from_rsa_components(modulus, exponent),
        };
        read.map_err(wrong)
    }

    /// An item of `/openid/v1/jwks`.
    pub(crate) fn shown(&self) -> Value {
        let (id, algorithm) = (&self.id, self.algorithm);
        match &self.parts {
            Parts::Point { curve, x, y } => json!({
                "use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": algorithm, "x": x, "y": y,
            }),
            Parts::Rsa { modulus, exponent } => json!({
                "use": "sig", "kty": "RSA", "kid": id, "alg": algorithm, "n": modulus, "e": exponent,
            }),
        }
    }
}

/// An uncompressed point is a tag byte and two coordinates of equal length.
fn point(curve: &'static str, raw: &[u8]) -> Result<Parts, Error> {
    let Some((4, point)) = raw.split_first() else {
        return Err(wrong("the key has no uncompressed point"));
    };
    let (x, y) = point.split_at(point.len() / 2);
    Ok(Parts::Point { curve, x: URL_SAFE_NO_PAD.encode(x), y: URL_SAFE_NO_PAD.encode(y) })
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Parts {
    // DER numbers start with a zero where the first bit is set; those of key sets do not.
    let number = |bytes: &[u8]| {
        let start = bytes.iter().position(|it| *it != 0).unwrap_or(bytes.len());
        URL_SAFE_NO_PAD.encode(bytes.get(start..).unwrap_or_default())
    };
    Parts::Rsa { modulus: number(modulus), exponent: number(exponent) }
}
