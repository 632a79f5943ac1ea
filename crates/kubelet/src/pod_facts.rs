//! What containers and volumes are rendered from, besides the Pod: plain values, gathered by the
//! pod's worker, so that rendering stays pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::certificates::ClusterTrustBundle;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use node_api::images::Image;
use node_api::{ContainerId, ImageId};

use crate::huge_pages::Pools;

/// What the pod refers to in its own namespace, as it was when somebody looked. A name that is not
/// here does not exist.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    pub config_maps: BTreeMap<String, Arc<ConfigMap>>,
    pub secrets: BTreeMap<String, Arc<Secret>>,
    /// Tokens of the `serviceAccountToken` projections.
    pub tokens: BTreeMap<TokenKey, Bytes>,
    /// Of the `podCertificate` projections, or why one is not there. `None`: this kubelet asks for
    /// none.
    pub certificates: Option<BTreeMap<CertificateKey, Result<Credential, String>>>,
    /// All of the cluster, or why they are not known. `None`: this kubelet does not look at them.
    pub trust_bundles: Option<Result<Vec<Arc<ClusterTrustBundle>>, String>>,
}

/// A projection of a pod: the name of its volume and which of the sources it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateKey {
    pub volume: String,
    pub source: usize,
}

/// A key and the certificates that were signed for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub key_pem: String,
    pub chain_pem: String,
}

impl std::fmt::Debug for Credential {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({} bytes of certificates)", self.chain_pem.len())
    }
}

/// Which token a projection asks for. `audience` is empty for the API server's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenKey {
    pub audience: String,
    pub expiration_seconds: i64,
}

/// What the node lets pods use: the limits that `resourceFieldRef` shows for containers without
/// any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    pub cpu_millis: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    pub huge_pages: Pools,
}

/// The same for all containers and volumes of a pod.
#[derive(Clone, Debug)]
pub struct PodFacts {
    pub node_name: String,
    pub host_ips: Vec<IpAddr>,
    /// Empty until there is a sandbox. With the host's network, the host's addresses.
    pub pod_ips: Vec<IpAddr>,
    pub allocatable: Allocatable,
    pub lookups: Lookups,
    /// Services of the pod's namespace, and `default/kubernetes`, which every pod sees.
    pub services: Vec<Arc<Service>>,
    /// Where each volume is on the node, by its name in the pod.
    pub volumes: BTreeMap<String, PathBuf>,
    /// `pods/<uid>` below the kubelet's directory.
    pub directory: PathBuf,
    /// What is mounted on `/etc/hosts`; `None`: nothing (the host's network, or a container that
    /// mounts its own).
    pub hosts_file: Option<PathBuf>,
    /// Whether the pod's runtime makes what is mounted below a volume read-only too.
    pub can_recursive_read_only: bool,
    /// What files in volumes say for the container's environment. `None`: it could not be read.
    pub files: BTreeMap<FileKey, Option<String>>,
}

/// A variable in a file in a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    pub volume: String,
    pub path: String,
    pub key: String,
}

/// What is different for each run of a container.
#[derive(Clone, Debug)]
pub struct RunFacts {
    pub image: Image,
    /// The restart count this run is shown with.
    pub attempt: u32,
    pub log_path: PathBuf,
    /// A file, already there, that is mounted on `terminationMessagePath`.
    pub termination_log: PathBuf,
    /// What `Volumes::sub_path` gave for each of `container_config::sub_paths`, by the index of the
    /// mount.
    pub sub_paths: BTreeMap<usize, PathBuf>,
    /// The images of the volumes that have one, by the volume's name.
    pub images: BTreeMap<String, ImageId>,
    /// The run whose processes an ephemeral container asks to see.
    pub target: Option<ContainerId>,
}
