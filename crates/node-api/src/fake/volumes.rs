//! Volumes that are only remembered; their paths lead nowhere. They need to be attached and staged
//! where a test says so.

use std::path::PathBuf;

use bytes::Bytes;

use super::Node;
use crate::volumes::{Found, Needs, SubPath, Volume, Volumes};
use crate::{Error, Future, PodUid};

/// What the fake remembers of a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    is_attached: bool,
    is_staged: bool,
    published: Option<Volume>,
}

impl Node {
    /// Of every volume from now on.
    pub fn set_volume_needs(&self, needs: Needs) {
        self.state().volume_needs = needs;
    }

    /// As it was published last.
    pub fn volume(&self, pod: &PodUid, name: &str) -> Option<Volume> {
        self.state().volumes.get(pod)?.get(name)?.published.clone()
    }

    /// As if a container had written it: into the volume of this name, at this path in it.
    pub fn write_file(&self, pod: &PodUid, name: &str, path: &str, content: &str) {
        let at = Self::volume_path(pod, name).join(path);
        self.state().files.insert(at, Bytes::copy_from_slice(content.as_bytes()));
    }

    fn volume_path(pod: &PodUid, name: &str) -> PathBuf {
        format!("/fake/pods/{pod}/volumes/{name}").into()
    }

    fn volume_verb(
        &self,
        verb: &'static str,
        (pod, name): (&PodUid, &str),
        change: impl FnOnce(&mut Remembered) + Send + 'static,
    ) -> Future<'_, ()> {
        let (pod, name) = (pod.clone(), name.to_owned());
        Box::pin(async move {
            self.enter(format!("volumes.{verb} {pod} {name}")).await?;
            let mut state = self.state();
            let volumes = state.volumes.entry(pod.clone()).or_default();
            let mut volume = volumes.remove(&name).unwrap_or_default();
            change(&mut volume);
            if volume.is_attached || volume.is_staged || volume.published.is_some() {
                volumes.insert(name, volume);
            }
            // The pod's folder stays until it is torn down.
            Ok(())
        })
    }
}

impl Volumes for Node {
    fn needs(&self, _volume: &Volume) -> Needs {
        self.state().volume_needs
    }

    fn attach(&self, pod: &PodUid, name: &str, _volume: &Volume) -> Future<'_, ()> {
        self.volume_verb("attach", (pod, name), |it| it.is_attached = true)
    }

    fn stage(&self, pod: &PodUid, name: &str, _volume: &Volume) -> Future<'_, ()> {
        self.volume_verb("stage", (pod, name), |it| it.is_staged = true)
    }

    fn publish(
        &self,
        pod: &PodUid,
        name: &str,
        volume: Volume,
        _fs_group: Option<u32>,
    ) -> Future<'_, PathBuf> {
        let path = match &volume {
            Volume::HostPath { path, .. } => path.clone(),
            Volume::EmptyDir { .. } | Volume::Files { .. } => Self::volume_path(pod, name),
        };
        let published = self.volume_verb("publish", (pod, name), |it| it.published = Some(volume));
        Box::pin(async move { published.await.map(|()| path) })
    }

    fn sub_path(&self, pod: &PodUid, sub_path: SubPath) -> Future<'_, PathBuf> {
        let pod = pod.clone();
        Box::pin(async move {
            let SubPath { volume, container, path, root, .. } = sub_path;
            self.enter(format!("volumes.sub_path {pod} {container} {volume}/{path}")).await?;
            if path.starts_with('/') || path.split('/').any(|it| it == "..") {
                return Err(Error::Refused(format!("subPath {path:?} leads out of the volume")));
            }
            Ok(root.join(path))
        })
    }

    fn read_file(
        &self,
        pod: &PodUid,
        root: PathBuf,
        path: &str,
        limit: usize,
    ) -> Future<'_, Bytes> {
        let (pod, path) = (pod.clone(), path.to_owned());
        Box::pin(async move {
            self.enter(format!("volumes.read_file {pod} {path}")).await?;
            let missing = || Error::Refused(format!("there is no file {path:?}"));
            let content = self.state().files.get(&root.join(&path)).cloned().ok_or_else(missing)?;
            match content.len() <= limit {
                true => Ok(content),
                false => Err(Error::Refused(format!("{path:?} has more than {limit} bytes"))),
            }
        })
    }

    fn unpublish(&self, pod: &PodUid, name: &str) -> Future<'_, ()> {
        self.volume_verb("unpublish", (pod, name), |it| it.published = None)
    }

    fn unstage(&self, pod: &PodUid, name: &str) -> Future<'_, ()> {
        self.volume_verb("unstage", (pod, name), |it| it.is_staged = false)
    }

    fn detach(&self, pod: &PodUid, name: &str) -> Future<'_, ()> {
        self.volume_verb("detach", (pod, name), |it| it.is_attached = false)
    }

    fn list(&self, pod: &PodUid) -> Future<'_, Vec<Found>> {
        let state = self.state();
        let volumes = state.volumes.get(pod).into_iter().flatten();
        let found = volumes.map(|(name, it)| Found {
            name: name.clone(),
            is_attached: it.is_attached,
            is_staged: it.is_staged,
            is_published: it.published.is_some(),
        });
        Box::pin(std::future::ready(Ok(found.collect())))
    }

    fn tear_down(&self, pod: &PodUid) -> Future<'_, ()> {
        let pod = pod.clone();
        Box::pin(async move {
            self.enter(format!("volumes.tear_down {pod}")).await?;
            self.state().volumes.remove(&pod);
            Ok(())
        })
    }

    fn pods(&self) -> Future<'_, Vec<PodUid>> {
        let pods = self.state().volumes.keys().cloned().collect();
        Box::pin(std::future::ready(Ok(pods)))
    }
}
