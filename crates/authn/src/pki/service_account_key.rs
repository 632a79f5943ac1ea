//! The key pair that signs service-account tokens: ECDSA P-256 where it is made here, and what others
//! have made for a cluster that is taken over (kubeadm: RSA).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData as _,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::{Error, authority::new_key};

pub struct ServiceAccountKey {
    pair: KeyPair,
    id: String,
    algorithm: Algorithm,
    public: Public,
}

/// The public half as the key set shows it.
enum Public {
    Point { curve: &'static str, x: String, y: String },
    Rsa { modulus: String, exponent: String },
}

fn wrong(err: impl ToString) -> Error {
    Error::Key(err.to_string())
}

impl ServiceAccountKey {
    pub fn create() -> Result<Self, Error> {
        Self::from_pair(new_key()?)
    }

    pub fn load(private_pem: &str) -> Result<Self, Error> {
        Self::from_pair(KeyPair::from_pem(private_pem).map_err(wrong)?)
    }

    fn from_pair(pair: KeyPair) -> Result<Self, Error> {
        let (algorithm, public) = if pair.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            (Algorithm::ES256, point("P-256", pair.public_key_raw())?)
        } else if pair.is_compatible(&PKCS_ECDSA_P384_SHA384) {
            (Algorithm::ES384, point("P-384", pair.public_key_raw())?)
        } else if pair.is_compatible(&PKCS_RSA_SHA256) {
            (Algorithm::RS256, rsa(&pair.subject_public_key_info())?)
        } else {
            return Err(wrong("tokens are signed with RSA, ECDSA P-256 or ECDSA P-384 keys"));
        };
        // As upstream names keys, so that other verifiers of the same key agree on its name.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info()));
        Ok(Self { pair, id, algorithm, public })
    }

    /// The `kid` of tokens and of the key set.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn private_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    pub fn public_pem(&self) -> String {
        self.pair.public_key_pem()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn encoding(&self) -> Result<EncodingKey, Error> {
        let pem = self.private_pem();
        let read = match self.public {
            Public::Point { .. } => EncodingKey::from_ec_pem(pem.as_bytes()),
            Public::Rsa { .. } => EncodingKey::from_rsa_pem(pem.as_bytes()),
        };
        read.map_err(wrong)
    }

    pub(crate) fn decoding(&self) -> Result<DecodingKey, Error> {
        let read = match &self.public {
            Public::Point { x, y, .. } => DecodingKey::from_ec_components(x, y),
            Public::Rsa { modulus, exponent } => {
                DecodingKey::from_rsa_components(modulus, exponent)
            }
        };
        read.map_err(wrong)
    }

    /// An item of `/openid/v1/jwks`.
    pub(crate) fn shown(&self) -> Value {
        let (id, algorithm) = (&self.id, self.algorithm);
        match &self.public {
            Public::Point { curve, x, y } => json!({
                "use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": algorithm, "x": x, "y": y,
            }),
            Public::Rsa { modulus, exponent } => json!({
                "use": "sig", "kty": "RSA", "kid": id, "alg": algorithm, "n": modulus, "e": exponent,
            }),
        }
    }
}

/// An uncompressed point is a tag byte and two coordinates of equal length.
fn point(curve: &'static str, raw: &[u8]) -> Result<Public, Error> {
    let (_, point) = raw.split_first().ok_or_else(|| wrong("the key has no public point"))?;
    let (x, y) = point.split_at(point.len() / 2);
    Ok(Public::Point { curve, x: URL_SAFE_NO_PAD.encode(x), y: URL_SAFE_NO_PAD.encode(y) })
}

fn rsa(info: &[u8]) -> Result<Public, Error> {
    let (_, info) = SubjectPublicKeyInfo::from_der(info).map_err(wrong)?;
    let PublicKey::RSA(key) = info.parsed().map_err(wrong)? else {
        return Err(wrong("the public half is no RSA key"));
    };
    // DER numbers start with a zero where the first bit is set; those of key sets do not.
    let number = |bytes: &[u8]| {
        let start = bytes.iter().position(|it| *it != 0).unwrap_or(bytes.len());
        URL_SAFE_NO_PAD.encode(bytes.get(start..).unwrap_or_default())
    };
    Ok(Public::Rsa { modulus: number(key.modulus), exponent: number(key.exponent) })
}
