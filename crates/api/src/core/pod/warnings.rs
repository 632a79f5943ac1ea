//! What is allowed in a pod spec but probably not meant.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use serde_json::Value;

use apimachinery::field::Path;

use crate::core::node_labels;

pub(crate) fn of_spec(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for label in spec.node_selector.iter().flat_map(|it| it.keys()) {
        if let Some(why) = node_labels::deprecation(label) {
            warnings.push(format!("{}: {why}", path.child("nodeSelector").key(label)));
        }
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let earlier = spec.host_aliases.iter().flatten().take(index);
        if earlier.into_iter().any(|it| it.ip == alias.ip) {
            let path = path.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{path}: duplicate ip \"{}\"", alias.ip));
        }
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if let Some(source) = unsupported_source(volume) {
            let path = path.child("volumes").index(index).child(&source);
            warnings.push(format!(
                "{path}: volumes of this type are not supported yet; the pod will not start"
            ));
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(index);
        let mut names = BTreeSet::new();
        for (index, env) in container.env.iter().flatten().enumerate() {
            let (name, value) = (&env.name, env.value.as_deref().unwrap_or_default());
            let reference = format!("$({name})");
            let goes_on =
                env.value_from.is_none() && value != reference && value.contains(&reference);
            if !names.insert(name) && !goes_on {
                let path = path.child("env").index(index);
                warnings.push(format!(
                    "{path}: hides previous definition of \"{name}\", which may be dropped when using apply"
                ));
            }
        }
        let mut ports = BTreeSet::new();
        for (index, port) in container.ports.iter().flatten().enumerate() {
            if !ports.insert((port.container_port, &port.protocol)) {
                let path = path.child("ports").index(index);
                warnings.push(format!("{path}: duplicate port definition with earlier port"));
            }
        }
    }
    if spec.termination_grace_period_seconds.is_some_and(|it| it < 0) {
        let path = path.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warnings
}

/// The source of a volume that no node can mount.
fn unsupported_source(volume: &Volume) -> Option<String> {
    let is_supported = volume.empty_dir.is_some()
        || volume.host_path.is_some()
        || volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
        || volume.image.is_some();
    if is_supported {
        return None;
    }
    let Ok(Value::Object(fields)) = serde_json::to_value(volume) else { return None };
    fields.into_iter().map(|(field, _)| field).find(|it| it != "name")
}
