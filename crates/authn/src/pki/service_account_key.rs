//! The key pair that signs service-account tokens: ECDSA P-256 where it is made here, and what others
//! have made for a cluster that is taken over (kubeadm: RSA).

use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData as _,
};
use x509_parser::pem::Pem;

use super::{Error, VerifyingKey, authority::new_key, der};

/// Labels of blocks that are private keys. The older two say by the label what the first says inside.
const PKCS8: &str = "PRIVATE KEY";
const PKCS1: &str = "RSA PRIVATE KEY";
const SEC1: &str = "EC PRIVATE KEY";

/// rsaEncryption, id-ecPublicKey (RFC 3279), prime256v1 (RFC 5480) and secp384r1.
const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const OID_P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

pub struct ServiceAccountKey {
    pair: KeyPair,
    public: VerifyingKey,
}

fn wrong(err: impl ToString) -> Error {
    Error::Key(err.to_string())
}

impl ServiceAccountKey {
    pub fn create() -> Result<Self, Error> {
        Self::from_pair(new_key()?)
    }

    /// The first private key that is there, in any of the forms that OpenSSL and kubeadm write.
    pub fn load(private_pem: &str) -> Result<Self, Error> {
        for block in Pem::iter_from_buffer(private_pem.as_bytes()) {
            let block = block.map_err(wrong)?;
            if is_private(&block.label) {
                return Self::from_block(&block.label, &block.contents);
            }
        }
        Err(wrong("there is no private key in PEM"))
    }

    pub(super) fn from_block(label: &str, contents: &[u8]) -> Result<Self, Error> {
        let read = KeyPair::try_from(contents).map_err(wrong)?;
        if label == PKCS8 {
            return Self::from_pair(read);
        }
        let algorithm = match label {
            PKCS1 => [oid(OID_RSA), vec![der::NULL, 0]],
            _ if read.is_compatible(&PKCS_ECDSA_P384_SHA384) => [oid(OID_EC), oid(OID_P384)],
            _ => [oid(OID_EC), oid(OID_P256)],
        };
        // The same key as others read it (RFC 5208, section 5).
        let whole = der::sequence([
            der::value(der::INTEGER, &[0]),
            der::sequence(algorithm),
            der::value(der::OCTET_STRING, contents),
        ]);
        Self::from_pair(KeyPair::try_from(whole).map_err(wrong)?)
    }

    fn from_pair(pair: KeyPair) -> Result<Self, Error> {
        let known = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_RSA_SHA256];
        if !known.into_iter().any(|it| pair.is_compatible(it)) {
            return Err(wrong("tokens are signed with RSA, ECDSA P-256 or ECDSA P-384 keys"));
        }
        let public = VerifyingKey::from_der(&pair.subject_public_key_info())?;
        Ok(Self { pair, public })
    }

    /// The `kid` of tokens and of the key set.
    pub fn id(&self) -> &str {
        self.public.id()
    }

    /// The half that others verify with.
    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    pub fn private_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    pub fn public_pem(&self) -> String {
        self.pair.public_key_pem()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.public.algorithm()
    }

    pub(crate) fn encoding(&self) -> Result<EncodingKey, Error> {
        let pem = self.private_pem();
        let read = match self.algorithm() {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
            _ => EncodingKey::from_ec_pem(pem.as_bytes()),
        };
        read.map_err(wrong)
    }
}

pub(super) fn is_private(label: &str) -> bool {
    [PKCS8, PKCS1, SEC1].contains(&label)
}

fn oid(bytes: &[u8]) -> Vec<u8> {
    der::value(der::OBJECT_IDENTIFIER, bytes)
}
