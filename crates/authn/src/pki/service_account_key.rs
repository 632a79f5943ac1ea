//! The key pair that signs service-account tokens (ES256).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

use super::{Error, authority::new_key};

/// Bytes of one coordinate of a point on P-256.
const COORDINATE: usize = 32;

pub struct ServiceAccountKey {
    pair: KeyPair,
    id: String,
}

impl ServiceAccountKey {
    pub fn create() -> Result<Self, Error> {
        Self::from_pair(new_key()?)
    }

    pub fn load(private_pem: &str) -> Result<Self, Error> {
        Self::from_pair(KeyPair::from_pem(private_pem).map_err(|err| Error::Key(err.to_string()))?)
    }

    fn from_pair(pair: KeyPair) -> Result<Self, Error> {
        if !pair.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            return Err(Error::Key("tokens are signed with ECDSA P-256 keys".to_owned()));
        }
        // As upstream names keys, so that other verifiers of the same key agree on its name.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info()));
        Ok(Self { pair, id })
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

    /// x and y of the public point.
    pub(crate) fn coordinates(&self) -> (&[u8], &[u8]) {
        // An uncompressed point is a tag byte and the two coordinates.
        let raw = self.pair.public_key_raw();
        let point = raw.get(1..=2 * COORDINATE).expect("a P-256 key has an uncompressed point");
        point.split_at(COORDINATE)
    }
}
