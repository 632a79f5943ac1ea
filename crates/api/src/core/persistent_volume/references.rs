//! The Secrets that a node needs for a volume. Those of controllers are not among them.

use super::PersistentVolume;
use crate::check::text;

/// Namespace and name. Sources that are older than the field for the namespace mean that of the
/// claim.
pub fn secrets_of_node(volume: &PersistentVolume) -> Vec<(&str, &str)> {
    let Some(spec) = &volume.spec else { return Vec::new() };
    let claim = spec.claim_ref.as_ref().map_or("", |it| text(it.namespace.as_ref()));
    let mut found: Vec<(&str, &str)> = Vec::new();
    if let Some(it) = &spec.azure_file {
        found.push((non_empty_or(text(it.secret_namespace.as_ref()), claim), &it.secret_name));
    }
    let older = [
        spec.cephfs.as_ref().and_then(|it| it.secret_ref.as_ref()),
        spec.flex_volume.as_ref().and_then(|it| it.secret_ref.as_ref()),
        spec.rbd.as_ref().and_then(|it| it.secret_ref.as_ref()),
        spec.scale_io.as_ref().map(|it| &it.secret_ref),
        spec.iscsi.as_ref().and_then(|it| it.secret_ref.as_ref()),
    ];
    for it in older.into_iter().flatten() {
        found.push((non_empty_or(text(it.namespace.as_ref()), claim), text(it.name.as_ref())));
    }
    let csi = spec.csi.as_ref();
    let newer = [
        spec.cinder.as_ref().and_then(|it| it.secret_ref.as_ref()),
        csi.and_then(|it| it.node_publish_secret_ref.as_ref()),
        csi.and_then(|it| it.node_stage_secret_ref.as_ref()),
        csi.and_then(|it| it.node_expand_secret_ref.as_ref()),
    ];
    for it in newer.into_iter().flatten() {
        found.push((text(it.namespace.as_ref()), text(it.name.as_ref())));
    }
    if let Some(it) = spec.storageos.as_ref().and_then(|it| it.secret_ref.as_ref()) {
        found.push((text(it.namespace.as_ref()), text(it.name.as_ref())));
    }
    found.retain(|it| !it.1.is_empty());
    found
}

fn non_empty_or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}
