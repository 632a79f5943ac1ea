//! What a server offers of TLS, where less than everything is wanted: versions, cipher suites and
//! key exchanges, under Go's names. What is not there is refused, with what is.

use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

use super::tls::provider;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error("{0:?} is not supported: choose VersionTLS12 or VersionTLS13")]
    Version(String),
    #[error("{given:?} is not supported: choose among {known}")]
    Suite { given: String, known: String },
    #[error("{given:?} is not supported: choose among {known}")]
    Group { given: String, known: String },
}

/// The oldest version that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    #[default]
    Tls12,
    Tls13,
}

impl FromStr for MinVersion {
    type Err = OfferError;

    fn from_str(text: &str) -> Result<Self, OfferError> {
        match text {
            "" | "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            other => Err(OfferError::Version(other.to_owned())),
        }
    }
}

/// One cipher suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suite(SupportedCipherSuite);

/// Go has older names for these two.
const ALIASES: [(&str, &str); 2] = [
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

impl FromStr for Suite {
    type Err = OfferError;

    fn from_str(given: &str) -> Result<Self, OfferError> {
        let alias = ALIASES.iter().find(|it| it.0 == given);
        let wanted = alias.map_or(given, |it| it.1);
        let all = provider().cipher_suites.clone();
        let found = all.iter().find(|it| name_of(it) == wanted);
        found.copied().map(Self).ok_or_else(|| OfferError::Suite {
            given: given.to_owned(),
            known: all.iter().map(name_of).collect::<Vec<_>>().join(", "),
        })
    }
}

/// As IANA and Go call it: rustls tells those of TLS 1.3 apart.
fn name_of(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

/// One way to exchange keys, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Group(&'static dyn SupportedKxGroup);

impl FromStr for Group {
    type Err = OfferError;

    fn from_str(given: &str) -> Result<Self, OfferError> {
        let all = provider().kx_groups.clone();
        let number = |it: &&'static dyn SupportedKxGroup| u16::from(it.name());
        let found = all.iter().find(|it| given.parse() == Ok(number(it)));
        found.copied().map(Self).ok_or_else(|| OfferError::Group {
            given: given.to_owned(),
            known: all
                .iter()
                .map(|it| format!("{} ({})", number(it), it.name().as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

static FROM_12: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
static FROM_13: &[&SupportedProtocolVersion] = &[&version::TLS13];

/// Empty lists: everything that there is.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    pub min_version: MinVersion,
    /// Of TLS 1.2; those of 1.3 are always offered, as Go's are.
    pub suites: Vec<Suite>,
    pub groups: Vec<Group>,
    pub without_http2: bool,
}

impl Offer {
    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = CryptoProvider::clone(&provider());
        let is_offered = |suite: &SupportedCipherSuite| {
            suite.tls13().is_some() || self.suites.contains(&Suite(*suite))
        };
        if !self.suites.is_empty() {
            provider.cipher_suites.retain(is_offered);
        }
        if !self.groups.is_empty() {
            let is_named = |it: &&'static dyn SupportedKxGroup| {
                self.groups.iter().any(|named| named.0.name() == it.name())
            };
            provider.kx_groups.retain(is_named);
        }
        Arc::new(provider)
    }

    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.min_version {
            MinVersion::Tls12 => FROM_12,
            MinVersion::Tls13 => FROM_13,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, ServerConfig, version};
    use stdx::Random;

    use super::super::tests::handshake;
    use super::super::{Authority, ChangingTrust, Rotating, Trust, changing_server_config, tls};
    use super::*;

    fn authority() -> Authority {
        Authority::create("test", Timestamp::now(), &Random::from_seed(1)).unwrap()
    }

    fn server(
        authority: &Authority,
        trust: Arc<ChangingTrust>,
        offer: &Offer,
    ) -> Arc<ServerConfig> {
        let random = Random::from_seed(2);
        let identity =
            authority.issue_server("server", &["server"], &[], Timestamp::now(), &random);
        let identity = Rotating::new(&identity.unwrap()).unwrap();
        Arc::new(changing_server_config(identity, trust, offer).unwrap())
    }

    fn client(
        authority: &Authority,
        provider: CryptoProvider,
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let roots = tls::roots(&tls::chain(authority.certificate_pem()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[version]).unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }

    fn trusting(authority: &Authority) -> Arc<ChangingTrust> {
        ChangingTrust::new(Trust::new(authority.certificate_pem(), None).unwrap())
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        for old in ["VersionTLS10", "VersionTLS11", "1.3"] {
            let said = old.parse::<MinVersion>().unwrap_err().to_string();
            assert!(said.ends_with("choose VersionTLS12 or VersionTLS13"), "{said}");
        }
        let said = "TLS_RSA_WITH_AES_128_CBC_SHA".parse::<Suite>().unwrap_err().to_string();
        assert!(said.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{said}");
        assert!(said.contains("TLS_AES_128_GCM_SHA256"), "{said}");
        let said = "25".parse::<Group>().unwrap_err().to_string();
        assert!(said.contains("29 (X25519)"), "{said}");
        for alias in ALIASES {
            assert_eq!(alias.0.parse::<Suite>(), alias.1.parse::<Suite>());
        }
    }

    #[test]
    fn nothing_is_spoken_but_what_is_offered() {
        let authority = authority();
        let check = |offer: &Offer, version, expected: Option<&str>| {
            let server = server(&authority, trusting(&authority), offer);
            let client = client(&authority, CryptoProvider::clone(&provider()), version);
            let spoken = handshake(&server, &client).ok().map(|(server, _)| {
                let suite = server.negotiated_cipher_suite().unwrap();
                format!(
                    "{} {:?}",
                    name_of(&suite),
                    server.negotiated_key_exchange_group().unwrap().name()
                )
            });
            match (&spoken, expected) {
                (None, None) => {}
                (Some(spoken), Some(expected)) => assert!(spoken.contains(expected), "{spoken}"),
                other => panic!("{other:?}"),
            }
        };
        let of_12 = Offer::default();
        check(&of_12, &version::TLS12, Some("TLS_ECDHE_ECDSA"));
        let of_13 = Offer { min_version: MinVersion::Tls13, ..Offer::default() };
        check(&of_13, &version::TLS12, None);
        check(&of_13, &version::TLS13, Some("TLS_AES"));
        let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
        let narrow = Offer {
            suites: vec![suite.parse().unwrap()],
            groups: vec!["24".parse().unwrap()],
            ..Offer::default()
        };
        check(&narrow, &version::TLS12, Some(&format!("{suite} secp384r1")));
        check(&narrow, &version::TLS13, Some("TLS_AES"));
    }

    #[test]
    fn whoever_is_not_believed_any_more_is_nobody() {
        let (one, two) = (
            authority(),
            Authority::create("two", Timestamp::now(), &Random::from_seed(3)).unwrap(),
        );
        let random = Random::from_seed(4);
        let identity = one.issue_client("jane", &["g"], Timestamp::now(), &random).unwrap();
        let chain: Vec<CertificateDer<'static>> = tls::chain(&identity.certificate_pem).unwrap();
        let trust = trusting(&one);
        let name = |trust: &ChangingTrust| {
            let found = trust.identify(&chain)?;
            Some(
                found
                    .user(Timestamp::now())
                    .map_or_else(|err| err.to_string(), |it| it.name.clone()),
            )
        };
        assert_eq!(name(&trust).as_deref(), Some("jane"));
        assert!(trust.identify(&[]).is_none());
        trust.replace(Trust::new(two.certificate_pem(), None).unwrap());
        assert_eq!(name(&trust), None);
        // A proxy is none of the clients.
        trust.replace(Trust::of(None, Some(one.certificate_pem())).unwrap());
        assert_eq!(
            name(&trust).as_deref(),
            Some("the client certificate is that of a proxy, which is no user")
        );
        trust.replace(Trust::of(None, None).unwrap());
        assert_eq!(name(&trust), None);
    }
}
