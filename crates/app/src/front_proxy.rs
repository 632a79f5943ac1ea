//! Flags about who may speak for others: proxies to the API server, and the API server to those
//! that serve parts of its API. Upstream's names; what is not given is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apiserver::FrontProxy;
use authn::RequestHeaders;
use authn::pki::{Identity, Rotating, Trust};
use lifecycle::Tasks;

use crate::pki_files::Pki;
use crate::request_headers::{self, Names};

#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "front-proxy")]
pub(crate) struct Flags {
    /// Authorities of proxies that may speak for users, in PEM; the cluster's own if none are given
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of such proxies; empty: whoever has a certificate
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "front-proxy-client"
    )]
    requestheader_allowed_names: Vec<String>,
    /// Headers in which proxies name users: the first that is there counts
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<String>,
    /// Headers in which proxies give the UIDs of users
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers in which proxies name groups
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<String>,
    /// What headers begin with in which proxies give extra fields of users
    #[arg(
        long,
        value_name = "PREFIX,...",
        value_delimiter = ',',
        default_value = "X-Remote-Extra-"
    )]
    requestheader_extra_headers_prefix: Vec<String>,
    /// Certificate that the API server shows to servers that serve parts of its API
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,
}

impl Flags {
    /// What was given, and what was made for the rest.
    pub(crate) fn load(&self, pki: &Pki, tasks: &Tasks) -> Result<FrontProxy> {
        let client_ca_pem = pki.authority.certificate_pem().to_owned();
        let proxy_ca_pem = match &self.requestheader_client_ca_file {
            Some(path) => read("--requestheader-client-ca-file", path)?,
            None => pki.front_proxy_authority().to_owned(),
        };
        let trust = Trust::new(&client_ca_pem, Some(&proxy_ca_pem));
        let trust = trust.context("--requestheader-client-ca-file")?;
        Ok(FrontProxy {
            identity: Some(self.identity(pki, tasks)?),
            headers: Some(self.headers()?),
            trust: Some(trust),
            client_ca_pem,
            proxy_ca_pem,
        })
    }

    fn identity(&self, pki: &Pki, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let (Some(certificate), Some(key)) =
            (&self.proxy_client_cert_file, &self.proxy_client_key_file)
        else {
            return pki.front_proxy_client(tasks);
        };
        let identity = Identity {
            certificate_pem: read("--proxy-client-cert-file", certificate)?,
            private_key_pem: read("--proxy-client-key-file", key)?,
        };
        Rotating::new(&identity).context("--proxy-client-cert-file, --proxy-client-key-file")
    }

    fn headers(&self) -> Result<RequestHeaders> {
        let names = Names {
            allowed: &self.requestheader_allowed_names,
            username: &self.requestheader_username_headers,
            uid: &self.requestheader_uid_headers,
            group: &self.requestheader_group_headers,
            extra_prefix: &self.requestheader_extra_headers_prefix,
        };
        request_headers::read("--requestheader-", &names)
    }
}

fn read(flag: &str, path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path);
    text.with_context(|| format!("{flag}: reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, clap::Error> {
        let command = Flags::augment_args(clap::Command::new("test"));
        let matches = command.try_get_matches_from([&["test"], arguments].concat())?;
        Flags::from_arg_matches(&matches)
    }

    #[test]
    fn headers_are_those_of_upstream_unless_others_are_named() {
        let headers = parse(&[]).unwrap().headers().unwrap();
        assert_eq!(headers, RequestHeaders::default());
        let flags = parse(&[
            "--requestheader-allowed-names=",
            "--requestheader-username-headers=X-User,X-Remote-User",
            "--requestheader-extra-headers-prefix=X-More-",
        ]);
        let headers = flags.unwrap().headers().unwrap();
        assert!(headers.allowed_names.is_empty());
        assert_eq!(headers.username, ["x-user", "x-remote-user"]);
        assert_eq!(headers.extra_prefix, ["x-more-"]);
        let refused = parse(&["--requestheader-group-headers=a b"]).unwrap().headers();
        assert!(refused.unwrap_err().to_string().contains("--requestheader-group-headers"));
        assert!(parse(&["--proxy-client-cert-file=a"]).is_err());
    }
}
