//! Who asks: whom a proxy speaks for, whose certificate it is, whose token; else nobody in
//! particular. Authorities come from files or from the cluster, and what tokens are worth is the API
//! server's word, as upstream delegates it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apimachinery::User;
use authn::pki::ChangingTrust;
use authn::{ClientCertificate, Credential, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, credentials};
use client::reviews::{Keep, Reviewer};
use http::HeaderMap;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::Cluster;
use super::believed::{Believed, Proxies, Told};
use super::refused::Refused;
use crate::datastore::parse_duration;
use crate::request_headers::{self, Names};
use crate::switch::{self, named};

#[derive(clap::Args, Clone)]
#[group(id = "authentication")]
pub(super) struct Flags {
    /// Where to look up whom to believe, and whose tokens are whose; without it where --kubeconfig
    /// says
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    authentication_kubeconfig: Option<PathBuf>,
    /// How long it is remembered whose a token is
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Do not look up in the cluster whose certificates to believe where no files say so
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
    authentication_skip_lookup: bool,
    /// Start although that cannot be looked up, and look again; the scheduler does unless told
    /// otherwise
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = switch::parse)]
    authentication_tolerate_lookup_failure: Option<bool>,
    /// Authority of clients' certificates; without it the one that the cluster publishes
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    client_ca_file: Option<PathBuf>,
    #[command(flatten)]
    proxies: ProxyFlags,
}

/// Who may speak for others, and how.
#[derive(clap::Args, Clone)]
#[group(id = "request-headers")]
struct ProxyFlags {
    /// Authority of proxies that may speak for users; without it the one that the cluster publishes,
    /// with names and headers
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of such proxies; none: whoever has a certificate
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(requires = "requestheader_client_ca_file")]
    requestheader_allowed_names: Vec<String>,
    /// Headers in which proxies name users: the first that is there counts
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "x-remote-user")]
    #[arg(requires = "requestheader_client_ca_file")]
    requestheader_username_headers: Vec<String>,
    /// Headers in which proxies give the UIDs of users
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(requires = "requestheader_client_ca_file")]
    requestheader_uid_headers: Vec<String>,
    /// Headers in which proxies name groups
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "x-remote-group")]
    #[arg(requires = "requestheader_client_ca_file")]
    requestheader_group_headers: Vec<String>,
    /// What headers begin with in which proxies give extra fields of users
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',')]
    #[arg(default_value = "x-remote-extra-", requires = "requestheader_client_ca_file")]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl ProxyFlags {
    fn load(&self) -> Result<Option<Proxies>> {
        let Some(path) = named(&self.requestheader_client_ca_file) else { return Ok(None) };
        let authority = super::read(path).context("--requestheader-client-ca-file")?;
        let names = Names {
            allowed: &self.requestheader_allowed_names,
            username: &self.requestheader_username_headers,
            uid: &self.requestheader_uid_headers,
            group: &self.requestheader_group_headers,
            extra_prefix: &self.requestheader_extra_headers_prefix,
        };
        let headers = request_headers::read("--requestheader-", &names)?;
        Ok(Some(Proxies { authority, headers }))
    }
}

impl Flags {
    fn told(&self) -> Result<Told> {
        let clients = named(&self.client_ca_file).map(super::read);
        Ok(Told {
            clients: clients.transpose().context("--client-ca-file")?,
            proxies: self.proxies.load()?,
        })
    }

    /// Reads files, and follows what the cluster says of the rest. `is_tolerant`: whether to start
    /// without its word, if no flag says so.
    pub(super) async fn start(
        &self,
        is_tolerant: bool,
        cluster: &Cluster<'_>,
    ) -> Result<Authentication> {
        let told = self.told()?;
        let client = cluster.client(&self.authentication_kubeconfig).await?;
        let lacks_proxies = told.proxies.is_none();
        let is_complete = told.clients.is_some() && !lacks_proxies;
        let believed = Believed::new(told)?;
        if !is_complete && !self.authentication_skip_lookup {
            let is_tolerant = self.authentication_tolerate_lookup_failure.unwrap_or(is_tolerant);
            match believed.look_up(&client).await {
                Ok(()) => {}
                // As upstream: without authorities of clients it starts.
                Err(err) if is_tolerant || !lacks_proxies => {
                    let error = stdx::error_chain(&err);
                    tracing::warn!(error, "whom to believe was not looked up; trying again");
                }
                Err(err) => {
                    return Err(err).context(
                        "looking up whom to believe \
                         (--authentication-tolerate-lookup-failure starts without it)",
                    );
                }
            }
            believed.follow(&client, cluster);
        }
        let tokens = self.authentication_token_webhook_cache_ttl;
        let keep = Keep { tokens, allowed: Duration::ZERO, denied: Duration::ZERO };
        Ok(Authentication { believed, tokens: Reviewer::new(client, keep) })
    }
}

pub(super) struct Authentication {
    believed: Arc<Believed>,
    tokens: Reviewer,
}

impl Authentication {
    pub(super) fn trust(&self) -> Arc<ChangingTrust> {
        self.believed.trust()
    }

    /// Whom the certificates of a connection are of.
    pub(super) fn identify(
        trust: &Arc<ChangingTrust>,
    ) -> impl Fn(&[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> + Clone + Send + Sync + use<>
    {
        let trust = trust.clone();
        move |chain| trust.identify(chain)
    }

    pub(super) async fn user(
        &self,
        certificate: Option<Arc<ClientCertificate>>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<User, Refused> {
        let proxies = self.believed.headers();
        let credential = credentials::credential(headers, certificate, proxies.as_deref());
        match credential.map_err(|_| Refused::Unauthorized)? {
            // Upstream lets strangers ask; the API server decides.
            Credential::None => Ok(User::new(USER_ANONYMOUS, &[GROUP_UNAUTHENTICATED])),
            Credential::Certificate(certificate) => {
                certificate.user(now).map(|it| User::clone(it)).map_err(|_| Refused::Unauthorized)
            }
            Credential::Proxied(proxied) => proxied.user(now).map_err(|_| Refused::Unauthorized),
            Credential::Bearer(token) => {
                let user = self.tokens.token(&token).await.map_err(Refused::NoAnswer)?;
                user.ok_or(Refused::Unauthorized)
            }
            // Of components in a process with the API server, which this is not.
            Credential::Component(_) => Err(Refused::Unauthorized),
        }
    }
}
