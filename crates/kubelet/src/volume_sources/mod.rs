//! A volume's source to what should be at its path. Pure: what it refers to is in the facts.

mod payload;
mod projected;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume};
use node_api::volumes::{File, FilesPlugin, HostPathKind, Medium};

use crate::container_config::{fields, of_pod};
use crate::pod_facts::PodFacts;
use payload::Reference;

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

pub fn render(
    pod: &Pod,
    volume: &Volume,
    facts: &PodFacts,
) -> Result<node_api::volumes::Volume, Error> {
    let files = |plugin, files| node_api::volumes::Volume::Files { plugin, files };
    if let Some(source) = &volume.empty_dir {
        return empty_dir(pod, source, facts);
    }
    if let Some(source) = &volume.host_path {
        return host_path(source);
    }
    if let Some(source) = &volume.config_map {
        let reference = Reference {
            name: &source.name,
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode: mode(source.default_mode),
        };
        return Ok(files(FilesPlugin::ConfigMap, payload::config_map(&reference, facts)?));
    }
    if let Some(source) = &volume.secret {
        let reference = Reference {
            name: source.secret_name.as_deref().unwrap_or_default(),
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode: mode(source.default_mode),
        };
        return Ok(files(FilesPlugin::Secret, payload::secret(&reference, facts)?));
    }
    if let Some(source) = &volume.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        let payload = payload::downward_api(pod, items, mode(source.default_mode), facts)?;
        return Ok(files(FilesPlugin::DownwardApi, payload));
    }
    if let Some(source) = &volume.projected {
        return Ok(files(FilesPlugin::Projected, projected::files(pod, source, facts)?));
    }
    Err(Error::NoPlugin)
}

fn mode(mode: Option<i32>) -> u32 {
    mode.unwrap_or(MODE).unsigned_abs()
}

fn empty_dir(
    pod: &Pod,
    source: &EmptyDirVolumeSource,
    facts: &PodFacts,
) -> Result<node_api::volumes::Volume, Error> {
    let limit = source.size_limit.as_ref().and_then(|it| Amount::parse(&it.0).ok());
    let limit = limit.and_then(|it| u64::try_from(it.value()).ok()).filter(|it| *it > 0);
    let (medium, size_limit) = match source.medium.as_deref().unwrap_or_default() {
        "" => (Medium::Disk, limit),
        "Memory" => {
            // No more than the pod may use, nor than the node has.
            let node = u64::try_from(facts.allocatable.memory).ok().filter(|it| *it > 0);
            let limits = [limit, of_pod(pod).memory_limit, node];
            (Medium::Memory, limits.into_iter().flatten().min())
        }
        other => return Err(Error::Medium(other.to_owned())),
    };
    Ok(node_api::volumes::Volume::EmptyDir { medium, size_limit })
}

fn host_path(source: &HostPathVolumeSource) -> Result<node_api::volumes::Volume, Error> {
    let kind = match source.type_.as_deref().unwrap_or_default() {
        "" => HostPathKind::Unset,
        "DirectoryOrCreate" => HostPathKind::DirectoryOrCreate,
        "Directory" => HostPathKind::Directory,
        "FileOrCreate" => HostPathKind::FileOrCreate,
        "File" => HostPathKind::File,
        "Socket" => HostPathKind::Socket,
        "CharDevice" => HostPathKind::CharDevice,
        "BlockDevice" => HostPathKind::BlockDevice,
        other => return Err(Error::HostPathType(other.to_owned())),
    };
    Ok(node_api::volumes::Volume::HostPath { path: source.path.clone().into(), kind })
}
