//! The pod's own fields as files.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod, Volume};
use node_api::volumes::{File, FilesPlugin};

use super::{Error, Files, Plugin, Rendered, mode};
use crate::container_config::fields;
use crate::pod_facts::PodFacts;

pub(super) struct DownwardApi;

impl Plugin for DownwardApi {
    fn render(&self, pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        let source = volume.downward_api.as_ref()?;
        let items = source.items.as_deref().unwrap_or_default();
        let plugin = FilesPlugin::DownwardApi;
        let files = files(pod, items, mode(source.default_mode), facts);
        Some(files.map(|files| node_api::volumes::Volume::Files { plugin, files }))
    }
}

pub(super) fn files(
    pod: &Pod,
    items: &[DownwardAPIVolumeFile],
    mode: u32,
    facts: &PodFacts,
) -> Result<Files, Error> {
    let mut files = Files::new();
    for item in items {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => fields::field(pod, facts, &field.field_path)?,
            (None, Some(selector)) => fields::resource(pod, None, facts, selector)?,
            (None, None) => continue,
        };
        let mode = item.mode.map_or(mode, i32::unsigned_abs);
        files.insert(item.path.clone(), File { content: content.into(), mode, user: None });
    }
    Ok(files)
}
