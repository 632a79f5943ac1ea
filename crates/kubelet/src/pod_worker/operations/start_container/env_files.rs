//! Values of environment variables that other containers of the pod have written into a volume.
//! Whatever is there may be hostile: the node finds the file inside the volume alone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Container;

use super::Scene;
use crate::container_config::env_file;
use crate::pod_facts::{FileKey, PodFacts};

/// Of all values of a container together. The kernel takes less.
const TOTAL_MAX: usize = 1 << 20;

/// By what asks for them; `None`: it could not be read, which the log says. What is in no volume is
/// left out.
pub(super) async fn read(
    scene: &Scene,
    container: &Container,
    facts: &PodFacts,
) -> BTreeMap<FileKey, Option<String>> {
    let mut values = BTreeMap::new();
    let mut total = 0;
    for ((volume, path), keys) in files(container) {
        let Some(root) = facts.volumes.get(&volume).cloned() else { continue };
        let volumes = &scene.context.parts.volumes;
        let content = volumes.read_file(&scene.uid, root, &path, env_file::SIZE_MAX).await;
        let content = content.map_err(|err| stdx::error_chain(&err));
        for key in keys {
            let found = content.as_ref().map_err(String::clone).and_then(|content| {
                let value = env_file::find(content, &key).map_err(|err| err.to_string())?;
                total += value.len();
                let is_fit = total <= TOTAL_MAX;
                is_fit.then_some(value).ok_or_else(|| format!("more than {TOTAL_MAX} bytes in all"))
            });
            if let Err(problem) = &found {
                tracing::warn!(pod = %scene.uid, volume, path, error = problem, "env file not read");
            }
            let (volume, path) = (volume.clone(), path.clone());
            values.insert(FileKey { volume, path, key }, found.ok());
        }
    }
    values
}

/// Each file once, with the names that are looked for in it.
fn files(container: &Container) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut files: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let sources = container.env.iter().flatten().filter_map(|it| it.value_from.as_ref());
    for reference in sources.filter_map(|it| it.file_key_ref.as_ref()) {
        let file = (reference.volume_name.clone(), reference.path.clone());
        files.entry(file).or_default().insert(reference.key.clone());
    }
    files
}
