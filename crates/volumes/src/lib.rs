//! Volume drivers: emptyDir, hostPath and atomically written files, below one directory per pod.
//!
//! Everything a driver makes is below the pod's directory; what is mounted or linked into it from
//! elsewhere is never followed when it is removed.

mod attempt;
mod drivers;
mod layout;
mod ownership;
mod read_file;
mod sub_path;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use linux::{mount_points, removal};
use node_api::volumes::{Found, SubPath, Volume, Volumes};
use node_api::{Error, Future, PodUid};
use stdx::World;

use attempt::{Attempt, Named as _};
use drivers::Target;
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
    fn publish(
        &self,
        pod: &PodUid,
        name: &str,
        volume: Volume,
        fs_group: Option<u32>,
    ) -> Future<'_, PathBuf> {
        let name = name.to_owned();
        self.blocking(pod.clone(), move |inner, pod| {
            let (driver, folder) = drivers::find(&volume)?;
            let path = inner.layout.volume(pod, folder, &name)?;
            // So that the pod is known to have volumes, also when it is a path of the host.
            inner.layout.make_volumes(pod)?;
            driver.publish(&volume, &Target { path, fs_group, world: &inner.world })
        })
    }

    fn sub_path(&self, pod: &PodUid, sub_path: SubPath) -> Future<'_, PathBuf> {
        self.blocking(pod.clone(), move |inner, pod| {
            let target = inner.layout.sub_path(pod, &sub_path)?;
            sub_path::bind(&sub_path, &target)?;
            Ok(target)
        })
    }

    fn read_file(
        &self,
        pod: &PodUid,
        root: PathBuf,
        path: &str,
        limit: usize,
    ) -> Future<'_, Bytes> {
        let path = path.to_owned();
        self.blocking(pod.clone(), move |_, _| read_file::read(&root, &path, limit))
    }

    /// Parts first: they are mounts of what is in it. Goes on after a failure.
    fn unpublish(&self, pod: &PodUid, name: &str) -> Future<'_, ()> {
        let name = name.to_owned();
        self.blocking(pod.clone(), move |inner, pod| {
            let parents = inner.layout.parents_of(pod, &name)?;
            let results = parents.iter().map(|it| drivers::remove(it, &name));
            let problems: Vec<Error> = results.filter_map(Result::err).collect();
            problems.into_iter().next().map_or(Ok(()), Err)
        })
    }

    fn list(&self, pod: &PodUid) -> Future<'_, Vec<Found>> {
        self.blocking(pod.clone(), |inner, pod| {
            let names = inner.layout.names(pod)?.into_iter();
            let published = |name| Found { name, is_published: true, ..Found::default() };
            Ok(names.map(published).collect())
        })
    }

    fn tear_down(&self, pod: &PodUid) -> Future<'_, ()> {
        self.blocking(pod.clone(), |inner, pod| {
            let directory = inner.layout.pod(pod)?;
            mount_points::unmount_below(&directory).named()?;
            let parent = &inner.layout.directory;
            removal::remove(parent, pod.as_str()).attempt("removing", &directory)
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
