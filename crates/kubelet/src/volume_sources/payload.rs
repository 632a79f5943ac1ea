//! Files from ConfigMaps, Secrets and the pod's own fields, alone or as parts of a projected
//! volume.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod};
use node_api::volumes::File;

use super::{Error, Files};
use crate::container_config::fields;
use crate::pod_facts::PodFacts;

/// Which keys of an object, and what they become.
pub(super) struct Reference<'a> {
    pub(super) name: &'a str,
    /// `None` or empty: every key, under its own name.
    pub(super) items: Option<&'a [KeyToPath]>,
    pub(super) is_optional: bool,
    pub(super) mode: u32,
}

pub(super) fn config_map(reference: &Reference<'_>, facts: &PodFacts) -> Result<Files, Error> {
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

pub(super) fn secret(reference: &Reference<'_>, facts: &PodFacts) -> Result<Files, Error> {
    let Some(secret) = facts.lookups.secrets.get(reference.name) else {
        let missing = Error::SecretNotFound { name: reference.name.to_owned() };
        return if reference.is_optional { Ok(Files::new()) } else { Err(missing) };
    };
    let entries = secret.data.iter().flatten();
    let entries = entries.map(|(key, value)| (key.as_str(), Bytes::from(value.0.clone())));
    chosen(reference, "secret", entries.collect())
}

fn chosen(
    reference: &Reference<'_>,
    kind: &'static str,
    entries: BTreeMap<&str, Bytes>,
) -> Result<Files, Error> {
    let file = |content: &Bytes, mode| File { content: content.clone(), mode, user: None };
    let items = reference.items.unwrap_or_default();
    if items.is_empty() {
        let all = entries.iter();
        return Ok(all
            .map(|(key, value)| ((*key).to_owned(), file(value, reference.mode)))
            .collect());
    }
    let mut files = Files::new();
    for item in items {
        match entries.get(item.key.as_str()) {
            Some(content) => {
                let mode = item.mode.map_or(reference.mode, i32::unsigned_abs);
                files.insert(item.path.clone(), file(content, mode));
            }
            None if reference.is_optional => {}
            None => return Err(Error::KeyNotFound { kind, key: item.key.clone() }),
        }
    }
    Ok(files)
}

pub(super) fn downward_api(
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
