//! Directories for a pod's volumes, and the verbs by which they come and go.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;

use crate::{Future, PodUid};

/// What should be at a volume's path. Where the content comes from (a ConfigMap, a token, ...) is
/// the kubelet's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    EmptyDir {
        medium: Medium,
        size_limit: Option<u64>,
    },
    HostPath {
        path: PathBuf,
        kind: HostPathKind,
    },
    /// Files that change together: readers see all of the old or all of the new ones.
    Files {
        plugin: FilesPlugin,
        files: BTreeMap<String, File>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Disk,
    Memory,
    /// Files of huge pages, to be mapped into memory.
    HugePages {
        page_size: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPathKind {
    Unset,
    DirectoryOrCreate,
    Directory,
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}

/// Only names the folder the files are in, as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesPlugin {
    ConfigMap,
    Secret,
    DownwardApi,
    Projected,
}

#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub content: Bytes,
    /// Permission bits, such as 0o644.
    pub mode: u32,
    /// Owner; `None`: root.
    pub user: Option<u32>,
}

impl std::fmt::Debug for File {
    /// Never the content: it may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({} bytes, {:o})", self.content.len(), self.mode)
    }
}

/// A part of a volume for one mount of one container (`volumeMounts[].subPath`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPath {
    pub volume: String,
    /// What `publish` returned for the volume.
    pub root: PathBuf,
    pub container: String,
    /// Which of the container's mounts it is.
    pub mount: usize,
    /// Relative, without `..`.
    pub path: String,
}

/// What a volume's driver has to do before it can be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub attach: bool,
    pub stage: bool,
}

/// What is on the node of one volume of a pod, as its driver finds it. A verb that failed may have
/// left something: then it says that it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub is_attached: bool,
    pub is_staged: bool,
    pub is_published: bool,
}

/// A volume comes by `attach`, `stage` and `publish`, and goes by `unpublish`, `unstage` and
/// `detach`; most drivers have the middle pair alone. Every verb can be repeated: what is so
/// already stays so. The order is the caller's business.
pub trait Volumes: Send + Sync {
    fn needs(&self, _volume: &Volume) -> Needs {
        Needs::default()
    }

    /// Makes the volume's device be on this node.
    fn attach(&self, _pod: &PodUid, _name: &str, _volume: &Volume) -> Future<'_, ()> {
        nothing()
    }

    /// Prepares it once for all pods on this node.
    fn stage(&self, _pod: &PodUid, _name: &str, _volume: &Volume) -> Future<'_, ()> {
        nothing()
    }

    /// Makes the volume be so for one pod, and returns the path to mount into containers. Called
    /// again it changes what differs; `Files` are replaced atomically. Files from Secrets, tokens
    /// and `Medium::Memory` never touch a disk.
    fn publish(
        &self,
        pod: &PodUid,
        name: &str,
        volume: Volume,
        fs_group: Option<u32>,
    ) -> Future<'_, PathBuf>;

    /// A path to mount in place of a part of a volume. The part is made, as a directory, if nothing
    /// is there. Links that lead out of the volume are refused (`Error::Refused`), and what the
    /// path leads to cannot be exchanged by a container of the pod, also not between this call and
    /// the mount. Called again it follows what is there now.
    fn sub_path(&self, pod: &PodUid, sub_path: SubPath) -> Future<'_, PathBuf>;

    /// A regular file in a volume, of `limit` bytes at the most. `root` is what `publish` returned.
    /// Links are followed inside the volume alone, and nothing but a regular file is opened: whoever
    /// fills the volume may be hostile.
    fn read_file(&self, pod: &PodUid, root: PathBuf, path: &str, limit: usize)
    -> Future<'_, Bytes>;

    /// The volume goes from the pod, with its parts. Never follows a mount or a link out of it.
    /// Called while no container of the pod runs.
    fn unpublish(&self, pod: &PodUid, name: &str) -> Future<'_, ()>;

    fn unstage(&self, _pod: &PodUid, _name: &str) -> Future<'_, ()> {
        nothing()
    }

    fn detach(&self, _pod: &PodUid, _name: &str) -> Future<'_, ()> {
        nothing()
    }

    /// What is here of a pod's volumes, sorted by name; also after a restart. A volume that leaves
    /// nothing on the node may be missing.
    fn list(&self, pod: &PodUid) -> Future<'_, Vec<Found>>;

    /// Removes what is left of a pod's volumes, and the pod's folder. Never follows a mount or a
    /// link out of it.
    fn tear_down(&self, pod: &PodUid) -> Future<'_, ()>;

    /// Pods that have volumes on this node.
    fn pods(&self) -> Future<'_, Vec<PodUid>>;
}

fn nothing() -> Future<'static, ()> {
    Box::pin(std::future::ready(Ok(())))
}
