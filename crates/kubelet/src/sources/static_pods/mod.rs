//! Static pods: manifests in a folder, read at the start and when the kernel says that the folder
//! changed.

mod manifest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::object::key_of;
use apimachinery::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::{Shutdown, Tasks};
use linux::inotify::Changes;
use stdx::World;
use tokio::sync::watch;

use crate::disk;
use crate::folder::Folder;

/// By name; every pod has the node's name in its own, and a uid from its content.
pub(crate) type StaticPods = BTreeMap<ObjectKey, Arc<Pod>>;

/// `None` until the folder was read once.
pub(crate) fn spawn(
    tasks: &Tasks,
    world: &World,
    folder: Option<PathBuf>,
    node_name: String,
) -> watch::Receiver<Option<StaticPods>> {
    let Some(folder) = folder else {
        return watch::channel(Some(StaticPods::new())).1;
    };
    let (tx, rx) = watch::channel(None);
    let clock = world.clock.clone();
    tasks.spawn_restarting("static-pods", move |shutdown| {
        let reader =
            Reader { folder: folder.clone(), node_name: node_name.clone(), seen: clock.now() };
        run(reader, tx.clone(), shutdown)
    });
    rx
}

#[derive(Clone)]
struct Reader {
    folder: PathBuf,
    node_name: String,
    seen: jiff::Timestamp,
}

async fn run(reader: Reader, pods: watch::Sender<Option<StaticPods>>, shutdown: Shutdown) {
    // Watched before it is read, so that no change is missed.
    let watched = Folder::watch(&reader.folder, Changes::Files);
    let mut watched = match watched {
        Ok(it) => it,
        Err(err) => {
            let (folder, error) = (reader.folder.display(), err.to_string());
            tracing::warn!(%folder, error, "folder of static pods cannot be watched");
            pods.send_replace(Some(StaticPods::new()));
            return;
        }
    };
    loop {
        let task = reader.clone();
        match disk::blocking(move || Ok(task.read())).await {
            Ok(found) => drop(pods.send_replace(Some(found))),
            Err(err) => tracing::warn!(error = %err, "static pods not read"),
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            changed = watched.changed() => if let Err(err) = changed {
                tracing::warn!(error = %err, "folder of static pods is no longer watched");
                shutdown.cancelled().await;
                return;
            },
        }
    }
}

impl Reader {
    /// A manifest that cannot be read is left out, and said so.
    fn read(&self) -> StaticPods {
        let mut pods = StaticPods::new();
        let mut files: Vec<PathBuf> = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries.flatten().map(|it| it.path()).collect(),
            Err(err) => {
                tracing::warn!(folder = %self.folder.display(), error = %err, "folder not read");
                return pods;
            }
        };
        files.sort();
        for file in files.iter().filter(|it| is_manifest(it)) {
            let pod = std::fs::read(file)
                .map_err(|source| manifest::Error::Read { source })
                .and_then(|it| manifest::parse(&it, file, &self.node_name, self.seen));
            match pod {
                Ok(pod) => drop(pods.insert(key_of(&pod.metadata), Arc::new(pod))),
                Err(err) => {
                    let error = stdx::error_chain(&err);
                    tracing::warn!(file = %file.display(), error, "static pod not read");
                }
            }
        }
        pods
    }
}

/// Hidden files are being written by editors.
fn is_manifest(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|it| it.as_encoded_bytes().starts_with(b"."));
    !is_hidden && path.is_file()
}
