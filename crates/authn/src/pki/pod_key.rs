//! Keys that a node makes for its pods, each with the proof that it holds them: a request without a
//! subject, as PodCertificateRequests carry it.

use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize,
};

use super::Error;

pub struct PodKey {
    /// PKCS#8.
    pub private_pem: String,
    /// PKCS#10 in DER.
    pub request: Vec<u8>,
}

impl PodKey {
    /// `key_type` as the API names it. RSA takes long: not for a thread that others wait for.
    pub fn create(key_type: &str) -> Result<Self, Error> {
        let made = match key_type {
            "RSA3072" => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            "RSA4096" => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
            "ECDSAP256" => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            "ECDSAP384" => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            "ECDSAP521" => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
            "ED25519" => KeyPair::generate_for(&PKCS_ED25519),
            unknown => return Err(Error::Key(format!("unknown key type {unknown:?}"))),
        };
        let key = made.map_err(|err| Error::Key(err.to_string()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(|err| Error::Key(err.to_string()))?;
        Ok(Self { private_pem: key.serialize_pem(), request: request.der().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer as _;

    use super::PodKey;

    #[test]
    fn every_type_of_key_proves_itself() {
        for key_type in ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072"] {
            let key = PodKey::create(key_type).unwrap();
            assert!(key.private_pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{key_type}");
            let (_, request) = X509CertificationRequest::from_der(&key.request).unwrap();
            assert_eq!(request.certification_request_info.subject.iter().count(), 0);
        }
        assert!(PodKey::create("RSA1024").is_err());
    }
}
