//! Flags about tokens of service accounts: who they come from, and whose are taken beside those
//! that the cluster's own key signs: of a cluster that is taken over, or whose key was changed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use authn::pki::VerifyingKey;
use authn::tokens::ISSUER_DEFAULT;

#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "token-keys")]
pub(crate) struct Flags {
    /// Keys in PEM, public or private, that also may have signed tokens of service accounts, beside
    /// the cluster's own; may be given several times
    #[arg(long = "service-account-key-file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Who tokens of service accounts come from, best an https URL; given several times, the first
    /// one is put into new tokens, and all are taken (default:
    /// https://kubernetes.default.svc.cluster.local)
    #[arg(long = "service-account-issuer", value_name = "URL", value_parser = parse_issuer)]
    issuers: Vec<String>,
    /// Where others find the keys of such tokens (default: this server's /openid/v1/jwks)
    #[arg(long = "service-account-jwks-uri", value_name = "URL", value_parser = parse_jwks_uri)]
    jwks_uri: Option<String>,
    /// Whom tokens are for that are to let in here; given several times or with commas, any of
    /// these (default: the issuers)
    #[arg(long = "api-audiences", value_name = "AUDIENCE,...", value_delimiter = ',')]
    audiences: Vec<String>,
}

impl Flags {
    pub(crate) fn validate(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.issuers.iter().find(|it| !seen.insert(*it)) {
            bail!("service-account-issuer {twice:?} is already specified");
        }
        Ok(())
    }

    pub(crate) fn issuers(&self) -> Vec<String> {
        match self.issuers.as_slice() {
            [] => vec![ISSUER_DEFAULT.to_owned()],
            some => some.to_vec(),
        }
    }

    pub(crate) fn jwks_uri(&self) -> Option<String> {
        self.jwks_uri.clone()
    }

    pub(crate) fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() { self.issuers() } else { self.audiences.clone() }
    }

    pub(crate) fn load(&self) -> Result<Vec<VerifyingKey>> {
        let mut keys = Vec::new();
        for path in &self.files {
            let read = || Ok(VerifyingKey::load_all(&std::fs::read_to_string(path)?)?);
            let read: Result<Vec<VerifyingKey>> = read();
            keys.extend(
                read.with_context(|| format!("--service-account-key-file {}", path.display()))?,
            );
        }
        Ok(keys)
    }
}

/// A name of any kind, or what a URL is like.
fn parse_issuer(text: &str) -> Result<String, String> {
    let is_scheme = |it: &str| {
        it.starts_with(|it: char| it.is_ascii_alphabetic())
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
    };
    match text.split_once(':') {
        _ if text.is_empty() => Err("service-account-issuer should not be an empty string".into()),
        Some((scheme, rest)) if !is_scheme(scheme) || rest.contains(char::is_whitespace) => {
            Err(format!("service-account-issuer {text:?} contained a ':' but was not a valid URL"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn parse_jwks_uri(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").map(|it| it.split('/').next().unwrap_or_default());
    match host {
        None => Err(format!("service-account-jwks-uri requires https scheme, parsed as: {text}")),
        Some("") => Err("service-account-jwks-uri must be a valid URL: it has no host".into()),
        Some(_) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, parse_issuer, parse_jwks_uri};

    #[test]
    fn issuers_are_named_once_and_are_the_audience() {
        let of = |issuers: &[&str], audiences: &[&str]| {
            let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
            let flags =
                Flags { issuers: texts(issuers), audiences: texts(audiences), ..Flags::default() };
            let checked = flags.validate().map_err(|it| it.to_string());
            checked.map(|()| (flags.issuers().join(" "), flags.audiences().join(" ")))
        };
        let default = "https://kubernetes.default.svc.cluster.local".to_owned();
        assert_eq!(of(&[], &[]), Ok((default.clone(), default)));
        assert_eq!(of(&["a", "b"], &[]), Ok(("a b".to_owned(), "a b".to_owned())));
        assert_eq!(of(&["a"], &["c"]), Ok(("a".to_owned(), "c".to_owned())));
        let twice = "service-account-issuer \"a\" is already specified".to_owned();
        assert_eq!(of(&["a", "b", "a"], &[]), Err(twice));
    }

    #[test]
    fn issuers_and_the_place_of_keys_are_urls() {
        for good in ["https://example.com", "kubernetes/serviceaccount", "urn:a:b", "http://a"] {
            assert_eq!(parse_issuer(good).as_deref(), Ok(good));
        }
        for bad in ["", "://a", "1a:b", "https://a b"] {
            assert!(parse_issuer(bad).is_err(), "{bad:?}");
        }
        assert!(parse_jwks_uri("https://example.com/keys").is_ok());
        for bad in ["", "http://example.com", "https:///keys", "example.com"] {
            assert!(parse_jwks_uri(bad).is_err(), "{bad:?}");
        }
    }
}
