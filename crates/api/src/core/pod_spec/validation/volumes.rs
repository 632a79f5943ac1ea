//! Volumes of a pod: names, one source each, and the fields of sources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, EnvVar, EphemeralVolumeSource, ISCSIVolumeSource,
    ImageVolumeSource, KeyToPath, PodSpec, ProjectedVolumeSource, SecretVolumeSource, Volume,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

use crate::check::{self, text};
use crate::core::persistent_volume_claim;
use crate::core::volume_sources::iscsi::Iscsi;
use crate::core::volume_sources::{
    OneSource, cloud, csi, iscsi, local, network, relative, required,
};
use crate::quantities;

use super::{downward, projections};

/// Returns the names of all volumes, for mounts to refer to.
pub(super) fn validate_volumes(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(index);
        let path_name = path.child("name");
        let mut found = FieldErrors::new();
        validate_sources(volume, &path, &mut found);
        if volume.name.is_empty() {
            found.required(&path_name, "");
        } else {
            check::format(&volume.name, &is_dns_label(&volume.name), &path_name, &mut found);
        }
        if names.contains(volume.name.as_str()) {
            found.duplicate(&path_name, volume.name.as_str());
        }
        // The name of one that is refused is still free.
        if found.is_empty() {
            names.insert(volume.name.as_str());
        }
        errors.extend(found);
    }
}

/// In upstream's order: the first source counts.
fn validate_sources(volume: &Volume, path: &Path, errors: &mut FieldErrors) {
    let mut sources = OneSource::new(path, errors);
    sources.of("emptyDir", volume.empty_dir.as_ref(), validate_empty_dir);
    sources.of("hostPath", volume.host_path.as_ref(), local::host_path);
    sources.of("gitRepo", volume.git_repo.as_ref(), |it, path, errors| {
        required(&[("repository", &it.repository)], path, errors);
        relative(text(it.directory.as_ref()), &path.child("directory"), errors);
    });
    let gce = volume.gce_persistent_disk.as_ref();
    sources.of_two_names(["gcePersistentDisk", "persistentDisk"], gce, cloud::gce_disk);
    sources.of("awsElasticBlockStore", volume.aws_elastic_block_store.as_ref(), cloud::aws_disk);
    sources.of("secret", volume.secret.as_ref(), validate_secret);
    validate_remote_disks(volume, &mut sources);
    let claim = volume.persistent_volume_claim.as_ref();
    sources.of("persistentVolumeClaim", claim, |it, path, errors| {
        required(&[("claimName", &it.claim_name)], path, errors);
    });
    validate_remote_shares(volume, &mut sources);
    let downward = volume.downward_api.as_ref();
    // The first name is upstream's.
    sources.of_two_names(["downwarAPI", "downwardAPI"], downward, |it, path, errors| {
        validate_mode(it.default_mode, &path.child("defaultMode"), errors);
        it.items.iter().flatten().for_each(|file| downward::validate_file(file, path, errors));
    });
    sources.of("fc", volume.fc.as_ref(), iscsi::fc);
    sources.of("flexVolume", volume.flex_volume.as_ref(), |it, path, errors| {
        csi::flex(&it.driver, it.options.as_ref(), path, errors);
    });
    sources.of("configMap", volume.config_map.as_ref(), validate_config_map);
    validate_clouds(volume, &mut sources);
    sources.of("projected", volume.projected.as_ref(), validate_projected);
    sources.of("scaleIO", volume.scale_io.as_ref(), |it, path, errors| {
        network::scale_io(&it.gateway, &it.system, it.volume_name.as_ref(), path, errors);
    });
    sources.of("csi", volume.csi.as_ref(), csi::of_pod);
    sources.of("ephemeral", volume.ephemeral.as_ref(), validate_ephemeral);
    sources.of("image", volume.image.as_ref(), validate_image);
    sources.finish();
    if volume.iscsi.as_ref().is_some_and(|it| iscsi_of(it).is_name_too_long(&volume.name)) {
        errors.invalid(&path.child("name"), volume.name.as_str(), iscsi::NAME_TOO_LONG);
    }
}

