//! The keys of a ConfigMap as files.

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Pod, Volume};
use node_api::volumes::FilesPlugin;

use super::keys::{Reference, chosen};
use super::{Error, Files, Kind, Plugin, Rendered, mode};
use crate::pod_facts::PodFacts;

pub(super) struct ConfigMap;

impl Plugin for ConfigMap {
    fn objects(&self, volume: &Volume) -> Vec<(Kind, String)> {
        volume.config_map.iter().map(|it| (Kind::ConfigMap, it.name.clone())).collect()
    }

    fn render(&self, _pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        let source = volume.config_map.as_ref()?;
        let reference = Reference {
            name: &source.name,
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode: mode(source.default_mode),
        };
        let plugin = FilesPlugin::ConfigMap;
        let files = files(&reference, facts);
        Some(files.map(|files| node_api::volumes::Volume::Files { plugin, files }))
    }
}

pub(super) fn files(reference: &Reference<'_>, facts: &PodFacts) -> Result<Files, Error> {
    let Some(config_map) = facts.lookups.config_maps.get(reference.name) else {
        let missing = Error::ConfigMapNotFound { name: reference.name.to_owned() };
        return if reference.is_optional { Ok(Files::new()) } else { Err(missing) };
    };
    let text = config_map.data.iter().flatten();
    let text = text.map(|(key, value)| (key.as_str(), Bytes::from(value.clone())));
    let binary = config_map.binary_data.iter().flatten();
    let binary = binary.map(|(key, value)| (key.as_str(), Bytes::from(value.0.clone())));
    chosen(reference, "config", text.chain(binary).collect())
}
