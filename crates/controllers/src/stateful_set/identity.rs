//! The names of a StatefulSet's pods, and the pods that are made for them. Pure.

use api::apps::StatefulSet;
use api::core::pod::Pod;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume};

use super::claims::claim_name;
use crate::{owners, pod_control};

pub(super) const REVISION: &str = "controller-revision-hash";
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Splits `web-7` into its set and its ordinal. What is spelt otherwise than the name that we would
/// give (`web-07`) is nobody's: one ordinal has one name.
pub(super) fn split(pod: &str) -> Option<(&str, i64)> {
    let (set, number) = pod.rsplit_once('-')?;
    let is_plain =
        number.bytes().all(|it| it.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
    let ordinal = number.parse::<i32>().ok().filter(|_| is_plain)?;
    Some((set, i64::from(ordinal)))
}

pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    split(pod).filter(|(it, _)| *it == set).map(|(_, ordinal)| ordinal)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", owners::name(&set.metadata))
}

/// The pod of an ordinal, from a template that the set has or had.
pub(super) fn pod(
    set: &StatefulSet,
    ordinal: i64,
    template: &PodTemplateSpec,
    revision: &str,
) -> Pod {
    let name = pod_name(set, ordinal);
    let mut pod = pod_control::from_template(set, template);
    let meta = &mut pod.metadata;
    // With the prefix of the others, although the name is no chance: as upstream's have it.
    meta.name = Some(name.clone());
    let labels = meta.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    let set_spec = set.spec.as_ref();
    spec.subdomain = set_spec.and_then(|it| it.service_name.clone()).filter(|it| !it.is_empty());
    let templates = set_spec.and_then(|it| it.volume_claim_templates.as_deref());
    let mut volumes: Vec<Volume> = templates
        .unwrap_or_default()
        .iter()
        .map(|it| Volume {
            name: owners::name(&it.metadata).to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, it, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    // A claim takes the place of a volume of the same name.
    for volume in spec.volumes.take().unwrap_or_default() {
        if volumes.iter().all(|it| it.name != volume.name) {
            volumes.push(volume);
        }
    }
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
    pod
}
