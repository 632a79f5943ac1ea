//! What is allowed in a pod or a template of one but probably not meant: upstream's rules, in its
//! words and order (pkg/api/pod/warnings.go), and last the volumes that no node here can mount.

mod containers;
mod paths;
mod ports;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PodAffinityTerm, PodSpec, Volume, WeightedPodAffinityTerm,
};
use serde_json::Value;

use apimachinery::field::Path;

use crate::addresses;
use crate::core::pod_spec::validation::annotations::{self, Annotations};
use crate::core::{node_labels, persistent_volume_claim};

/// Annotations that do nothing any more.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const MATCHES_NOTHING: &str = "a null labelSelector results in matching no pod";

/// `path` is that of the pod or of the template.
pub(crate) fn of(spec: &PodSpec, annotations: &Annotations, path: &Path) -> Vec<String> {
    let (at, path_annotations) = (path.child("spec"), path.child("metadata.annotations"));
    let mut warnings = of_node_labels(spec, &at);
    for (key, why) in DEPRECATED_ANNOTATIONS {
        if annotations.contains_key(key) {
            warnings.push(format!("{}: {why}", path_annotations.key(key)));
        }
    }
    warnings.extend(of_volumes(spec, &at.child("volumes")));
    warnings.extend(paths::overlaps(spec.volumes.as_deref().unwrap_or_default()));
    warnings.extend(of_repeated_names(spec, &at));
    warnings.extend(containers::fractions(spec.overhead.as_ref(), &at.child("overhead")));
    warnings.extend(annotations::seccomp_of_pod(annotations, spec, &path_annotations));
    warnings.extend(containers::of(spec, annotations, &at, &path_annotations));
    warnings.extend(ports::of(spec, &at));
    if spec.termination_grace_period_seconds.is_some_and(|it| it < 0) {
        let path = at.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    if let Some(affinity) = &spec.affinity {
        warnings.extend(of_affinity(affinity, &at.child("affinity")));
    }
    warnings.extend(of_addresses(spec, &at));
    warnings.extend(of_unsupported(spec, &at.child("volumes")));
    warnings
}

/// Of a pod whose annotations are not in its fields yet.
pub(super) fn before(spec: &PodSpec, annotations: &Annotations) -> Vec<String> {
    if spec.os.as_ref().is_some_and(|it| it.name == "windows") {
        return Vec::new();
    }
    let path = Path::new("metadata.annotations");
    let all = annotations::containers(spec, &Path::root());
    let said = all
        .iter()
        .filter_map(|(it, _)| annotations::app_armor_of_container(annotations, spec, it, &path));
    said.collect()
}

fn of_node_labels(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for label in spec.node_selector.iter().flat_map(|it| it.keys()) {
        if let Some(why) = node_labels::deprecation(label) {
            warnings.push(format!("{}: {why}", path.child("nodeSelector").key(label)));
        }
    }
    if let Some(affinity) = spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref()) {
        let path = path.child("affinity.nodeAffinity");
        let required = affinity.required_during_scheduling_ignored_during_execution.iter();
        let at = path.child("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        for (index, term) in required.flat_map(|it| &it.node_selector_terms).enumerate() {
            warnings.extend(node_labels::warnings_of_term(term, &at.index(index)));
        }
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
        let at = path.child("preferredDuringSchedulingIgnoredDuringExecution");
        for (index, it) in preferred.flatten().enumerate() {
            let path = at.index(index).child("preference");
            warnings.extend(node_labels::warnings_of_preference(&it.preference, &path));
        }
    }
    for (index, it) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let path = path.child("topologySpreadConstraints").index(index);
        if let Some(why) = node_labels::deprecation(&it.topology_key) {
            warnings.push(format!("{}: {} is {why}", path.child("topologyKey"), it.topology_key));
        }
        if it.label_selector.is_none() {
            warnings.push(format!("{}: {MATCHES_NOTHING}", path.child("labelSelector")));
        }
    }
    warnings
}

