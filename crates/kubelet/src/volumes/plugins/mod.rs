//! What a pod may ask for as a volume: a folder per plugin, with the objects and tokens it needs and
//! what should be at its path. Pure: what it refers to is in the facts. What no plugin takes is
//! refused.

mod config_map;
mod downward_api;
mod empty_dir;
mod host_path;
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

const PLUGINS: &[&dyn Plugin] = &[
    &config_map::ConfigMap,
    &downward_api::DownwardApi,
    &empty_dir::EmptyDir,
    &host_path::HostPath,
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

    /// `None`: the volume is another plugin's.
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
    #[error("storage medium {0:?} is not supported")]
    Medium(String),
    #[error("unknown hostPath type {0:?}")]
    HostPathType(String),
    #[error("{0} is not supported in a projected volume")]
    Projection(&'static str),
    #[error("no volume plugin matched")]
    NoPlugin,
    /// As upstream prints several.
    #[error("[{}]", .0.iter().map(Error::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<Self>),
}

/// Upstream's default for every kind of file.
const MODE: i32 = 0o644;

type Files = BTreeMap<String, File>;

pub fn render(pod: &Pod, volume: &Volume, facts: &PodFacts) -> Rendered {
    let rendered = PLUGINS.iter().find_map(|it| it.render(pod, volume, facts));
    rendered.unwrap_or(Err(Error::NoPlugin))
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
