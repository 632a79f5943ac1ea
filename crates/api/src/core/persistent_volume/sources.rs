//! The one source of a volume.

use k8s_openapi::api::core::v1::{
    AzureFilePersistentVolumeSource, CinderPersistentVolumeSource, GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource, PersistentVolumeSpec, StorageOSPersistentVolumeSource,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_label;

use crate::check::{self, text};
use crate::core::volume_sources::iscsi::{self, Iscsi};
use crate::core::volume_sources::{OneSource, cloud, csi, local, network, required};

/// In upstream's order. `name` is what the volume is called.
pub(super) fn validate(
    spec: &PersistentVolumeSpec,
    name: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut sources = OneSource::new(path, errors);
    sources.of("hostPath", spec.host_path.as_ref(), local::host_path);
    let gce = spec.gce_persistent_disk.as_ref();
    sources.of_two_names(["gcePersistentDisk", "persistentDisk"], gce, cloud::gce_disk);
    sources.of("awsElasticBlockStore", spec.aws_elastic_block_store.as_ref(), cloud::aws_disk);
    sources.of("glusterfs", spec.glusterfs.as_ref(), validate_glusterfs);
    sources.of("flocker", spec.flocker.as_ref(), network::flocker);
    sources.of("nfs", spec.nfs.as_ref(), network::nfs);
    sources.of("rbd", spec.rbd.as_ref(), |it, path, errors| {
        network::rbd(&it.monitors, &it.image, path, errors);
    });
    sources.of("quobyte", spec.quobyte.as_ref(), network::quobyte);
    sources.of_two_names(["cephFS", "cephfs"], spec.cephfs.as_ref(), |it, path, errors| {
        network::ceph_fs(&it.monitors, path, errors);
    });
    sources.of("iscsi", spec.iscsi.as_ref(), |it, path, errors| {
        validate_iscsi(it, name, path, errors);
    });
    sources.of("cinder", spec.cinder.as_ref(), validate_cinder);
    sources.of("fc", spec.fc.as_ref(), iscsi::fc);
    sources.always("flexVolume", spec.flex_volume.as_ref(), |it, path, errors| {
        csi::flex(&it.driver, it.options.as_ref(), path, errors);
    });
    sources.of("azureFile", spec.azure_file.as_ref(), validate_azure_file);
    sources.of("vsphereVolume", spec.vsphere_volume.as_ref(), cloud::vsphere);
    sources.of("photonPersistentDisk", spec.photon_persistent_disk.as_ref(), cloud::photon);
    sources.of("portworxVolume", spec.portworx_volume.as_ref(), cloud::portworx);
    sources.of("azureDisk", spec.azure_disk.as_ref(), cloud::azure_disk);
    sources.of("scaleIO", spec.scale_io.as_ref(), |it, path, errors| {
        network::scale_io(&it.gateway, &it.system, it.volume_name.as_ref(), path, errors);
    });
    sources.of("local", spec.local.as_ref(), |it, path_local, errors| {
        local::local(it, path_local, errors);
        if spec.node_affinity.is_none() {
            let detail = "Local volume requires node affinity";
            errors.required(&path.child("nodeAffinity"), detail);
        }
    });
    sources.of("storageos", spec.storageos.as_ref(), validate_storage_os);
    sources.of("csi", spec.csi.as_ref(), csi::of_volume);
    sources.finish();
}

fn validate_glusterfs(
    source: &GlusterfsPersistentVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    network::glusterfs(&source.endpoints, &source.path, path, errors);
    let Some(namespace) = source.endpoints_namespace.as_deref() else { return };
    let path = path.child("endpointsNamespace");
    if namespace.is_empty() {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errors.invalid(&path, namespace, detail);
    } else {
        check::format(namespace, &is_dns_label(namespace), &path, errors);
    }
}

fn validate_iscsi(
    source: &ISCSIPersistentVolumeSource,
    name: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    const FOREIGN: &str = "must be valid format";
    let fields = Iscsi {
        target_portal: &source.target_portal,
        iqn: &source.iqn,
        lun: source.lun,
        initiator_name: source.initiator_name.as_deref(),
        has_chap: source.chap_auth_discovery == Some(true)
            || source.chap_auth_session == Some(true),
        secret: source.secret_ref.as_ref().map(|it| text(it.name.as_ref())),
    };
    required(&[("targetPortal", &source.target_portal)], path, errors);
    if fields.is_name_too_long(name) {
        let path = path.child("targetportal");
        errors.invalid(&path, source.target_portal.as_str(), iscsi::NAME_TOO_LONG);
    }
    fields.validate(FOREIGN, path, errors);
    if fields.secret == Some("") {
        errors.required(&path.child("secretRef").child("name"), "");
    }
    fields.validate_initiator(FOREIGN, path, errors);
}

fn validate_cinder(source: &CinderPersistentVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("volumeID", &source.volume_id)], path, errors);
    if let Some(secret) = &source.secret_ref {
        let (name, namespace) = (text(secret.name.as_ref()), text(secret.namespace.as_ref()));
        required(&[("name", name), ("namespace", namespace)], &path.child("secretRef"), errors);
    }
}

fn validate_storage_os(
    source: &StorageOSPersistentVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (volume, namespace) = (source.volume_name.as_ref(), source.volume_namespace.as_ref());
    network::storage_os(volume, namespace, path, errors);
    if let Some(secret) = &source.secret_ref {
        let (name, namespace) = (text(secret.name.as_ref()), text(secret.namespace.as_ref()));
        required(&[("name", name), ("namespace", namespace)], &path.child("secretRef"), errors);
    }
}

fn validate_azure_file(
    source: &AzureFilePersistentVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    network::azure_file(&source.secret_name, &source.share_name, path, errors);
    if source.secret_namespace.as_deref() == Some("") {
        errors.required(&path.child("secretNamespace"), "");
    }
}
