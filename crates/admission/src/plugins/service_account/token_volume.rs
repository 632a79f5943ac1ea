//! The projected volume with the token, the cluster's CA and the namespace, and its mounts. Pure
//! but for the name.

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
    ObjectFieldSelector, PodSpec, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};
use stdx::Random;

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const NAME_PREFIX: &str = "kube-api-access-";
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
/// An hour and a mark: the server knows by the odd seconds that this token was not asked for by
/// hand.
const TOKEN_SECONDS: i64 = 3607;
const MODE: i32 = 0o644;

/// Mounts the token in every container that has nothing at its place. Adds the volume when a mount
/// needs it.
pub(super) fn mount(spec: &mut PodSpec, random: &Random) {
    let existing = spec.volumes.iter().flatten().find(|it| it.name.starts_with(NAME_PREFIX));
    let (name, is_new) = match existing {
        Some(volume) => (volume.name.clone(), false),
        None => (free_name(spec, random), true),
    };
    let mut is_mounted = false;
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(spec.containers.iter_mut()) {
        if !has_mount(container) {
            container.volume_mounts.get_or_insert_default().push(VolumeMount {
                name: name.clone(),
                mount_path: MOUNT_PATH.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
            is_mounted = true;
        }
    }
    if is_mounted && is_new {
        spec.volumes.get_or_insert_default().push(volume(name));
    }
}

fn has_mount(container: &Container) -> bool {
    container.volume_mounts.iter().flatten().any(|it| it.mount_path == MOUNT_PATH)
}

fn free_name(spec: &PodSpec, random: &Random) -> String {
    loop {
        let name = format!("{NAME_PREFIX}{}", random.name_suffix(5));
        if !spec.volumes.iter().flatten().any(|it| it.name == name) {
            return name;
        }
    }
}

fn volume(name: String) -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: None,
            expiration_seconds: Some(TOKEN_SECONDS),
            path: "token".to_owned(),
        }),
        ..VolumeProjection::default()
    };
    let authority = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: ROOT_CA_CONFIG_MAP.to_owned(),
            items: Some(vec![KeyToPath {
                key: "ca.crt".to_owned(),
                path: "ca.crt".to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".to_owned()),
                    field_path: "metadata.namespace".to_owned(),
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name,
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(MODE),
            sources: Some(vec![token, authority, namespace]),
        }),
        ..Volume::default()
    }
}
