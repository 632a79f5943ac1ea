//! The keys of a Secret as files.

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Pod, Volume};
use node_api::volumes::FilesPlugin;

use super::keys::{Reference, chosen};
use super::{Error, Files, Kind, Plugin, Rendered, mode};
use crate::pod_facts::PodFacts;

pub(super) struct Secret;

impl Plugin for Secret {
    fn objects(&self, volume: &Volume) -> Vec<(Kind, String)> {
        let name = volume.secret.as_ref().and_then(|it| it.secret_name.clone());
        name.into_iter().map(|it| (Kind::Secret, it)).collect()
    }

    fn render(&self, _pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        let source = volume.secret.as_ref()?;
        let reference = Reference {
            name: source.secret_name.as_deref().unwrap_or_default(),
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode: mode(source.default_mode),
        };
        let plugin = FilesPlugin::Secret;
        let files = files(&reference, facts);
        Some(files.map(|files| node_api::volumes::Volume::Files { plugin, files }))
    }
}

pub(super) fn files(reference: &Reference<'_>, facts: &PodFacts) -> Result<Files, Error> {
    let Some(secret) = facts.lookups.secrets.get(reference.name) else {
        let missing = Error::SecretNotFound { name: reference.name.to_owned() };
        return if reference.is_optional { Ok(Files::new()) } else { Err(missing) };
    };
    let entries = secret.data.iter().flatten();
    let entries = entries.map(|(key, value)| (key.as_str(), Bytes::from(value.0.clone())));
    chosen(reference, "secret", entries.collect())
}
