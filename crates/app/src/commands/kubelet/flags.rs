//! Flags of the kubelet, by upstream's names. Most say the same as a field of its configuration
//! file, and count in its place.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use apimachinery::validation::{is_label_value, is_qualified_name};
use serde_json::{Value, json};

use crate::commands::network::{Addresses, parse_addresses};
use crate::component_config::Document;
use crate::component_config::kubelet::{KIND, KubeletConfiguration};
use crate::{component, data_dir, node};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// How to reach the API server, and as whom: system:node:NAME in the group system:nodes
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: PathBuf,
    /// With whose token the certificate of the node is asked for, and --kubeconfig written, if that is
    /// not there or its certificate has ended
    #[arg(long, value_name = "FILE")]
    pub(super) bootstrap_kubeconfig: Option<PathBuf>,
    /// A KubeletConfiguration; flags count in place of what it says
    #[arg(long, value_name = "FILE", value_parser = data_dir::parser())]
    config: Option<PathBuf>,
    /// KubeletConfigurations to lay over it: files that end with .conf, in the order of their names
    #[arg(long, value_name = "DIR")]
    config_dir: Option<PathBuf>,
    /// Where volumes of pods are kept; containers, images and network in `xebec` below it
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet", value_parser = data_dir::parser())]
    pub(super) root_dir: PathBuf,
    /// Where certificates are kept that are asked for, or made for want of --tls-cert-file (default:
    /// `pki` below --root-dir)
    #[arg(long, value_name = "DIR", value_parser = data_dir::parser())]
    cert_dir: Option<PathBuf>,
    /// Name of the node (default: the host's)
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,
    /// Address of the node, or one of each family (default: those that the machine sends from)
    #[arg(long, value_name = "IP[,IP]", value_parser = parse_addresses)]
    pub(super) node_ip: Option<Addresses>,
    /// Labels that the node gets
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = parse_label)]
    node_labels: Vec<(String, String)>,
    /// Addresses of all pods of the cluster, which are not masqueraded (default: those of this node)
    #[arg(long, value_name = "CIDR")]
    pub(super) cluster_cidr: Option<String>,
    /// Remove the containers, network and volumes of this node, and exit
    #[arg(long)]
    pub(super) cleanup: bool,
    #[command(flatten)]
    file: FileFlags,
    #[command(flatten)]
    pub(super) component: component::Flags,
}

/// Each is a field of the file.
#[derive(clap::Args)]
struct FileFlags {
    /// Address to serve on
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Port to serve on
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Port for those who prove nothing: 0 alone
    #[arg(long, value_name = "N")]
    read_only_port: Option<u16>,
    /// Port for /healthz over plain HTTP; 0 for none
    #[arg(long, value_name = "N")]
    healthz_port: Option<u16>,
    /// Address for /healthz
    #[arg(long, value_name = "IP")]
    healthz_bind_address: Option<IpAddr>,
    /// Certificate to serve with; without it one is made that nobody signed
    #[arg(long, value_name = "FILE", value_parser = data_dir::parser())]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = data_dir::parser())]
    tls_private_key_file: Option<PathBuf>,
    /// Ask for another client certificate when two thirds of the life of this one are over
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    rotate_certificates: Option<bool>,
    /// Ask for the certificate to serve with, and for another in time
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    rotate_server_certificates: Option<bool>,
    /// Authority of clients' certificates; without it the one of the kubeconfig
    #[arg(long, value_name = "FILE", value_parser = data_dir::parser())]
    client_ca_file: Option<PathBuf>,
    /// Who decides what clients may do: Webhook alone, the API server
    #[arg(long, value_name = "MODE")]
    authorization_mode: Option<String>,
    /// Let in whoever proves nothing: false alone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// Directory of manifests of static pods
    #[arg(long, value_name = "DIR", value_parser = data_dir::parser())]
    pod_manifest_path: Option<PathBuf>,
    /// Create the Node
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    register_node: Option<bool>,
    /// Taints that the Node is created with
    #[arg(long, value_name = "KEY=VALUE:EFFECT,...", value_delimiter = ',', value_parser = parse_taint)]
    register_with_taints: Option<Vec<Value>>,
    /// Socket of a container runtime; without it containers are run by this binary
    #[arg(long, value_name = "URL")]
    container_runtime_endpoint: Option<String>,
    /// Cgroup below which the pods' are made (default: xebec-ID)
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<String>,
    /// Who makes cgroups: cgroupfs alone
    #[arg(long, value_name = "NAME")]
    cgroup_driver: Option<String>,
    /// Most pods that run here
    #[arg(long, value_name = "N")]
    max_pods: Option<u32>,
    /// Addresses of this node's pods, where nobody gives the Node any
    #[arg(long, value_name = "CIDR")]
    pod_cidr: Option<String>,
    /// Name servers of the cluster
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    cluster_dns: Option<Vec<IpAddr>>,
    /// Domain of the cluster
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
    /// Kernel settings that pods may ask for though they are not safe; `*` at the end stands for
    /// anything
    #[arg(long, value_name = "SYSCTL,...", value_delimiter = ',')]
    allowed_unsafe_sysctls: Option<Vec<String>>,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything (default: 2)
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    verbosity: Option<u8>,
}

