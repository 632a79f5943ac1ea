//! What of a KubeProxyConfiguration is honored.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use service_proxy::backends;

use super::{Document, Error, Kind, form};

pub(crate) const KIND: Kind = Kind {
    api_version: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    table: include_str!("fields.txt"),
};

const HEALTHZ_PORT: u16 = 10256;
const METRICS_PORT: u16 = 10249;
const LOCAL_MODES: &[&str] = &["ClusterCIDR", "NodeCIDR"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeProxyConfiguration {
    pub(crate) feature_gates: BTreeMap<String, bool>,
    pub(crate) client_connection: ClientConnection,
    pub(crate) logging: super::Logging,
    pub(crate) hostname_override: String,
    healthz_bind_address: String,
    metrics_bind_address: String,
    pub(crate) mode: String,
    detect_local_mode: String,
    #[serde(rename = "clusterCIDR")]
    pub(crate) cluster_cidr: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClientConnection {
    pub(crate) kubeconfig: PathBuf,
}

impl KubeProxyConfiguration {
    pub(crate) fn new(document: Document) -> Result<Self, Error> {
        let configuration: Self = document.finish()?;
        let one_of = |field: &str, value: &str, known: &[&str]| {
            let text =
                format!("{field}: {value:?} is not supported: choose {}", known.join(" or "));
            (!known.contains(&value)).then_some(text)
        };
        let Self { mode, detect_local_mode, .. } = &configuration;
        let modes: Vec<&str> = backends::ALL.iter().map(|it| it.name).collect();
        let problems = [
            one_of("mode", mode, &modes),
            one_of("detectLocalMode", detect_local_mode, LOCAL_MODES),
        ];
        let problems: Vec<String> = problems.into_iter().flatten().collect();
        match problems.is_empty() {
            true => Ok(configuration),
            false => Err(Error::Refused { kind: KIND.kind, problems }),
        }
    }

    /// `None`: nobody listens.
    pub(crate) fn healthz(&self) -> Option<SocketAddr> {
        form::socket(&self.healthz_bind_address, HEALTHZ_PORT).filter(|it| it.port() != 0)
    }

    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        form::socket(&self.metrics_bind_address, METRICS_PORT).filter(|it| it.port() != 0)
    }

    /// Local are the pods of this node alone, by its Node, not those of `clusterCIDR`.
    pub(crate) fn is_local_by_node(&self) -> bool {
        self.detect_local_mode == "NodeCIDR"
    }
}
