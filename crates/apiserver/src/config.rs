//! What an API server is told from outside.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use authn::RequestHeaders;
use authn::pki::{Rotating, Trust, VerifyingKey};
use features::{Gates, RuntimeConfig};
use stdx::Cidr;

use crate::dialer::Dialer;
use crate::encoding::Encoding;

#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses that Services get: one range, or one of each family, the first one first.
    pub service_cidrs: Vec<Cidr>,
    pub node_port_range: RangeInclusive<u16>,
    /// Where clients reach this server; the `kubernetes` Service points to it.
    pub advertise: SocketAddr,
    /// The name of the machine, by which servers tell each other apart; empty: this one says nothing
    /// of itself.
    pub host_name: String,
    /// What tokens of service accounts say of who made them: the first one is put into new ones, all
    /// are taken.
    pub issuers: Vec<String>,
    /// Where others find the keys of such tokens, if not here.
    pub jwks_uri: Option<String>,
    pub audiences: Vec<String>,
    /// Whose tokens are taken beside those that this server can sign itself.
    pub verifying_keys: Vec<VerifyingKey>,
    /// Whether bootstrap tokens let in whoever is to become a node.
    pub has_bootstrap_tokens: bool,
    pub event_ttl: Duration,
    /// From a request to the head of its answer.
    pub request_timeout: Duration,
    /// Requests at once over one connection of HTTP/2.
    pub streams_per_connection: u32,
    /// How long clients can count on what was: older continue tokens and exact lists are Expired.
    /// Zero: as long as the store remembers.
    pub compaction_interval: Duration,
    pub compaction: Compaction,
    /// What objects are written to the store as.
    pub encoding: Encoding,
    /// How this server shows itself to kubelets, and whom it trusts there. Without it there are no
    /// logs and no exec.
    pub kubelet_tls: Option<Arc<rustls::ClientConfig>>,
    pub front_proxy: FrontProxy,
    /// How servers are reached that requests are passed on to.
    pub dialer: Dialer,
    /// Whether controllers and scheduler run in this process, for as long as it does.
    pub has_components: bool,
    pub gates: Gates,
    /// Which admission plugins run.
    pub admission_plugins: admission::Selection,
    /// What they are told.
    pub admission_configuration: admission::Configuration,
    /// Which built-in versions and resources are served.
    pub runtime_config: RuntimeConfig,
}

impl Config {
    /// Whether other servers may write to the same store: then it is they who have to be told to
    /// forget, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.compaction == Compaction::ByServer
    }

    /// Who new tokens are said to come from.
    pub(crate) fn issuer(&self) -> &str {
        self.issuers.first().map_or(authn::tokens::ISSUER_DEFAULT, String::as_str)
    }

    /// The address of the `kubernetes` Service: the first after the network's own.
    pub(crate) fn kubernetes_address(&self) -> Option<IpAddr> {
        self.service_cidrs.first().and_then(|it| it.nth(1))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service_cidrs: Cidr::containing([10, 96, 0, 0].into(), 16).into_iter().collect(),
            node_port_range: 30_000..=32_767,
            advertise: ([127, 0, 0, 1], 6443).into(),
            host_name: String::new(),
            issuers: vec![authn::tokens::ISSUER_DEFAULT.to_owned()],
            jwks_uri: None,
            audiences: vec![authn::tokens::ISSUER_DEFAULT.to_owned()],
            verifying_keys: Vec::new(),
            has_bootstrap_tokens: false,
            event_ttl: Duration::from_secs(3_600),
            request_timeout: Duration::from_secs(60),
            streams_per_connection: serving::STREAMS_DEFAULT,
            compaction_interval: Duration::from_secs(300),
            compaction: Compaction::ByStore,
            encoding: Encoding::Json,
            kubelet_tls: None,
            front_proxy: FrontProxy::default(),
            dialer: Dialer::default(),
            has_components: false,
            gates: Gates::default(),
            admission_plugins: admission::Selection::default(),
            admission_configuration: admission::Configuration::default(),
            runtime_config: RuntimeConfig::default(),
        }
    }
}

/// Who may speak for others: proxies to this server, and this server to those that serve parts of
/// the API.
#[derive(Clone, Debug, Default)]
pub struct FrontProxy {
    /// What this server shows to others. Without it no request is passed on.
    pub identity: Option<Arc<Rotating>>,
    /// Which headers of which proxies say who asks. Without it none do.
    pub headers: Option<RequestHeaders>,
    /// Whose certificates are those of users, and whose those of proxies.
    pub trust: Option<Trust>,
    /// Authorities of users and of proxies, in PEM, for others who serve parts of the API.
    pub client_ca_pem: String,
    pub proxy_ca_pem: String,
}

/// Who makes the store forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The store has a budget of its own, which may be larger than what the API promises.
    ByStore,
    /// The API server, in turn with others over the same store.
    ByServer,
}