impl FileFlags {
    /// The field of each, and what it says if it was given.
    fn fields(&self) -> Vec<(&'static str, Option<Value>)> {
        fn value<T: serde::Serialize>(flag: &Option<T>) -> Option<Value> {
            flag.as_ref().map(|it| json!(it))
        }
        vec![
            ("address", value(&self.address)),
            ("port", value(&self.port)),
            ("readOnlyPort", value(&self.read_only_port)),
            ("healthzPort", value(&self.healthz_port)),
            ("healthzBindAddress", value(&self.healthz_bind_address)),
            ("tlsCertFile", value(&self.tls_cert_file)),
            ("tlsPrivateKeyFile", value(&self.tls_private_key_file)),
            ("rotateCertificates", value(&self.rotate_certificates)),
            ("serverTLSBootstrap", value(&self.rotate_server_certificates)),
            ("authentication.x509.clientCAFile", value(&self.client_ca_file)),
            ("authentication.anonymous.enabled", value(&self.anonymous_auth)),
            ("authorization.mode", value(&self.authorization_mode)),
            ("staticPodPath", value(&self.pod_manifest_path)),
            ("registerNode", value(&self.register_node)),
            ("registerWithTaints", value(&self.register_with_taints)),
            ("containerRuntimeEndpoint", value(&self.container_runtime_endpoint)),
            ("cgroupRoot", value(&self.cgroup_root)),
            ("cgroupDriver", value(&self.cgroup_driver)),
            ("maxPods", value(&self.max_pods)),
            ("podCIDR", value(&self.pod_cidr)),
            ("clusterDNS", value(&self.cluster_dns)),
            ("clusterDomain", value(&self.cluster_domain)),
            ("allowedUnsafeSysctls", value(&self.allowed_unsafe_sysctls)),
            ("logging.verbosity", value(&self.verbosity)),
        ]
    }
}

impl Flags {
    /// The file, what is laid over it, and the flags above all.
    pub(super) fn configuration(&self) -> Result<KubeletConfiguration> {
        let mut document = match &self.config {
            Some(path) => Document::read(&KIND, path)?,
            None => Document::empty(&KIND),
        };
        if let Some(directory) = &self.config_dir {
            document.lay_over_all(directory)?;
        }
        for (path, value) in self.file.fields() {
            document.set(path, value);
        }
        let mut configuration = KubeletConfiguration::new(document)?;
        if let Some(folder) = self.config.as_deref().and_then(Path::parent) {
            configuration.resolve(folder);
        }
        Ok(configuration)
    }

    pub(super) fn validate(&self) -> Result<()> {
        let problems = apimachinery::validation::is_dns_subdomain(&self.node_name());
        match problems.first() {
            Some(problem) => bail!("--hostname-override {:?}: {problem}", self.node_name()),
            None => Ok(()),
        }
    }

    pub(super) fn node_name(&self) -> String {
        match &self.hostname_override {
            Some(name) => name.trim().to_ascii_lowercase(),
            None => node::node_name(),
        }
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.node_labels.iter().cloned().collect()
    }

    /// Of what is ours alone.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.root_dir.join("xebec")
    }

    pub(super) fn cert_dir(&self) -> PathBuf {
        self.cert_dir.clone().unwrap_or_else(|| self.root_dir.join("pki"))
    }

    pub(super) fn read(path: &Path) -> Result<String> {
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let problems = is_qualified_name(key).into_iter().chain(is_label_value(value));
    match problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}

/// `key=value:effect` or `key:effect`, as kubectl writes them; the table says what is right.
fn parse_taint(text: &str) -> Result<Value, String> {
    let (key, effect) = text.rsplit_once(':').ok_or("expected KEY=VALUE:EFFECT")?;
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    Ok(json!({"key": key, "value": value, "effect": effect}))
}
