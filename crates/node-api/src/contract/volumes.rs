//! Promises of [`Volumes`]. What is in the files is tested where there are files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::volumes::{File, FilesPlugin, HostPathKind, Medium, SubPath, Volume, Volumes};
use crate::{Error, PodUid};

/// `host_directory` exists.
pub async fn all(volumes: &dyn Volumes, host_directory: &Path) {
    publishing_twice_gives_the_same_path(volumes).await;
    volumes_are_apart(volumes).await;
    a_path_of_the_host_is_itself(volumes, host_directory).await;
    parts_stay_in_their_volume(volumes).await;
    a_volume_goes_alone(volumes).await;
    every_verb_can_be_repeated(volumes).await;
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

async fn publish(volumes: &dyn Volumes, pod: &PodUid, name: &str, volume: Volume) -> PathBuf {
    volumes.publish(pod, name, volume, None).await.expect("publish")
}

/// The names of what is there, each with whether it is published.
async fn listed(volumes: &dyn Volumes, pod: &PodUid) -> Vec<(String, bool)> {
    let found = volumes.list(pod).await.expect("list");
    found.into_iter().map(|it| (it.name, it.is_published)).collect()
}

async fn tear_down(volumes: &dyn Volumes, pod: &PodUid) {
    volumes.tear_down(pod).await.expect("tear_down");
    assert!(!volumes.pods().await.expect("pods").contains(pod), "{pod} still has volumes");
}

pub async fn publishing_twice_gives_the_same_path(volumes: &dyn Volumes) {
    let pod = PodUid::new("contract-twice");
    let memory = Volume::EmptyDir { medium: Medium::Memory, size_limit: Some(1 << 20) };
    for volume in [empty_dir(), memory, files("one")] {
        let path = publish(volumes, &pod, "data", volume.clone()).await;
        assert!(path.is_absolute(), "{}", path.display());
        assert_eq!(publish(volumes, &pod, "data", volume).await, path);
        assert!(volumes.pods().await.expect("pods").contains(&pod));
        tear_down(volumes, &pod).await;
    }
    let path = publish(volumes, &pod, "files", files("one")).await;
    assert_eq!(publish(volumes, &pod, "files", files("two")).await, path);
    tear_down(volumes, &pod).await;
}

pub async fn volumes_are_apart(volumes: &dyn Volumes) {
    let (one, other) = (PodUid::new("contract-one"), PodUid::new("contract-other"));
    let mut paths = std::collections::BTreeSet::new();
    for pod in [&one, &other] {
        for name in ["a", "b"] {
            paths.insert(publish(volumes, pod, name, empty_dir()).await);
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
        assert_eq!(publish(volumes, &pod, "host", volume).await, directory);
    }
    tear_down(volumes, &pod).await;
}

pub async fn parts_stay_in_their_volume(volumes: &dyn Volumes) {
    let pod = PodUid::new("contract-parts");
    let root = publish(volumes, &pod, "data", empty_dir()).await;
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

pub async fn a_volume_goes_alone(volumes: &dyn Volumes) {
    let pod = PodUid::new("contract-alone");
    assert_eq!(listed(volumes, &pod).await, []);
    for (name, volume) in [("a", empty_dir()), ("b", files("one"))] {
        publish(volumes, &pod, name, volume).await;
    }
    let named = |name: &str| (name.to_owned(), true);
    assert_eq!(listed(volumes, &pod).await, [named("a"), named("b")]);
    volumes.unpublish(&pod, "a").await.expect("unpublish");
    assert_eq!(listed(volumes, &pod).await, [named("b")]);
    assert!(volumes.pods().await.expect("pods").contains(&pod), "it still has one");
    publish(volumes, &pod, "a", empty_dir()).await;
    assert_eq!(listed(volumes, &pod).await, [named("a"), named("b")]);
    tear_down(volumes, &pod).await;
    assert_eq!(listed(volumes, &pod).await, []);
}

pub async fn every_verb_can_be_repeated(volumes: &dyn Volumes) {
    let (pod, volume) = (PodUid::new("contract-repeated"), empty_dir());
    for _ in 0..2 {
        for _ in 0..2 {
            volumes.attach(&pod, "data", &volume).await.expect("attach");
        }
        for _ in 0..2 {
            volumes.stage(&pod, "data", &volume).await.expect("stage");
        }
        for _ in 0..2 {
            publish(volumes, &pod, "data", volume.clone()).await;
        }
        for _ in 0..2 {
            volumes.unpublish(&pod, "data").await.expect("unpublish");
        }
        for _ in 0..2 {
            volumes.unstage(&pod, "data").await.expect("unstage");
        }
        for _ in 0..2 {
            volumes.detach(&pod, "data").await.expect("detach");
        }
        assert_eq!(listed(volumes, &pod).await, []);
    }
    tear_down(volumes, &pod).await;
}

pub async fn what_is_gone_can_be_torn_down(volumes: &dyn Volumes) {
    tear_down(volumes, &PodUid::new("contract-never-was")).await;
}
