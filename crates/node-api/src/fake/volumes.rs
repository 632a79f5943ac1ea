//! Volumes that are only remembered; their paths lead nowhere.

use std::path::PathBuf;

use super::Node;
use crate::volumes::{SubPath, Volume, Volumes};
use crate::{Error, Future, PodUid};

impl Volumes for Node {
    fn set_up(
        &self,
        pod: &PodUid,
        name: &str,
        volume: Volume,
        _fs_group: Option<u32>,
    ) -> Future<'_, PathBuf> {
        let (pod, name) = (pod.clone(), name.to_owned());
        Box::pin(async move {
            self.enter(format!("volumes.set_up {pod} {name}")).await?;
            let path = match &volume {
                Volume::HostPath { path, .. } => path.clone(),
                Volume::EmptyDir { .. } | Volume::Files { .. } => {
                    format!("/fake/pods/{pod}/volumes/{name}").into()
                }
            };
            self.state().volumes.entry(pod).or_default().insert(name, volume);
            Ok(path)
        })
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
