//! What of a KubeletConfiguration is honored.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Document, Error, Kind};

pub(crate) const KIND: Kind = Kind {
    api_version: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    table: include_str!("fields.txt"),
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeletConfiguration {
    pub(crate) static_pod_path: PathBuf,
    pub(crate) pod_logs_dir: PathBuf,
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) tls_cert_file: PathBuf,
    pub(crate) tls_private_key_file: PathBuf,
    pub(crate) rotate_certificates: bool,
    #[serde(rename = "serverTLSBootstrap")]
    pub(crate) server_tls_bootstrap: bool,
    pub(crate) authentication: Authentication,
    /// 0: nobody listens.
    pub(crate) healthz_port: u16,
    pub(crate) healthz_bind_address: IpAddr,
    pub(crate) cluster_domain: String,
    #[serde(rename = "clusterDNS")]
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cgroup_root: String,
    pub(crate) max_pods: u32,
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: String,
    pub(crate) feature_gates: BTreeMap<String, bool>,
    pub(crate) container_log_max_size: String,
    pub(crate) container_log_max_files: u32,
    pub(crate) allowed_unsafe_sysctls: Vec<String>,
    pub(crate) logging: super::Logging,
    pub(crate) register_with_taints: Vec<Taint>,
    pub(crate) register_node: bool,
    pub(crate) container_runtime_endpoint: String,
    #[serde(rename = "failCgroupV1")]
    pub(crate) fail_cgroup_v1: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Authentication {
    pub(crate) x509: X509,
}

#[derive(Debug, Deserialize)]
pub(crate) struct X509 {
    #[serde(rename = "clientCAFile")]
    pub(crate) client_ca_file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: Option<String>,
    pub(crate) effect: String,
}

impl KubeletConfiguration {
    pub(crate) fn new(document: Document) -> Result<Self, Error> {
        document.finish()
    }

    /// Paths in a file are relative to where it is.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        let paths = [
            &mut self.static_pod_path,
            &mut self.pod_logs_dir,
            &mut self.tls_cert_file,
            &mut self.tls_private_key_file,
            &mut self.authentication.x509.client_ca_file,
        ];
        for path in paths.into_iter().filter(|it| !it.as_os_str().is_empty()) {
            *path = folder.join(&*path);
        }
    }
}
