//! An empty directory: on disk, in memory, or of huge pages.

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};
use node_api::volumes::Medium;

use super::{Plugin, Rendered};
use crate::container_config::of_pod;
use crate::huge_pages;
use crate::pod_facts::PodFacts;

pub(super) struct EmptyDir;

impl Plugin for EmptyDir {
    fn render(&self, pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        volume.empty_dir.as_ref().map(|it| empty_dir(pod, it, facts))
    }
}

fn empty_dir(pod: &Pod, source: &EmptyDirVolumeSource, facts: &PodFacts) -> Rendered {
    let limit = source.size_limit.as_ref().and_then(|it| Amount::parse(&it.0).ok());
    let limit = limit.and_then(|it| u64::try_from(it.value()).ok()).filter(|it| *it > 0);
    let (medium, size_limit) = match source.medium.as_deref().unwrap_or_default() {
        "" => (Medium::Disk, limit),
        "Memory" => {
            // No more than the pod may use, nor than the node has.
            let node = u64::try_from(facts.allocatable.memory).ok().filter(|it| *it > 0);
            let limits = [limit, of_pod(pod).memory_limit, node];
            (Medium::Memory, limits.into_iter().flatten().min())
        }
        other => {
            let spec = pod.spec.clone().unwrap_or_default();
            let (page_size, requested) = huge_pages::of_medium(&spec, other)?;
            let size_limit = [limit, requested].into_iter().flatten().min();
            (Medium::HugePages { page_size }, size_limit)
        }
    };
    Ok(node_api::volumes::Volume::EmptyDir { medium, size_limit })
}
