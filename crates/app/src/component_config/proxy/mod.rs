//! What of a KubeProxyConfiguration is honored.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use service_proxy::backends;
use stdx::Cidr;

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
    node_port_addresses: Vec<String>,
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
        let addresses = configuration.node_port_addresses.iter();
        let wrong = addresses.filter_map(|it| node_port_address(it).err());
        let problems: Vec<String> = problems.into_iter().flatten().chain(wrong).collect();
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

    /// `None`: node ports are served on all addresses of the node.
    pub(crate) fn node_port_addresses(&self) -> Option<Vec<Cidr>> {
        let ranges = self.node_port_addresses.iter().filter_map(|it| node_port_address(it).ok());
        (!self.node_port_addresses.is_empty()).then(|| ranges.collect())
    }

    /// Local are the pods of this node alone, by its Node, not those of `clusterCIDR`.
    pub(crate) fn is_local_by_node(&self) -> bool {
        self.detect_local_mode == "NodeCIDR"
    }
}

fn node_port_address(text: &str) -> Result<Cidr, String> {
    let refused = |why: &str| format!("nodePortAddresses: {text:?} {why}");
    match text.trim() {
        "primary" => Err(refused("is not supported: give ranges of addresses")),
        range => range.parse().map_err(|_| refused("is no range such as 192.0.2.0/24")),
    }
}

#[cfg(test)]
mod tests {
    use super::node_port_address;

    #[test]
    fn node_port_addresses_are_ranges() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = node_port_address(text).map(|it| it.to_string());
            assert_eq!(found.as_deref().map_err(|it| &**it), expected);
        };
        check("192.0.2.0/24", Ok("192.0.2.0/24"));
        check("2001:db8::/64", Ok("2001:db8::/64"));
        let refused = "nodePortAddresses: \"primary\" is not supported: give ranges of addresses";
        check("primary", Err(refused));
        check("here", Err("nodePortAddresses: \"here\" is no range such as 192.0.2.0/24"));
    }
}