fn validate_remote_disks(volume: &Volume, sources: &mut OneSource<'_>) {
    sources.of("nfs", volume.nfs.as_ref(), network::nfs);
    sources.of("iscsi", volume.iscsi.as_ref(), |it, path, errors| {
        const FOREIGN: &str = "must be valid format starting with iqn, eui, or naa";
        required(&[("targetPortal", &it.target_portal)], path, errors);
        let fields = iscsi_of(it);
        fields.validate(FOREIGN, path, errors);
        fields.validate_initiator(FOREIGN, path, errors);
    });
    sources.of("glusterfs", volume.glusterfs.as_ref(), |it, path, errors| {
        network::glusterfs(&it.endpoints, &it.path, path, errors);
    });
    sources.of("flocker", volume.flocker.as_ref(), network::flocker);
}

fn validate_remote_shares(volume: &Volume, sources: &mut OneSource<'_>) {
    sources.of("rbd", volume.rbd.as_ref(), |it, path, errors| {
        network::rbd(&it.monitors, &it.image, path, errors);
    });
    sources.of("cinder", volume.cinder.as_ref(), |it, path, errors| {
        required(&[("volumeID", &it.volume_id)], path, errors);
        if let Some(secret) = &it.secret_ref {
            required(&[("name", &secret.name)], &path.child("secretRef"), errors);
        }
    });
    sources.of_two_names(["cephFS", "cephfs"], volume.cephfs.as_ref(), |it, path, errors| {
        network::ceph_fs(&it.monitors, path, errors);
    });
    sources.of("quobyte", volume.quobyte.as_ref(), network::quobyte);
}

fn validate_clouds(volume: &Volume, sources: &mut OneSource<'_>) {
    sources.of("azureFile", volume.azure_file.as_ref(), |it, path, errors| {
        network::azure_file(&it.secret_name, &it.share_name, path, errors);
    });
    sources.of("vsphereVolume", volume.vsphere_volume.as_ref(), cloud::vsphere);
    let photon = volume.photon_persistent_disk.as_ref();
    sources.of("photonPersistentDisk", photon, cloud::photon);
    sources.of("portworxVolume", volume.portworx_volume.as_ref(), cloud::portworx);
    sources.of("azureDisk", volume.azure_disk.as_ref(), cloud::azure_disk);
    sources.of("storageos", volume.storageos.as_ref(), |it, path, errors| {
        let (volume, namespace) = (it.volume_name.as_ref(), it.volume_namespace.as_ref());
        network::storage_os(volume, namespace, path, errors);
        if let Some(secret) = &it.secret_ref {
            required(&[("name", &secret.name)], &path.child("secretRef"), errors);
        }
    });
}

fn iscsi_of(source: &ISCSIVolumeSource) -> Iscsi<'_> {
    Iscsi {
        target_portal: &source.target_portal,
        iqn: &source.iqn,
        lun: source.lun,
        initiator_name: source.initiator_name.as_deref(),
        has_chap: source.chap_auth_discovery == Some(true)
            || source.chap_auth_session == Some(true),
        secret: source.secret_ref.as_ref().map(|it| it.name.as_str()),
    }
}

/// The claims that are made for a pod are called after it and the volume.
pub(crate) fn validate_claim_names(
    pod_name: &str,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if pod_name.is_empty() {
        return;
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if volume.ephemeral.is_none() || volume.name.is_empty() {
            continue;
        }
        let claim = format!("{pod_name}-{}", volume.name);
        for message in is_dns_subdomain(&claim) {
            let detail = format!("PVC name {claim:?}: {message}");
            let path = path.child("volumes").index(index).child("name");
            errors.invalid(&path, volume.name.as_str(), &detail);
        }
    }
}

fn validate_empty_dir(source: &EmptyDirVolumeSource, path: &Path, errors: &mut FieldErrors) {
    if quantities::amount(source.size_limit.as_ref()).is_negative() {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.forbidden(&path.child("sizeLimit"), detail);
    }
}

