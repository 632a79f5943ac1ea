//! What is mounted into a container: its volumes, `/etc/hosts` and the file for its last words.

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use node_api::containers::{ImageMount, Mount, Propagation};
use node_api::volumes::SubPath;

use super::{Error, env, expansion};
use crate::pod_facts::{PodFacts, RunFacts};

const HOSTS: &str = "/etc/hosts";

/// The parts of volumes that must be made before the container is rendered, with the index of the
/// mount as their key in `RunFacts::sub_paths`.
pub fn sub_paths(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
) -> Result<Vec<SubPath>, Error> {
    let mut sub_paths = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        if !has_sub_path(mount) || is_image(pod, &mount.name) {
            continue;
        }
        sub_paths.push(SubPath {
            volume: mount.name.clone(),
            root: volume_path(container, facts, mount)?,
            container: container.name.clone(),
            mount: index,
            path: sub_path(pod, container, facts, mount)?,
        });
    }
    Ok(sub_paths)
}

fn has_sub_path(mount: &VolumeMount) -> bool {
    let is_set = |it: &Option<String>| it.as_deref().is_some_and(|it| !it.is_empty());
    is_set(&mount.sub_path) || is_set(&mount.sub_path_expr)
}

fn sub_path(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    mount: &VolumeMount,
) -> Result<String, Error> {
    let Some(expression) = mount.sub_path_expr.clone().filter(|it| !it.is_empty()) else {
        return Ok(mount.sub_path.clone().unwrap_or_default());
    };
    let variables = env::render(pod, container, facts)?;
    let missing = std::cell::RefCell::new(None);
    let path = expansion::expand(&expression, |name| {
        let value = variables.get(name).cloned();
        if value.is_none() {
            missing.borrow_mut().get_or_insert_with(|| name.to_owned());
        }
        value
    });
    match missing.into_inner() {
        Some(variable) => Err(Error::SubPathExpression { expression, variable }),
        None => Ok(path),
    }
}

fn volume_path(
    container: &Container,
    facts: &PodFacts,
    mount: &VolumeMount,
) -> Result<std::path::PathBuf, Error> {
    let missing =
        || Error::VolumeNotFound { volume: mount.name.clone(), container: container.name.clone() };
    facts.volumes.get(&mount.name).cloned().ok_or_else(missing)
}

pub(super) fn render(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    run: &RunFacts,
) -> Result<Vec<Mount>, Error> {
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let mut rendered = match is_image(pod, &mount.name) {
            true => of_image(pod, container, facts, run, mount)?,
            false => of_volume(container, facts, run, (index, mount))?,
        };
        rendered.read_only |= shows_objects(pod, &mount.name);
        mounts.push(rendered);
    }
    let has_hosts = mounts.iter().any(|it| it.container_path == HOSTS);
    if let Some(hosts_file) = facts.hosts_file.clone().filter(|_| !has_hosts) {
        mounts.push(writable(hosts_file, HOSTS));
    }
    let message_path = container.termination_message_path.as_deref().unwrap_or_default();
    if !message_path.is_empty() {
        mounts.push(writable(run.termination_log.clone(), message_path));
    }
    Ok(mounts)
}

fn is_image(pod: &Pod, volume: &str) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    volumes.any(|it| it.name == volume && it.image.is_some())
}

/// The runtime finds the sub path, inside the image.
fn of_image(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    run: &RunFacts,
    mount: &VolumeMount,
) -> Result<Mount, Error> {
    let missing =
        || Error::VolumeNotFound { volume: mount.name.clone(), container: container.name.clone() };
    let image = run.images.get(&mount.name).cloned().ok_or_else(missing)?;
    let sub_path = match has_sub_path(mount) {
        true => sub_path(pod, container, facts, mount)?,
        false => String::new(),
    };
    let parts = sub_path.split('/').filter(|it| !it.is_empty() && *it != ".");
    let sub_path = parts.collect::<Vec<_>>().join("/");
    Ok(Mount {
        container_path: absolute(&mount.mount_path),
        read_only: true,
        recursive_read_only: is_recursive_read_only(mount, facts.can_recursive_read_only)?,
        image: Some(ImageMount { image, sub_path }),
        ..Mount::default()
    })
}

/// What the API's objects say is not for containers to change.
fn shows_objects(pod: &Pod, volume: &str) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    volumes.any(|it| {
        it.name == volume
            && (it.config_map.is_some()
                || it.secret.is_some()
                || it.downward_api.is_some()
                || it.projected.is_some())
    })
}

fn of_volume(
    container: &Container,
    facts: &PodFacts,
    run: &RunFacts,
    (index, mount): (usize, &VolumeMount),
) -> Result<Mount, Error> {
    let recursive_read_only = is_recursive_read_only(mount, facts.can_recursive_read_only)?;
    let unprepared = || Error::SubPathUnprepared {
        volume: mount.name.clone(),
        container: container.name.clone(),
    };
    let host_path = match has_sub_path(mount) {
        true => run.sub_paths.get(&index).cloned().ok_or_else(unprepared)?,
        false => volume_path(container, facts, mount)?,
    };
    Ok(Mount {
        host_path,
        container_path: absolute(&mount.mount_path),
        read_only: mount.read_only.unwrap_or_default(),
        recursive_read_only,
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => Propagation::HostToContainer,
            Some("Bidirectional") => Propagation::Bidirectional,
            _ => Propagation::Private,
        },
        ..Mount::default()
    })
}

/// Whether what is mounted below the volume is read-only too, where the runtime `can` do that. An
/// error is shown after `failed to resolve recursive read-only mode: `.
pub(crate) fn is_recursive_read_only(mount: &VolumeMount, can: bool) -> Result<bool, Error> {
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("" | "Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    let refused = |why: String| {
        let volume = mount.name.clone();
        Err(Error::RecursiveReadOnly { volume, why })
    };
    if mount.read_only != Some(true) {
        return refused("it is not read-only".to_owned());
    }
    if let Some(other) = mount.mount_propagation.as_deref().filter(|it| *it != "None") {
        return refused(format!("it is not compatible with propagation {other:?}"));
    }
    match mode {
        "IfPossible" => Ok(can),
        "Enabled" if can => Ok(true),
        "Enabled" => refused("it is not supported by the runtime".to_owned()),
        unknown => Err(Error::RecursiveReadOnlyMode { mode: unknown.to_owned() }),
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn writable(host_path: std::path::PathBuf, container_path: &str) -> Mount {
    Mount { host_path, container_path: container_path.to_owned(), ..Mount::default() }
}