fn of_volumes(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(index);
        let mut say = |is_used: bool, field: &str, why: &str| {
            if is_used {
                warnings.push(format!("{}: {why}", path.child(field)));
            }
        };
        let v1_25 = "deprecated in v1.22, non-functional in v1.25+";
        let v1_31 = "deprecated in v1.28, non-functional in v1.31+";
        say(
            volume.photon_persistent_disk.is_some(),
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        );
        say(
            volume.git_repo.is_some(),
            "gitRepo",
            "deprecated in v1.11, and disabled by default in v1.33+",
        );
        let scale_io = volume.scale_io.is_some();
        say(scale_io, "scaleIO", "deprecated in v1.16, non-functional in v1.22+");
        say(volume.flocker.is_some(), "flocker", v1_25);
        say(volume.storageos.is_some(), "storageOS", v1_25);
        say(volume.quobyte.is_some(), "quobyte", v1_25);
        let glusterfs = volume.glusterfs.is_some();
        say(glusterfs, "glusterfs", "deprecated in v1.25, non-functional in v1.26+");
        let template = volume.ephemeral.as_ref().and_then(|it| it.volume_claim_template.as_ref());
        if let Some(claim) = template {
            let path = path.child("ephemeral.volumeClaimTemplate.spec");
            warnings.extend(persistent_volume_claim::spec_warnings(&claim.spec, &path));
        }
        let mut say = |is_used: bool, field: &str| {
            if is_used {
                warnings.push(format!("{}: {v1_31}", path.child(field)));
            }
        };
        say(volume.cephfs.is_some(), "cephfs");
        say(volume.rbd.is_some(), "rbd");
    }
    warnings
}

/// Of lists that are merged by what they repeat.
fn of_repeated_names(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        if !seen.insert(&alias.ip) {
            let path = path.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{path}: duplicate ip {:?}", alias.ip));
        }
    }
    let secrets: &[LocalObjectReference] = spec.image_pull_secrets.as_deref().unwrap_or_default();
    let path_of = |index| path.child("imagePullSecrets").index(index).child("name");
    let mut seen = BTreeSet::new();
    for (index, secret) in secrets.iter().enumerate() {
        if !seen.insert(&secret.name) {
            warnings.push(format!("{}: duplicate name {:?}", path_of(index), secret.name));
        }
    }
    for (index, _) in secrets.iter().enumerate().filter(|(_, it)| it.name.is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", path_of(index)));
    }
    warnings
}

fn of_affinity(affinity: &Affinity, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(it) = &affinity.pod_affinity {
        let required = it.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = it.preferred_during_scheduling_ignored_during_execution.as_deref();
        warnings.extend(of_terms(required, preferred, &path.child("podAffinity")));
    }
    if let Some(it) = &affinity.pod_anti_affinity {
        let required = it.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = it.preferred_during_scheduling_ignored_during_execution.as_deref();
        warnings.extend(of_terms(required, preferred, &path.child("podAntiAffinity")));
    }
    warnings
}

fn of_terms(
    required: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
    path: &Path,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let at = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    for (index, term) in required.unwrap_or_default().iter().enumerate() {
        if term.label_selector.is_none() {
            let path = at.index(index).child("labelSelector");
            warnings.push(format!("{path}: {MATCHES_NOTHING}"));
        }
    }
    let at = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, it) in preferred.unwrap_or_default().iter().enumerate() {
        if it.pod_affinity_term.label_selector.is_none() {
            let path = at.index(index).child("podAffinityTerm.labelSelector");
            warnings.push(format!("{path}: {MATCHES_NOTHING}"));
        }
    }
    warnings
}

fn of_addresses(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let servers = spec.dns_config.iter().flat_map(|it| it.nameservers.iter().flatten());
    for (index, server) in servers.enumerate() {
        let path = path.child("dnsConfig.nameservers").index(index);
        warnings.extend(addresses::ip_warnings(server, &path));
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.child("hostAliases").index(index).child("ip");
        warnings.extend(addresses::ip_warnings(&alias.ip, &path));
    }
    warnings
}

fn of_unsupported(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if let Some(source) = unsupported_source(volume) {
            let path = path.index(index).child(&source);
            warnings.push(format!(
                "{path}: volumes of this type are not supported yet; the pod will not start"
            ));
        }
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
