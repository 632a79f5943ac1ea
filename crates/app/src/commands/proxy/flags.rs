//! Flags of the proxy, by upstream's names. Most say the same as a field of its configuration
//! file, and count in its place.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::component_config::Document;
use crate::component_config::proxy::{KIND, KubeProxyConfiguration};
use crate::{component, data_dir};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// A KubeProxyConfiguration; flags count in place of what it says
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the API server is, if not where the kubeconfig says
    #[arg(long, value_name = "URL")]
    pub(super) master: Option<String>,
    /// Addresses of Services; what is in them and no Service's is refused (default: not known)
    #[arg(long, value_name = "CIDR")]
    pub(super) service_cluster_ip_range: Option<String>,
    /// Remove the rules for Services, and exit
    #[arg(long)]
    pub(super) cleanup: bool,
    #[command(flatten)]
    file: FileFlags,
    #[command(flatten)]
    conntrack: ConntrackFlags,
    #[command(flatten)]
    pub(super) component: component::Flags,
}

/// Each is a field of the file.
#[derive(clap::Args)]
struct FileFlags {
    /// How to reach the API server, and as whom: system:kube-proxy
    #[arg(long, value_name = "FILE", value_parser = data_dir::parser())]
    kubeconfig: Option<PathBuf>,
    /// Name of the node (default: the host's)
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,
    /// Addresses of all pods of the cluster: who calls Services from elsewhere is masqueraded
    #[arg(long, value_name = "CIDR")]
    cluster_cidr: Option<String>,
    /// Who counts as local: ClusterCIDR, or NodeCIDR, the pods of this node by its Node
    #[arg(long, value_name = "MODE")]
    detect_local_mode: Option<String>,
    /// How Services are served: nftables, iptables, ebpf or userspace
    #[arg(long, value_name = "MODE")]
    proxy_mode: Option<String>,
    /// Addresses of the node that node ports are served on (default: all)
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',')]
    nodeport_addresses: Option<Vec<String>>,
    /// Where /healthz is served, over plain HTTP; port 0 for nowhere
    #[arg(long, value_name = "IP:PORT")]
    healthz_bind_address: Option<String>,
    /// Where /metrics is served, over plain HTTP; port 0 for nowhere
    #[arg(long, value_name = "IP:PORT")]
    metrics_bind_address: Option<String>,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything (default: 2)
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    verbosity: Option<u8>,
}

/// Connection tracking is left as it is: each is taken with upstream's default alone.
#[derive(clap::Args)]
struct ConntrackFlags {
    /// Connections to track per core: 32768 alone
    #[arg(long, value_name = "N")]
    conntrack_max_per_core: Option<u32>,
    /// Connections to track at least: 131072 alone
    #[arg(long, value_name = "N")]
    conntrack_min: Option<u32>,
    /// How long idle connections are tracked: 24h alone
    #[arg(long, value_name = "DURATION")]
    conntrack_tcp_timeout_established: Option<String>,
    /// How long half-closed connections are tracked: 1h alone
    #[arg(long, value_name = "DURATION")]
    conntrack_tcp_timeout_close_wait: Option<String>,
    /// Track connections with packets out of their window: false alone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    conntrack_tcp_be_liberal: Option<bool>,
    /// How long UDP without an answer is tracked: 0s alone
    #[arg(long, value_name = "DURATION")]
    conntrack_udp_timeout: Option<String>,
    /// How long UDP with answers is tracked: 0s alone
    #[arg(long, value_name = "DURATION")]
    conntrack_udp_timeout_stream: Option<String>,
}

fn value<T: serde::Serialize>(flag: &Option<T>) -> Option<Value> {
    flag.as_ref().map(|it| json!(it))
}

impl Flags {
    /// The file, and the flags above it.
    pub(super) fn configuration(&self) -> Result<KubeProxyConfiguration> {
        let mut document = match &self.config {
            Some(path) => Document::read(&KIND, path)?,
            None => Document::empty(&KIND),
        };
        for (path, value) in self.file.fields().into_iter().chain(self.conntrack.fields()) {
            document.set(path, value);
        }
        Ok(KubeProxyConfiguration::new(document)?)
    }
}

impl FileFlags {
    /// The field of each, and what it says if it was given.
    fn fields(&self) -> Vec<(&'static str, Option<Value>)> {
        vec![
            ("clientConnection.kubeconfig", value(&self.kubeconfig)),
            ("hostnameOverride", value(&self.hostname_override)),
            ("clusterCIDR", value(&self.cluster_cidr)),
            ("detectLocalMode", value(&self.detect_local_mode)),
            ("mode", value(&self.proxy_mode)),
            ("nodePortAddresses", value(&self.nodeport_addresses)),
            ("healthzBindAddress", value(&self.healthz_bind_address)),
            ("metricsBindAddress", value(&self.metrics_bind_address)),
            ("logging.verbosity", value(&self.verbosity)),
        ]
    }
}

impl ConntrackFlags {
    fn fields(&self) -> Vec<(&'static str, Option<Value>)> {
        vec![
            ("conntrack.maxPerCore", value(&self.conntrack_max_per_core)),
            ("conntrack.min", value(&self.conntrack_min)),
            ("conntrack.tcpEstablishedTimeout", value(&self.conntrack_tcp_timeout_established)),
            ("conntrack.tcpCloseWaitTimeout", value(&self.conntrack_tcp_timeout_close_wait)),
            ("conntrack.tcpBeLiberal", value(&self.conntrack_tcp_be_liberal)),
            ("conntrack.udpTimeout", value(&self.conntrack_udp_timeout)),
            ("conntrack.udpStreamTimeout", value(&self.conntrack_udp_timeout_stream)),
        ]
    }
}
