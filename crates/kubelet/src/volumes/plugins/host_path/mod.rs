//! A path of the node.

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use node_api::volumes::HostPathKind;

use super::{Error, Plugin, Rendered};
use crate::pod_facts::PodFacts;

pub(super) struct HostPath;

impl Plugin for HostPath {
    fn render(&self, _pod: &Pod, volume: &Volume, _facts: &PodFacts) -> Option<Rendered> {
        volume.host_path.as_ref().map(host_path)
    }
}

fn host_path(source: &HostPathVolumeSource) -> Rendered {
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