fn validate_secret(secret: &SecretVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("secretName", text(secret.secret_name.as_ref()))], path, errors);
    validate_mode(secret.default_mode, &path.child("defaultMode"), errors);
    validate_items(secret.items.as_deref(), &path.child("items"), errors);
}

fn validate_config_map(source: &ConfigMapVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("name", &source.name)], path, errors);
    validate_mode(source.default_mode, &path.child("defaultMode"), errors);
    validate_items(source.items.as_deref(), &path.child("items"), errors);
}

fn validate_ephemeral(source: &EphemeralVolumeSource, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("volumeClaimTemplate");
    match &source.volume_claim_template {
        None => errors.required(&path, ""),
        Some(template) => persistent_volume_claim::validate_template(template, &path, errors),
    }
}

fn validate_projected(projected: &ProjectedVolumeSource, path: &Path, errors: &mut FieldErrors) {
    validate_mode(projected.default_mode, &path.child("defaultMode"), errors);
    projections::validate_sources(projected, path, errors);
}

fn validate_image(source: &ImageVolumeSource, path: &Path, errors: &mut FieldErrors) {
    check::one_of(
        text(source.pull_policy.as_ref()),
        &["Always", "IfNotPresent", "Never"],
        &path.child("pullPolicy"),
        errors,
    );
}

/// What only a pod must have, and a template may leave to be filled in.
pub(crate) fn validate_of_pod(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let others = Volume { image: None, ..volume.clone() };
        let is_only = others == Volume { name: volume.name.clone(), ..Volume::default() };
        let image = volume.image.as_ref().filter(|_| is_only);
        if image.is_some_and(|it| text(it.reference.as_ref()).is_empty()) {
            let path = path.child("volumes").index(index).child("image");
            errors.required(&path.child("reference"), "");
        }
    }
    if text(spec.service_account_name.as_ref()).is_empty() {
        validate_tokens(spec, &path.child("volumes"), errors);
    }
}

/// Tokens are those of an account.
fn validate_tokens(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let sources = volume.projected.iter().flat_map(|it| it.sources.iter().flatten());
        let path = path.index(index).child("projected").child("sources");
        for (index, source) in sources.enumerate() {
            if source.service_account_token.is_some() {
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&path.index(index).child("serviceAccountToken"), detail);
            }
        }
    }
}

/// Values of environment variables are in files of an emptyDir alone.
pub(super) fn validate_env_files(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let validate = |env: Option<&[EnvVar]>, path: &Path, errors: &mut FieldErrors| {
        for (index, variable) in env.into_iter().flatten().enumerate() {
            let source = variable.value_from.as_ref().and_then(|it| it.file_key_ref.as_ref());
            let Some(name) = source.map(|it| it.volume_name.as_str()) else { continue };
            let path = path.child("env").index(index).child("valueFrom").child("fileKeyRef");
            let path = path.child("volumeName");
            match spec.volumes.iter().flatten().find(|it| it.name == name) {
                None => errors.not_found(&path, name),
                Some(volume) if volume.empty_dir.is_none() => {
                    errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    };
    for (index, it) in spec.init_containers.iter().flatten().enumerate() {
        validate(it.env.as_deref(), &path.child("initContainers").index(index), errors);
    }
    for (index, it) in spec.containers.iter().enumerate() {
        validate(it.env.as_deref(), &path.child("containers").index(index), errors);
    }
    for (index, it) in spec.ephemeral_containers.iter().flatten().enumerate() {
        validate(it.env.as_deref(), &path.child("ephemeralContainers").index(index), errors);
    }
}

pub(super) fn validate_items(items: Option<&[KeyToPath]>, path: &Path, errors: &mut FieldErrors) {
    for (index, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(index);
        if item.key.is_empty() {
            errors.required(&path.child("key"), "");
        }
        if item.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            relative(&item.path, &path.child("path"), errors);
        }
        validate_mode(item.mode, &path.child("mode"), errors);
    }
}

pub(super) fn validate_mode(mode: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(mode) = mode.filter(|it| !(0..=0o777).contains(it)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
