//! What is wrong with a PersistentVolume, or with one that stands in a VolumeAttachment.

use k8s_openapi::api::core::v1::PersistentVolumeSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::{PersistentVolume, sources};
use crate::check::{self, text};
use crate::codec;
use crate::core::pod_spec::validation::{Values, validate_node_selector};
use crate::quantities;

pub(super) const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// Where a volume is described.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In an object of its own, called `name`.
    Object { name: &'a str, values: Values },
    /// In an attachment: it was never more than a volume of a pod.
    Inline,
}

const OF_INLINE: &str = "in the context of inline volumes";

pub(crate) fn validate_spec(
    spec: &PersistentVolumeSpec,
    place: Place<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if matches!(place, Place::Inline) {
        validate_inline(spec, path, errors);
    }
    let path_modes = path.child("accessModes");
    if spec.access_modes.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&path_modes, "");
    }
    validate_access_modes(spec.access_modes.as_deref(), &path_modes, errors);
    if matches!(place, Place::Object { .. }) {
        validate_capacity(spec, &path.child("capacity"), errors);
    }
    validate_policy(spec, place, &path.child("persistentVolumeReclaimPolicy"), errors);
    validate_affinity(spec, place, &path.child("nodeAffinity"), errors);
    let name = if let Place::Object { name, .. } = place { name } else { "" };
    sources::validate(spec, name, path, errors);
    let host_path = spec.host_path.as_ref().map_or("", |it| &it.path);
    if is_root(host_path) && text(spec.persistent_volume_reclaim_policy.as_ref()) == "Recycle" {
        let path = path.child("persistentVolumeReclaimPolicy");
        errors.forbidden(&path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    validate_classes(spec, place, path, errors);
}

fn validate_inline(spec: &PersistentVolumeSpec, path: &Path, errors: &mut FieldErrors) {
    let has_capacity = spec.capacity.as_ref().is_some_and(|it| !it.is_empty());
    for (is_set, field) in [(spec.claim_ref.is_some(), "claimRef"), (has_capacity, "capacity")] {
        if is_set {
            errors.forbidden(&path.child(field), &format!("may not be specified {OF_INLINE}"));
        }
    }
    if spec.csi.is_none() {
        errors.required(&path.child("csi"), &format!("has to be specified {OF_INLINE}"));
    }
}

/// Of volumes and claims.
pub(crate) fn validate_access_modes(
    modes: Option<&[String]>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (mut has_single, mut has_other) = (false, false);
    for mode in modes.unwrap_or_default() {
        match mode.as_str() {
            "ReadWriteOncePod" => has_single = true,
            mode if ACCESS_MODES.contains(&mode) => has_other = true,
            mode => errors.not_supported(path, mode, ACCESS_MODES),
        }
    }
    if has_single && has_other {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_capacity(spec: &PersistentVolumeSpec, path: &Path, errors: &mut FieldErrors) {
    let capacity = spec.capacity.as_ref();
    let n_resources = capacity.map_or(0, |it| it.len());
    if n_resources == 0 {
        errors.required(path, "");
    }
    if n_resources > 1 || quantities::of(capacity, "storage").is_none() {
        errors.not_supported(path, codec::tree(&spec.capacity), &["storage"]);
    }
    for (resource, quantity) in capacity.into_iter().flatten() {
        let path = path.key(resource);
        if quantities::validate(quantity, &path, errors).is_some() {
            quantities::valid(quantity, &path, errors);
            quantities::positive(quantity, &path, errors);
        }
    }
}

fn validate_policy(
    spec: &PersistentVolumeSpec,
    place: Place<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let policy = text(spec.persistent_volume_reclaim_policy.as_ref());
    match place {
        Place::Object { .. } => check::one_of_if_set(policy, RECLAIM_POLICIES, path, errors),
        Place::Inline if !matches!(policy, "" | "Retain") => {
            errors.forbidden(path, &format!("may only be Retain {OF_INLINE}"));
        }
        Place::Inline => {}
    }
}

fn validate_affinity(
    spec: &PersistentVolumeSpec,
    place: Place<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(affinity) = &spec.node_affinity else { return };
    let Place::Object { values, .. } = place else {
        return errors.forbidden(path, &format!("may not be specified {OF_INLINE}"));
    };
    let path = path.child("required");
    match &affinity.required {
        Some(selector) => validate_node_selector(selector, values, &path, errors),
        None => errors.required(&path, "must specify required node constraints"),
    }
}

/// However it is written: `//` and `/./` are the root too.
fn is_root(target: &str) -> bool {
    let depth = target.split('/').fold(0_usize, |depth, part| match part {
        "" | "." => depth,
        ".." => depth.saturating_sub(1),
        _ => depth + 1,
    });
    target.starts_with('/') && depth == 0
}

fn validate_classes(
    spec: &PersistentVolumeSpec,
    place: Place<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let class = text(spec.storage_class_name.as_ref());
    let mode = spec.volume_mode.as_deref();
    let (path_class, path_mode) = (path.child("storageClassName"), path.child("volumeMode"));
    if matches!(place, Place::Inline) {
        if !class.is_empty() {
            errors.forbidden(&path_class, &format!("may not be specified {OF_INLINE}"));
        }
        if mode.is_some_and(|it| it != "Filesystem") {
            let detail = format!("may not specify volumeMode other than Filesystem {OF_INLINE}");
            errors.forbidden(&path_mode, &detail);
        }
        return;
    }
    if !class.is_empty() {
        check::format(class, &is_dns_subdomain(class), &path_class, errors);
    }
    if let Some(mode) = mode.filter(|it| !VOLUME_MODES.contains(it)) {
        errors.not_supported(&path_mode, mode, VOLUME_MODES);
    }
    let Some(attributes) = spec.volume_attributes_class_name.as_deref() else { return };
    let path_attributes = path.child("volumeAttributesClassName");
    if attributes.is_empty() {
        errors.required(&path_attributes, "an empty string is disallowed");
    } else {
        check::format(attributes, &is_dns_subdomain(attributes), &path_attributes, errors);
    }
    if spec.csi.is_none() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.required(&path.child("csi"), detail);
    }
}

/// Options in the old annotation are for sources that something is mounted for.
pub(super) fn validate_mount_options(volume: &PersistentVolume, errors: &mut FieldErrors) {
    let annotations = volume.metadata.annotations.as_ref();
    if !annotations.is_some_and(|it| it.contains_key(MOUNT_OPTIONS_ANNOTATION)) {
        return;
    }
    let is_mounted = volume.spec.as_ref().is_some_and(|it| {
        it.gce_persistent_disk.is_some()
            || it.aws_elastic_block_store.is_some()
            || it.glusterfs.is_some()
            || it.nfs.is_some()
            || it.rbd.is_some()
            || it.quobyte.is_some()
            || it.iscsi.is_some()
            || it.cinder.is_some()
            || it.cephfs.is_some()
            || it.azure_file.is_some()
            || it.vsphere_volume.is_some()
            || it.azure_disk.is_some()
            || it.photon_persistent_disk.is_some()
    });
    if !is_mounted {
        let path = Path::new("metadata").child("annotations").child(MOUNT_OPTIONS_ANNOTATION);
        errors.forbidden(&path, "may not specify mount options for this volume type");
    }
}
