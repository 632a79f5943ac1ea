//! What an API server is told from outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use features::{Gates, RuntimeConfig};

use crate::encoding::Encoding;

#[derive(Clone, Debug)]
pub struct Config {
    pub service_cidr: ServiceCidr,
    pub node_port_range: RangeInclusive<u16>,
    /// Where clients reach this server; the `kubernetes` Service points to it.
    pub advertise: SocketAddr,
    pub issuer: String,
    pub audiences: Vec<String>,
    pub event_ttl: Duration,
    /// How long clients can count on what was: older continue tokens and exact lists are Expired.
    /// Zero: as long as the store remembers.
    pub compaction_interval: Duration,
    pub compaction: Compaction,
    /// What objects are written to the store as.
    pub encoding: Encoding,
    /// How this server shows itself to kubelets, and whom it trusts there. Without it there are no
    /// logs and no exec.
    pub kubelet_tls: Option<Arc<rustls::ClientConfig>>,
    pub gates: Gates,
    /// Which built-in versions and resources are served.
    pub runtime_config: RuntimeConfig,
}

impl Config {
    /// Whether other servers may write to the same store: then it is they who have to be told to
    /// forget, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.compaction == Compaction::ByServer
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service_cidr: ServiceCidr { base: [10, 96, 0, 0].into(), prefix: 16 },
            node_port_range: 30_000..=32_767,
            advertise: ([127, 0, 0, 1], 6443).into(),
            issuer: authn::tokens::ISSUER_DEFAULT.to_owned(),
            audiences: vec![authn::tokens::ISSUER_DEFAULT.to_owned()],
            event_ttl: Duration::from_secs(3_600),
            compaction_interval: Duration::from_secs(300),
            compaction: Compaction::ByStore,
            encoding: Encoding::Json,
            kubelet_tls: None,
            gates: Gates::default(),
            runtime_config: RuntimeConfig::default(),
        }
    }
}

/// Who makes the store forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The store has a budget of its own, which may be larger than what the API promises.
    ByStore,
    /// The API server, in turn with others over the same store.
    ByServer,
}

/// The addresses that Services get, as `10.96.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    pub base: Ipv4Addr,
    pub prefix: u8,
}

impl ServiceCidr {
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let cidr = Self { base: base.parse().ok()?, prefix: prefix.parse().ok()? };
        (8..=30).contains(&cidr.prefix).then_some(cidr)
    }

    /// Host addresses: without the network's own and the broadcast one.
    pub(crate) fn hosts(self) -> (u32, u32) {
        let mask = u32::MAX << (32 - self.prefix);
        let base = u32::from(self.base) & mask;
        (base + 1, (base | !mask) - 1)
    }

    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.hosts().0)
    }
}

impl std::fmt::Display for ServiceCidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}
