//! Promises of [`Volumes`]. What is in the files is tested where there are files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::volumes::{File, FilesPlugin, HostPathKind, Medium, SubPath, Volume, Volumes};
use crate::{Error, PodUid};

/// `host_directory` exists.
pub async fn all(volumes: &dyn Volumes, host_directory: &Path) {
    setting_up_twice_gives_the_same_path(volumes).await;
    volumes_are_apart(volumes).await;
    a_path_of_the_host_is_itself(volumes, host_directory).await;
    parts_stay_in_their_volume(volumes).await;
    what_is_gone_can_be_torn_down(volumes).await;
}

fn empty_dir() -> Volume {
    Volume::EmptyDir { medium: Medium::Disk, size_limit: None }
}

fn files(content: &'static str) -> Volume {
    let file = File { content: content.into(), mode: 0o644, user: None };
    let files = BTreeMap::from([("key".to_owned(), file)]);
    Volume::Files { plugin: FilesPlugin::ConfigMap, files }
}

async fn set_up(volumes: &dyn Volumes, pod: &PodUid, name: &str, volume: Volume) -> PathBuf {
    volumes.set_up(pod, name, volume, None).await.expect("set_up")
}

async fn tear_down(volumes: &dyn Volumes, pod: &PodUid) {
    volumes.tear_down(pod).await.expect("tear_down");
    assert!(!volumes.pods().await.expect("pods").contains(pod), "{pod} still has volumes");
}

pub async fn setting_up_twice_gives_the_same_path(volumes: &dyn Volumes) {
    let pod = PodUid::new("contract-twice");
    let memory = Volume::EmptyDir { medium: Medium::Memory, size_limit: Some(1 << 20) };
    for volume in [empty_dir(), memory, files("one")] {
        let path = set_up(volumes, &pod, "data", volume.clone()).await;
        assert!(path.is_absolute(), "{}", path.display());
        assert_eq!(set_up(volumes, &pod, "data", volume).await, path);
        assert!(volumes.pods().await.expect("pods").contains(&pod));
        tear_down(volumes, &pod).await;
    }
    let path = set_up(volumes, &pod, "files", files("one")).await;
    assert_eq!(set_up(volumes, &pod, "files", files("two")).await, path);
    tear_down(volumes, &pod).await;
}

pub async fn volumes_are_apart(volumes: &dyn Volumes) {
    let (one, other) = (PodUid::new("contract-one"), PodUid::new("contract-other"));
    let mut paths = std::collections::BTreeSet::new();
    for pod in [&one, &other] {
        for name in ["a", "b"] {
            paths.insert(set_up(volumes, pod, name, empty_dir()).await);
        }
    }
    assert_eq!(paths.len(), 4, "{paths:?}");
    tear_down(volumes, &one).await;
    assert!(volumes.pods().await.expect("pods").contains(&other), "the other pod keeps its own");
    tear_down(volumes, &other).await;
}

pub async fn a_path_of_the_host_is_itself(volumes: &dyn Volumes, directory: &Path) {
    let pod = PodUid::new("contract-host");
    for kind in [HostPathKind::Unset, HostPathKind::Directory, HostPathKind::DirectoryOrCreate] {
        let volume = Volume::HostPath { path: directory.to_owned(), kind };
        assert_eq!(set_up(volumes, &pod, "host", volume).await, directory);
    }
    tear_down(volumes, &pod).await;
}

pub async fn parts_stay_in_their_volume(volumes: &dyn Volumes) {
    let pod = PodUid::new("contract-parts");
    let root = set_up(volumes, &pod, "data", empty_dir()).await;
    let part = |path: &str| SubPath {
        volume: "data".to_owned(),
        root: root.clone(),
        container: "main".to_owned(),
        mount: 0,
        path: path.to_owned(),
    };
    let path = volumes.sub_path(&pod, part("a/b")).await.expect("sub_path");
    assert!(path.is_absolute(), "{}", path.display());
    for path in ["..", "a/../../b", "/etc"] {
        let error = volumes.sub_path(&pod, part(path)).await.expect_err(path);
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
    }
    tear_down(volumes, &pod).await;
}

pub async fn what_is_gone_can_be_torn_down(volumes: &dyn Volumes) {
    tear_down(volumes, &PodUid::new("contract-never-was")).await;
}
