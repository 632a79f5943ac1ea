//! Certificates of every kind against the verifier, and through whole handshakes.

use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PublicKeyData as _, SigningKey as _,
    date_time_ymd,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme, version};
use stdx::Random;

use super::super::tests::handshake;
use super::super::{Authority, server_config, tls};
use super::{der, verifier};

/// 2030, in the middle of what the certificates here are valid for.
const NOW: u64 = 1_893_456_000;

/// A private authority with whatever the test says about it.
struct Root {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2035, 1, 1));
    // One extension at least.
    params.use_authority_key_identifier_extension = true;
    params
}

impl Root {
    fn new(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = params("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        verifier(std::slice::from_ref(&self.certificate), Arc::new(roots)).unwrap()
    }

    fn sign(&self, params: &CertificateParams, key: &KeyPair) -> CertificateDer<'static> {
        params.signed_by(key, &self.issuer).unwrap().der().clone()
    }

    /// A certificate of version 1 for a client's key.
    fn sign_version1(&self, params: &CertificateParams, key: &KeyPair) -> CertificateDer<'static> {
        version1(&self.sign(params, key), self.issuer.key())
    }

    fn check(&self, certificate: &CertificateDer<'_>, expected: &str) {
        self.check_at(NOW, certificate, &[], expected);
    }

    fn check_at(
        &self,
        seconds: u64,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        expected: &str,
    ) {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let said = match self.verifier().verify_client_cert(certificate, intermediates, now) {
            Ok(_) => "fine".to_owned(),
            Err(err) => err.to_string(),
        };
        assert!(said.contains(expected), "{said}, not {expected}");
    }
}

fn encoded(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = match length {
        0..128 => vec![tag, length as u8],
        128..256 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [head, content.to_vec()].concat()
}

/// The same without version and extensions, signed again, as `openssl x509 -req` makes it.
fn version1(certificate: &[u8], key: &KeyPair) -> CertificateDer<'static> {
    let [signed, algorithm, _] = der::elements(certificate).unwrap();
    let [_, fields @ .., _]: [&[u8]; 8] = der::elements(signed).unwrap();
    signed_again(&encoded(0x30, &fields.concat()), algorithm, key)
}

fn signed_again(signed: &[u8], algorithm: &[u8], key: &KeyPair) -> CertificateDer<'static> {
    let signature = [vec![0], key.sign(signed).unwrap()].concat();
    let parts = [signed, algorithm, &encoded(0x03, &signature)].concat();
    encoded(0x30, &parts).into()
}

fn client() -> (CertificateParams, KeyPair) {
    (params("jane"), KeyPair::generate().unwrap())
}

#[test]
fn version_1_is_taken_from_an_authority_itself() {
    let (root, other) = (Root::new(|_| {}), Root::new(|_| {}));
    let (params, key) = client();
    root.check(&root.sign(&params, &key), "fine");
    let plain = root.sign_version1(&params, &key);
    root.check(&plain, "fine");
    other.check(&plain, "invalid peer certificate: BadSignature");
    let elsewhere = Root::new(|it| it.distinguished_name.push(DnType::CommonName, "else"));
    elsewhere.check(&plain, "invalid peer certificate: UnknownIssuer");
    // Before, after, and at the very ends.
    let (begin, end) = (1_735_689_600, 2_051_222_400);
    for (seconds, expected) in [
        (begin - 1, "certificate not valid yet"),
        (begin, "fine"),
        (end, "fine"),
        (end + 1, "certificate expired"),
    ] {
        root.check_at(seconds, &plain, &[], expected);
    }
}

#[test]
fn one_changed_byte_is_one_too_many() {
    let root = Root::new(|_| {});
    let (params, key) = client();
    let plain = root.sign_version1(&params, &key);
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
    let verifier = root.verifier();
    for place in 0..plain.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = plain.to_vec();
            changed[place] ^= change;
            let outcome = verifier.verify_client_cert(&changed.into(), &[], now);
            assert!(outcome.is_err(), "byte {place} by {change:#x}");
        }
        let cut = plain[..place].to_vec();
        assert!(verifier.verify_client_cert(&cut.into(), &[], now).is_err());
    }
    let longer = [&*plain, &[0]].concat();
    assert!(verifier.verify_client_cert(&longer.into(), &[], now).is_err());
}

#[test]
fn what_extensions_say_counts() {
    let root = Root::new(|_| {});
    let (mut params, key) = client();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    root.check(&root.sign(&params, &key), "invalid peer certificate: ");
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    root.check(&root.sign(&params, &key), "fine");
    // Extensions under a version that has none: nobody may leave them unread.
    let whole = root.sign(&params, &key);
    let [signed, algorithm, _] = der::elements(&whole).unwrap();
    let [_, fields @ ..]: [&[u8]; 8] = der::elements(signed).unwrap();
    let signed = encoded(0x30, &fields.concat());
    let mixed = signed_again(&signed, algorithm, root.issuer.key());
    root.check(&mixed, "UnsupportedCertVersion");
    // Version 2.
    let version = encoded(0xa0, &encoded(0x02, &[1]));
    let signed = encoded(0x30, &[&version[..], &fields[..6].concat()].concat());
    let second = signed_again(&signed, algorithm, root.issuer.key());
    root.check(&second, "UnsupportedCertVersion");
}

