//! Volume drivers: emptyDir, hostPath and atomically written files, below one directory per pod.
//!
//! Everything a driver makes is below the pod's directory; what is mounted or linked into it from
//! elsewhere is never followed when it is removed.

mod attempt;
mod empty_dir;
mod files;
mod host_path;
mod layout;
mod mounts;
mod ownership;
mod removal;
mod sub_path;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use node_api::volumes::{SubPath, Volume, Volumes};
use node_api::{Error, Future, PodUid};
use stdx::World;

use attempt::Attempt;
use layout::Layout;

/// Calls for one pod wait for each other, those for different pods rarely.
const LOCKS: usize = 32;

pub struct Config {
    /// `DIRECTORY/<pod uid>/volumes/kubernetes.io~<plugin>/<name>`, as upstream lays it out.
    pub directory: PathBuf,
}

/// Implements [`node_api::Volumes`]. Keeps nothing in memory: the directory is the state.
pub struct LocalVolumes {
    inner: Arc<Inner>,
}

struct Inner {
    layout: Layout,
    world: World,
    locks: [Mutex<()>; LOCKS],
}

impl LocalVolumes {
    /// Makes the directory if need be.
    pub fn open(config: Config, world: &World) -> std::io::Result<Self> {
        std::fs::create_dir_all(&config.directory)?;
        // As the kernel names it: what is mounted there is found by its name.
        let directory = config.directory.canonicalize()?;
        let layout = Layout { directory };
        let inner = Inner { layout, world: world.clone(), locks: Default::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Away from the threads that must not wait for a disk.
    fn blocking<T: Send + 'static>(
        &self,
        pod: PodUid,
        work: impl FnOnce(&Inner, &PodUid) -> Result<T, Error> + Send + 'static,
    ) -> Future<'_, T> {
        let inner = self.inner.clone();
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || {
                let lock = inner.lock_of(&pod);
                let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                work(&inner, &pod)
            });
            work.await.unwrap_or_else(|err| Err(Error::node("running a volume driver", err)))
        })
    }
}

impl Inner {
    fn lock_of(&self, pod: &PodUid) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        pod.hash(&mut hasher);
        &self.locks[usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default()]
    }
}

impl Volumes for LocalVolumes {
    fn set_up(
        &self,
        pod: &PodUid,
        name: &str,
        volume: Volume,
        fs_group: Option<u32>,
    ) -> Future<'_, PathBuf> {
        let name = name.to_owned();
        self.blocking(pod.clone(), move |inner, pod| {
            let path = inner.layout.volume(pod, &name, &volume)?;
            match volume {
                Volume::EmptyDir { medium, size_limit } => {
                    empty_dir::set_up(&path, medium, size_limit, fs_group)?;
                }
                Volume::HostPath { path, kind } => {
                    // So that the pod is known to have volumes.
                    inner.layout.make_volumes(pod)?;
                    return host_path::validate(path, kind);
                }
                Volume::Files { plugin, files } => {
                    files::set_up(&path, plugin, &files, fs_group, &inner.world)?;
                }
            }
            Ok(path)
        })
    }

    fn sub_path(&self, pod: &PodUid, sub_path: SubPath) -> Future<'_, PathBuf> {
        self.blocking(pod.clone(), move |inner, pod| {
            let target = inner.layout.sub_path(pod, &sub_path)?;
            sub_path::bind(&sub_path, &target)?;
            Ok(target)
        })
    }

    fn tear_down(&self, pod: &PodUid) -> Future<'_, ()> {
        self.blocking(pod.clone(), |inner, pod| {
            let directory = inner.layout.pod(pod)?;
            mounts::unmount_below(&directory)?;
            removal::remove(&inner.layout.directory, pod.as_str())
        })
    }

    fn pods(&self) -> Future<'_, Vec<PodUid>> {
        let inner = self.inner.clone();
        Box::pin(async move {
            let list = tokio::task::spawn_blocking(move || inner.layout.pods());
            list.await.unwrap_or_else(|err| Err(Error::node("listing pods with volumes", err)))
        })
    }
}
