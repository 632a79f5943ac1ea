//! The content of an image. Nothing of it is at a path of the node: the runtime mounts it into each
//! container, and the image is pulled before the container is made.

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use super::{Plugin, Rendered};
use crate::pod_facts::PodFacts;

pub(super) struct Image;

impl Plugin for Image {
    fn is_mounted_by_runtime(&self, volume: &Volume) -> bool {
        volume.image.is_some()
    }

    fn render(&self, _pod: &Pod, _volume: &Volume, _facts: &PodFacts) -> Option<Rendered> {
        None
    }
}

/// An image that a container mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted<'a> {
    pub(crate) volume: &'a str,
    pub(crate) reference: &'a str,
    /// `Always`, `IfNotPresent` or `Never`.
    pub(crate) pull_policy: Option<&'a str>,
}

/// Each volume once, in the order of the mounts.
pub(crate) fn wanted<'a>(pod: &'a Pod, container: &Container) -> Vec<Wanted<'a>> {
    let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    let images: Vec<Wanted<'a>> = volumes
        .filter_map(|it| {
            let image = it.image.as_ref()?;
            let reference = image.reference.as_deref().unwrap_or_default();
            let pull_policy = image.pull_policy.as_deref();
            Some(Wanted { volume: it.name.as_str(), reference, pull_policy })
        })
        .collect();
    let mut wanted: Vec<Wanted<'a>> = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let is_new = wanted.iter().all(|it| it.volume != mount.name);
        let found = images.iter().find(|it| it.volume == mount.name);
        wanted.extend(found.filter(|_| is_new).cloned());
    }
    wanted
}
