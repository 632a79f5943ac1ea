//! Which hierarchies there are, and where.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Cgroup, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    pub mount: PathBuf,
    /// Sorted. `name=systemd` is one, too.
    pub controllers: Vec<String>,
}

impl Hierarchy {
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|it| it == controller)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchies(Vec<Hierarchy>);

/// Options of a version 1 mount that are no controllers (cgroups(7)).
const OPTIONS: &[&str] =
    &["rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode", "favordynmods"];

impl Hierarchies {
    /// Those mounted in this process's mount namespace.
    pub fn detect() -> Result<Arc<Self>, Error> {
        Self::detect_below(Path::new("/"))
    }

    /// The same on a machine whose root is at `root`.
    pub fn detect_below(root: &Path) -> Result<Arc<Self>, Error> {
        let path = root.join("proc/self/mountinfo");
        let mountinfo = super::read(&path)?;
        let hierarchies = Self::parse(&mountinfo, root);
        if hierarchies.0.is_empty() {
            let source = std::io::Error::other("no cgroup file system is mounted");
            return Err(Error::Read { path, source });
        }
        Ok(Arc::new(hierarchies))
    }

    /// From the text of `/proc/self/mountinfo`: lines such as
    /// `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`.
    pub(super) fn parse(mountinfo: &str, root: &Path) -> Self {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        for line in mountinfo.lines() {
            let Some((place, system)) = line.split_once(" - ") else { continue };
            let Some(mount) = place.split(' ').nth(4) else { continue };
            let mut system = system.split(' ');
            let version = match system.next() {
                Some("cgroup") => Version::V1,
                Some("cgroup2") => Version::V2,
                _ => continue,
            };
            let mount = root.join(mount.trim_start_matches('/'));
            let controllers = match version {
                Version::V1 => controllers_v1(system.nth(1).unwrap_or_default()),
                Version::V2 => controllers_v2(&mount),
            };
            // The same hierarchy may be mounted twice.
            let is_new = !hierarchies
                .iter()
                .any(|it| it.version == version && it.controllers == controllers);
            if is_new {
                hierarchies.push(Hierarchy { version, mount, controllers });
            }
        }
        // The one that kills and tells is joined last: what is in it is in all others.
        hierarchies.sort_by_key(|it| it.version == Version::V2);
        Self(hierarchies)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hierarchy> {
        self.0.iter()
    }

    /// Where this controller is; version 1 wins, because a controller is in one place only.
    pub fn with(&self, controller: &str) -> Option<&Hierarchy> {
        self.0.iter().find(|it| it.has(controller))
    }

    pub fn unified(&self) -> Option<&Hierarchy> {
        self.0.iter().find(|it| it.version == Version::V2)
    }

    /// Whether there is version 2 alone.
    pub fn is_unified(&self) -> bool {
        self.0.iter().all(|it| it.version == Version::V2)
    }

    pub fn cgroup(self: &Arc<Self>, name: &str) -> Result<Cgroup, Error> {
        Cgroup::new(self, name)
    }
}

fn controllers_v1(options: &str) -> Vec<String> {
    let mut controllers: Vec<String> = options
        .split(',')
        .filter(|it| !OPTIONS.contains(it) && !it.starts_with("release_agent="))
        .map(str::to_owned)
        .collect();
    controllers.sort();
    controllers
}

fn controllers_v2(mount: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    let mut controllers: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    controllers.sort();
    controllers
}