/// Whoever got a certificate is no authority, whatever its version.
#[test]
fn no_client_signs_another() {
    let root = Root::new(|_| {});
    let (leaf, leaf_key) = client();
    let plain = root.sign_version1(&leaf, &leaf_key);
    let false_issuer = Issuer::new(leaf.clone(), leaf_key);
    let (mut mallory, key) = client();
    mallory.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let forged = mallory.signed_by(&key, &false_issuer).unwrap().der().clone();
    let forged_plain = version1(&forged, false_issuer.key());
    root.check_at(NOW, &forged_plain, std::slice::from_ref(&plain), "UnknownIssuer");
    root.check_at(NOW, &forged, &[plain], "UnsupportedCertVersion");
    let third = root.sign(&leaf, false_issuer.key());
    root.check_at(NOW, &forged_plain, std::slice::from_ref(&third), "UnknownIssuer");
    root.check_at(NOW, &forged, &[third], "invalid peer certificate");
}

#[test]
fn intermediates_sign_what_webpki_verifies() {
    let root = Root::new(|_| {});
    let mut middle = params("middle");
    middle.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let middle_key = KeyPair::generate().unwrap();
    let certificate = root.sign(&middle, &middle_key);
    let plain_middle = root.sign_version1(&middle, &middle_key);
    let middle = Issuer::new(middle, middle_key);
    let (params, key) = client();
    let leaf = params.signed_by(&key, &middle).unwrap().der().clone();
    root.check_at(NOW, &leaf, std::slice::from_ref(&certificate), "fine");
    root.check(&leaf, "UnknownIssuer");
    // An authority of version 1 is believed only where it is configured.
    root.check_at(NOW, &leaf, &[plain_middle], "UnsupportedCertVersion");
    let plain = version1(&leaf, middle.key());
    root.check_at(NOW, &plain, &[certificate], "UnknownIssuer");
}

#[test]
fn an_authority_that_is_limited_signs_nothing_that_cannot_be_checked() {
    let check = |change: fn(&mut CertificateParams), expected: &str| {
        let root = Root::new(change);
        let (params, key) = client();
        root.check(&root.sign_version1(&params, &key), expected);
    };
    check(|it| it.key_usages = vec![KeyUsagePurpose::KeyCertSign], "fine");
    check(|it| it.key_usages = vec![KeyUsagePurpose::DigitalSignature], "UnknownIssuer");
    let client_auth = |it: &mut CertificateParams| {
        it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    check(client_auth, "fine");
    let server_auth = |it: &mut CertificateParams| {
        it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    check(server_auth, "UnknownIssuer");
    let names = |it: &mut CertificateParams| {
        let only = rcgen::GeneralSubtree::DnsName("example.com".to_owned());
        it.name_constraints =
            Some(NameConstraints { permitted_subtrees: vec![only], excluded_subtrees: Vec::new() });
    };
    check(names, "UnknownIssuer");
    let path = |it: &mut CertificateParams| {
        it.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    };
    check(path, "fine");
    let unknown = |it: &mut CertificateParams| {
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        extension.set_criticality(true);
        it.custom_extensions = vec![extension];
    };
    check(unknown, "UnknownIssuer");
    check(|it| it.is_ca = IsCa::ExplicitNoCa, "UnknownIssuer");
    check(|it| it.not_after = date_time_ymd(2026, 1, 1), "Expired");
}

/// What rustls itself would not show.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// In either version of TLS, the client has to have the key.
#[test]
fn a_client_of_version_1_proves_that_it_has_the_key() {
    let (now, random) = (Timestamp::now(), Random::from_seed(1));
    let authority = Authority::create("xebec", now, &random).unwrap();
    let server = authority.issue_server("server", &["server"], &[], now, &random).unwrap();
    let server = Arc::new(server_config(&server, authority.certificate_pem()).unwrap());
    let client = authority.issue_client("jane", &["team"], now, &random).unwrap();
    let signed = tls::certified(&client).unwrap();
    let root_key = KeyPair::from_pem(&authority.identity().private_key_pem).unwrap();
    let plain = version1(&signed.cert[0], &root_key);
    let (own, other) =
        (KeyPair::from_pem(&client.private_key_pem).unwrap(), KeyPair::generate().unwrap());
    for version in [&version::TLS12, &version::TLS13] {
        for (key, expected) in [(&own, true), (&other, false)] {
            let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            let key = tls::provider().key_provider.load_private_key(der).unwrap();
            let shown = Arc::new(CertifiedKey::new(vec![plain.clone()], key));
            let mut roots = RootCertStore::empty();
            let root = authority.certificate_pem().as_bytes();
            roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(root).unwrap()).unwrap();
            let config = ClientConfig::builder_with_provider(tls::provider())
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots)
                .with_client_cert_resolver(Arc::new(Shown(shown)));
            let outcome = handshake(&server, &Arc::new(config)).map(|it| it.0);
            assert_eq!(outcome.is_ok(), expected, "{version:?} {:?}", outcome.err());
            if let Ok(connection) = outcome {
                assert_eq!(connection.peer_certificates().unwrap(), std::slice::from_ref(&plain));
            }
        }
    }
    assert_ne!(own.subject_public_key_info(), other.subject_public_key_info());
}
