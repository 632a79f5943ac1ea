//! What is on the node without a pod: left by pods that went while nobody looked. Cleared once,
//! after the first list.

use std::collections::BTreeSet;
use std::sync::Arc;

use node_api::PodUid;

use crate::context::Context;
use crate::{cgroups, disk, volumes};

/// `pods` own sandboxes, volumes and cgroups; `finished` own their logs alone.
pub(super) async fn clear(
    context: Arc<Context>,
    pods: BTreeSet<PodUid>,
    finished: BTreeSet<PodUid>,
) {
    let parts = &context.parts;
    for sandbox in parts.sandboxes.list() {
        if !pods.contains(&sandbox.config.pod.uid) {
            tracing::info!(pod = %sandbox.config.pod, "removing a sandbox without a pod");
            log("sandbox", parts.sandboxes.remove(&sandbox.id).await);
        }
    }
    match parts.volumes.pods().await {
        Ok(found) => {
            for uid in found.into_iter().filter(|it| !pods.contains(it)) {
                // Its sandboxes are gone: nothing of it runs.
                for problem in volumes::remove_all(parts.volumes.as_ref(), &uid, false).await {
                    tracing::warn!(%uid, error = problem, "volumes without a pod are left");
                }
            }
        }
        Err(err) => log("volumes", Err(err)),
    }
    clear_cgroups(&context, &pods).await;
    let (config, known) = (&context.config, pods.clone());
    let folders =
        folders(config.directory.join("pods"), move |name| known.contains(&PodUid::new(name)));
    remove(folders.await).await;
    let logs = crate::pods::orphans::folders(config.log_directory.clone(), move |name| {
        let uid = name.rsplit('_').next().map(PodUid::new);
        // Not one of ours: no uid in its name.
        !name.contains('_') || uid.is_some_and(|it| pods.contains(&it) || finished.contains(&it))
    });
    remove(logs.await).await;
}

async fn clear_cgroups(context: &Context, pods: &BTreeSet<PodUid>) {
    let cgroups = &context.parts.cgroups;
    let classes = cgroups::CLASSES.iter().map(|it| format!("{}/{it}", cgroups::ROOT));
    for parent in std::iter::once(cgroups::ROOT.to_owned()).chain(classes) {
        let children = match cgroups.children(&parent).await {
            Ok(children) => children,
            Err(err) => {
                log("cgroup", Err(err));
                continue;
            }
        };
        for child in children {
            let Some(uid) = child.strip_prefix("pod") else { continue };
            if !pods.contains(&PodUid::new(uid)) {
                log("cgroup", cgroups.remove(&format!("{parent}/{child}")).await);
            }
        }
    }
}

/// Direct children that are folders and that nobody keeps.
async fn folders(
    parent: std::path::PathBuf,
    is_kept: impl Fn(&str) -> bool + Send + 'static,
) -> Vec<std::path::PathBuf> {
    let found = disk::blocking(move || {
        let entries = match std::fs::read_dir(&parent) {
            Ok(entries) => entries,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(err) => return Err(err),
        };
        let paths = entries.flatten().map(|it| it.path()).filter(|it| it.is_dir());
        let is_left = |it: &std::path::PathBuf| {
            it.file_name().and_then(|it| it.to_str()).is_some_and(|it| !is_kept(it))
        };
        Ok(paths.filter(is_left).collect())
    });
    found.await.unwrap_or_else(|err| {
        tracing::warn!(error = %err, "folders of pods not listed");
        Vec::new()
    })
}

async fn remove(folders: Vec<std::path::PathBuf>) {
    for folder in folders {
        if let Err(err) = disk::remove_folder(folder.clone()).await {
            tracing::warn!(folder = %folder.display(), error = %err, "folder without a pod not removed");
        }
    }
}

fn log(what: &str, result: Result<(), node_api::Error>) {
    if let Err(err) = result {
        tracing::warn!(what, error = stdx::error_chain(&err), "what is left of a pod not removed");
    }
}
