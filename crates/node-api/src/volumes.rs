//! Directories for a pod's volumes.

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
    /// What `set_up` returned for the volume.
    pub root: PathBuf,
    pub container: String,
    /// Which of the container's mounts it is.
    pub mount: usize,
    /// Relative, without `..`.
    pub path: String,
}

pub trait Volumes: Send + Sync {
    /// Makes the volume be so, and returns the path to mount into containers. Called again it
    /// changes what differs; `Files` are replaced atomically. Files from Secrets, tokens and
    /// `Medium::Memory` never touch a disk.
    fn set_up(
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
    /// Removes all volumes of a pod and the pod's folder. Never follows a mount or a link out of
    /// it.
    fn tear_down(&self, pod: &PodUid) -> Future<'_, ()>;
    /// Pods that have volumes on this node.
    fn pods(&self) -> Future<'_, Vec<PodUid>>;
}
