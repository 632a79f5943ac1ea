//! Certificates of a kind that is given up: without a name in the extension for names, or signed
//! with SHA-1. Upstream counts requests to servers that show one, and connections that fail because
//! of one, so that whoever runs the cluster knows whom to tell.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use telemetry::{Counter, Description, Registry, Stability};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

const MISSING_SAN: &str = "Counts the number of requests to servers missing SAN extension in their serving certificate OR the number of connection failures due to the lack of x509 certificate SAN extension missing (either/or, based on the runtime environment)";
const INSECURE_SHA1: &str = "Counts the number of requests to servers with insecure SHA1 signatures in their serving certificate OR the number of connection failures due to the insecure SHA1 signatures (either/or, based on the runtime environment)";

const fn counter(name: &'static str, help: &'static str) -> Description<0> {
    Description { name, stability: Stability::Alpha, help, labels: [] }
}

const OF_WEBHOOKS: [Description<0>; 2] = [
    counter("apiserver_webhooks_x509_missing_san_total", MISSING_SAN),
    counter("apiserver_webhooks_x509_insecure_sha1_total", INSECURE_SHA1),
];
const OF_AGGREGATOR: [Description<0>; 2] = [
    counter("apiserver_kube_aggregator_x509_missing_san_total", MISSING_SAN),
    counter("apiserver_kube_aggregator_x509_insecure_sha1_total", INSECURE_SHA1),
];

/// `subjectAltName`
const NAMES: &str = "2.5.29.17";
/// With RSA, and with ECDSA.
const SHA1: [&str; 2] = ["1.2.840.113549.1.1.5", "1.2.840.10045.4.1"];

/// What is wrong with the certificates that a server shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    has_no_names: bool,
    has_sha1: bool,
}

impl Flaws {
    /// Its own certificate is the first. Authorities sign themselves with whatever they like.
    pub fn of(chain: &[CertificateDer<'_>]) -> Self {
        let has_no_names = chain.first().and_then(read).is_some_and(|it| !has_names(&it));
        let has_sha1 = chain.iter().filter_map(read).any(|it| {
            let algorithm = it.signature_algorithm.algorithm.to_id_string();
            SHA1.contains(&algorithm.as_str()) && it.issuer().as_raw() != it.subject().as_raw()
        });
        Self { has_no_names, has_sha1 }
    }
}

fn read<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der).ok().map(|it| it.1)
}

fn has_names(certificate: &X509Certificate<'_>) -> bool {
    certificate.extensions().iter().any(|it| it.oid.to_id_string() == NAMES)
}

/// How often each was met.
#[derive(Debug)]
pub struct Deprecated {
    missing_san: Arc<Counter>,
    insecure_sha1: Arc<Counter>,
}

impl Deprecated {
    pub fn of_webhooks(registry: &Registry) -> Arc<Self> {
        Self::new(registry, &OF_WEBHOOKS)
    }

    pub fn of_aggregator(registry: &Registry) -> Arc<Self> {
        Self::new(registry, &OF_AGGREGATOR)
    }

    fn new(registry: &Registry, [missing_san, insecure_sha1]: &[Description<0>; 2]) -> Arc<Self> {
        let (missing_san, insecure_sha1) =
            (registry.counter(missing_san), registry.counter(insecure_sha1));
        Arc::new(Self { missing_san, insecure_sha1 })
    }

    /// A request that `host` answered, or a connection to it that failed because of them.
    pub fn count(&self, host: &str, flaws: Flaws) {
        let each = [
            (
                flaws.has_no_names,
                &self.missing_san,
                "relies on a legacy Common Name field instead of the SAN extension for subject validation",
            ),
            (flaws.has_sha1, &self.insecure_sha1, "uses an insecure SHA-1 signature"),
        ];
        for (_, counter, why) in each.into_iter().filter(|it| it.0) {
            tracing::info!(host, "invalid certificate of a server: {why}");
            counter.increment();
        }
    }
}

/// Verifies as another does, and looks why where that fails.
#[derive(Debug)]
pub(crate) struct Watching {
    inner: Arc<dyn ServerCertVerifier>,
    deprecated: Arc<Deprecated>,
}

/// As Go says it.
#[derive(Debug, thiserror::Error)]
#[error("certificate relies on legacy Common Name field, use SANs instead")]
struct LegacyName;

impl Watching {
    pub(crate) fn new(inner: Arc<dyn ServerCertVerifier>, deprecated: Arc<Deprecated>) -> Self {
        Self { inner, deprecated }
    }

