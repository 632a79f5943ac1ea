//! What a pod may ask for as a volume: a folder per plugin, with the objects and tokens it needs and
//! what should be at its path. Pure: what it refers to is in the facts. What no plugin takes is
//! refused.

mod config_map;
mod downward_api;
mod empty_dir;
mod host_path;
mod image;
mod keys;
mod projected;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Volume};
use node_api::volumes::File;

use crate::container_config::fields;
use crate::objects::Kind;
use crate::pod_facts::{PodFacts, TokenKey};

pub(crate) use image::{Wanted as WantedImage, wanted as images};

const PLUGINS: &[&dyn Plugin] = &[
    &config_map::ConfigMap,
    &downward_api::DownwardApi,
    &empty_dir::EmptyDir,
    &host_path::HostPath,
    &image::Image,
    &projected::Projected,
    &secret::Secret,
];

trait Plugin: Sync {
    /// ConfigMaps and Secrets that the volume is made from; it is made anew when one changes.
    fn objects(&self, _volume: &Volume) -> Vec<(Kind, String)> {
        Vec::new()
    }

    /// Tokens of the pod's ServiceAccount that are in it; it is made anew before one ends.
    fn tokens(&self, _volume: &Volume) -> Vec<TokenKey> {
        Vec::new()
    }

    /// Whether it is at no path of the node: the runtime mounts it into each container by itself.
    fn is_mounted_by_runtime(&self, _volume: &Volume) -> bool {
        false
    }

    /// `None`: the volume is another plugin's, or the runtime mounts it.
    fn render(&self, pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered>;
}

/// What should be at the volume's path.
pub(crate) type Rendered = Result<node_api::volumes::Volume, Error>;

/// Shown as `MountVolume.SetUp failed for volume "x" : <this>`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("configmap {name:?} not found")]
    ConfigMapNotFound { name: String },
    #[error("secret {name:?} not found")]
    SecretNotFound { name: String },
    #[error("references non-existent {kind} key: {key}")]
    KeyNotFound { kind: &'static str, key: String },
    #[error(transparent)]
    Field(#[from] fields::Error),
    #[error("failed to fetch token: none was issued for audience {audience:?} yet")]
    Token { audience: String },
    #[error(transparent)]
    HugePages(#[from] crate::huge_pages::Error),
    #[error("unknown hostPath type {0:?}")]
    HostPathType(String),
    #[error("ClusterTrustBundle projection is not supported in static kubelet mode")]
    TrustBundlesOff,
    #[error("failed to ensure informer manager for ClusterTrustBundles: {0}")]
    TrustBundles(String),
    #[error(
        "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {name:?} not found"
    )]
    TrustBundleNotFound { name: String },
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoTrustBundles,
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    TrustBundleUnnamed,
    #[error("while parsing label selector: {0}")]
    TrustBundleSelector(String),
    #[error("the chosen ClusterTrustBundles have more than {limit} bytes")]
    TrustBundlesTooLarge { limit: usize },
    #[error("pod certificate projection is not supported in static kubelet mode")]
    CertificatesOff,
    #[error("{0}")]
    Certificate(String),
    #[error("no volume plugin matched")]
    NoPlugin,
    /// As upstream prints several.
    #[error("[{}]", .0.iter().map(Error::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<Self>),
}

/// Upstream's default for every kind of file.
const MODE: i32 = 0o644;

type Files = BTreeMap<String, File>;

/// `None`: nothing, the runtime mounts it.
pub fn render(
    pod: &Pod,
    volume: &Volume,
    facts: &PodFacts,
) -> Result<Option<node_api::volumes::Volume>, Error> {
    if PLUGINS.iter().any(|it| it.is_mounted_by_runtime(volume)) {
        return Ok(None);
    }
    let rendered = PLUGINS.iter().find_map(|it| it.render(pod, volume, facts));
    rendered.unwrap_or(Err(Error::NoPlugin)).map(Some)
}

pub(crate) fn objects(volume: &Volume) -> Vec<(Kind, String)> {
    PLUGINS.iter().flat_map(|it| it.objects(volume)).collect()
}

pub(crate) fn tokens(volume: &Volume) -> Vec<TokenKey> {
    PLUGINS.iter().flat_map(|it| it.tokens(volume)).collect()
}

fn mode(mode: Option<i32>) -> u32 {
    mode.unwrap_or(MODE).unsigned_abs()
}