    /// Go asks for the name first, and for who signed it after that.
    fn failed(&self, why: Error, chain: &[CertificateDer<'_>], host: &ServerName<'_>) -> Error {
        let Error::InvalidCertificate(reason) = &why else { return why };
        let host = host.to_str();
        let is_legacy = chain
            .first()
            .and_then(read)
            .is_some_and(|it| !has_names(&it) && common_names(&it).any(|it| names(it, &host)));
        if is_legacy && !is_of_time(reason) {
            self.deprecated.count(&host, Flaws { has_no_names: true, has_sha1: false });
            let legacy = OtherError(Arc::new(LegacyName));
            return Error::InvalidCertificate(CertificateError::Other(legacy));
        }
        let flaws = Flaws { has_no_names: false, ..Flaws::of(chain) };
        if flaws.has_sha1 && is_of_signature(reason) {
            self.deprecated.count(&host, flaws);
        }
        why
    }
}

fn is_of_time(reason: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(reason, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

/// Whoever signed it is not known, or by what cannot be told.
fn is_of_signature(reason: &CertificateError) -> bool {
    use CertificateError::{
        NotValidForName, NotValidForNameContext, UnsupportedSignatureAlgorithmContext,
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    match reason {
        NotValidForName | NotValidForNameContext { .. } => false,
        UnsupportedSignatureAlgorithmContext { .. } => true,
        UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => true,
        CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
        _ => false,
    }
}

fn common_names<'a>(certificate: &'a X509Certificate<'_>) -> impl Iterator<Item = &'a str> {
    certificate.subject().iter_common_name().filter_map(|it| it.as_str().ok())
}

/// Whether a name, whose first part may be a star, is that of a host.
fn names(name: &str, host: &str) -> bool {
    let rest = |it: &str| it.split_once('.').map(|it| it.1.to_owned());
    match name.strip_prefix("*.") {
        Some(domain) => rest(host).is_some_and(|it| it.eq_ignore_ascii_case(domain)),
        None => name.eq_ignore_ascii_case(host),
    }
}

impl ServerCertVerifier for Watching {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        verified.map_err(|why| {
            let own = std::iter::once(end_entity);
            let chain: Vec<CertificateDer<'_>> = own.chain(intermediates).cloned().collect();
            self.failed(why, &chain, server_name)
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
        PKCS_RSA_SHA256,
    };
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;

    use super::*;

    fn params(common_name: &str, names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params
    }

    /// An authority with a key for RSA, and what it signed.
    fn issue(leaf: &CertificateParams) -> (Certificate, Certificate) {
        let mut own = params("authority", &[]);
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        let authority = own.self_signed(&key).unwrap();
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &Issuer::new(own, key)).unwrap();
        (authority, leaf)
    }

    /// The same, as if it were signed with SHA-1: nobody gets as far as the signature.
    fn weakened(certificate: &Certificate) -> CertificateDer<'static> {
        const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
        let mut der = certificate.der().to_vec();
        let places: Vec<usize> = (0..der.len() - 8).filter(|at| der[*at..*at + 8] == RSA).collect();
        // Of the key of an authority the algorithm is RSA alone: 1.
        for at in places.into_iter().filter(|at| certificate.der()[at + 8] == 11) {
            der[at + 8] = 5;
        }
        der.into()
    }

    #[test]
    fn flaws_are_those_of_what_is_shown() {
        let (authority, good) = issue(&params("a.b.svc", &["a.b.svc"]));
        let (_, bare) = issue(&params("a.b.svc", &[]));
        let check = |chain: &[CertificateDer<'static>], has_no_names: bool, has_sha1: bool| {
            assert_eq!(Flaws::of(chain), Flaws { has_no_names, has_sha1 });
        };
        let (good, bare) =
            ((good.der().clone(), weakened(&good)), (bare.der().clone(), weakened(&bare)));
        check(&[], false, false);
        check(&[good.0.clone(), authority.der().clone()], false, false);
        check(&[bare.0], true, false);
        check(std::slice::from_ref(&good.1), false, true);
        check(&[bare.1], true, true);
        check(&[good.0.clone(), good.1], false, true);
        check(&[good.0, weakened(&authority)], false, false);
        check(&[b"garbage".to_vec().into()], false, false);
    }

    #[test]
    fn a_connection_that_fails_is_counted_by_what_it_fails_of() {
        let registry = Registry::default();
        let deprecated = Deprecated::of_aggregator(&registry);
        let verify = |(authority, leaf): (&Certificate, CertificateDer<'static>), host: &str| {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
            let verifier = Watching::new(inner.build().unwrap(), deprecated.clone());
            let host = ServerName::try_from(host.to_owned()).unwrap();
            verifier.verify_server_cert(&leaf, &[], &host, &[], UnixTime::now()).map(drop)
        };
        let counts = || (deprecated.missing_san.value(), deprecated.insecure_sha1.value());
        let (authority, good) = issue(&params("a.b.svc", &["a.b.svc"]));
        let of = |it: &Certificate| it.der().clone();
        verify((&authority, of(&good)), "a.b.svc").unwrap();
        verify((&authority, of(&good)), "c.b.svc").unwrap_err();
        assert_eq!(counts(), (0, 0));
        let (issuer, bare) = issue(&params("*.b.svc", &[]));
        let why = verify((&issuer, of(&bare)), "a.b.svc").unwrap_err();
        assert!(why.to_string().contains("LegacyName"), "{why}");
        verify((&issuer, of(&bare)), "a.c.svc").unwrap_err();
        // Nobody knows who signed it: its name is looked at first.
        verify((&authority, of(&bare)), "A.B.svc").unwrap_err();
        assert_eq!(counts(), (2, 0));
        verify((&authority, weakened(&good)), "a.b.svc").unwrap_err();
        assert_eq!(counts(), (2, 1));
        let page = registry.render();
        assert!(page.contains("apiserver_kube_aggregator_x509_missing_san_total 2\n"), "{page}");
        assert!(page.contains("apiserver_kube_aggregator_x509_insecure_sha1_total 1\n"), "{page}");
    }
}
