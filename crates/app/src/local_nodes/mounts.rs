//! What a node sees of the machine's file systems: all of them, but for what is about processes,
//! network, cgroups and what runs, which it has of its own.
//!
//! The plan is pure; it is carried out by the node's first process, in a mount namespace of its own.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use linux::cgroups::{Hierarchies, Hierarchy, Version};
use linux::mount_points::{self, Mounted};
use linux::mounts::{self, Attributes, Depth, Detached, Propagation};
use rustix::fs::{Mode, OFlags};

use super::files::{self, Cover};

/// A node's own; what listens or is locked there is of one machine.
const RUN: &str = "/run";
const PROC: &str = "/proc";
const SYS: &str = "/sys";
/// Of those that are there: memory and queues that processes share by name.
const SHARED_BY_NAME: [(&str, &str); 2] = [("/dev/shm", "tmpfs"), ("/dev/mqueue", "mqueue")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// What others of the cluster have mounted.
    Hide(PathBuf),
    /// The same mount as the machine's, on what is new there.
    Keep(PathBuf),
    /// A hierarchy from the node's own cgroup on.
    Cgroups(Hierarchy),
    New {
        kind: &'static str,
        path: PathBuf,
    },
}

/// `mounted` in the order of mounting. `own` is the node's directory, `cluster` the one that it is
/// in.
pub(super) fn plan(
    mounted: &[Mounted],
    hierarchies: &[Hierarchy],
    (cluster, own): (&Path, &Path),
) -> Vec<Step> {
    let is_others = |it: &Path| it != cluster && it.starts_with(cluster) && !own.starts_with(it);
    let hidden = mounted.iter().map(|it| &it.path).filter(|it| is_others(it));
    let mut steps: Vec<Step> = hidden.rev().cloned().map(Step::Hide).collect();
    let new = |kind, path: &str| Step::New { kind, path: path.into() };
    steps.extend([new("proc", PROC), new("sysfs", SYS)]);
    // Of several on one path the last is seen.
    let is_last = |at: usize| mounted[at + 1..].iter().all(|it| it.path != mounted[at].path);
    for (_, it) in mounted.iter().enumerate().filter(|(at, _)| is_last(*at)) {
        let is_in_sys = it.path.starts_with(SYS) && it.path != Path::new(SYS);
        match hierarchies.iter().find(|hierarchy| hierarchy.mount == it.path) {
            Some(hierarchy) => steps.push(Step::Cgroups(hierarchy.clone())),
            None if is_in_sys && !it.kind.starts_with("cgroup") => {
                steps.push(Step::Keep(it.path.clone()));
            }
            None => {
                let named = SHARED_BY_NAME.iter().find(|(path, _)| it.path == Path::new(path));
                steps.extend(named.map(|(path, kind)| new(kind, path)));
            }
        }
    }
    steps.push(new("tmpfs", RUN));
    steps
}

/// Why a node cannot have its directory there.
pub(super) fn refusal(directory: &Path) -> Option<String> {
    let covered = [RUN, PROC, SYS].into_iter().find(|it| directory.starts_with(it))?;
    Some(format!(
        "--nodes: further nodes have a {covered} of their own, and do not see the data directory {}: choose another with --data-dir",
        directory.display()
    ))
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Mounts(#[from] mounts::Error),
    #[error(transparent)]
    Cgroups(#[from] linux::cgroups::Error),
    #[error("{doing}")]
    Step {
        doing: String,
        #[source]
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
    let doing = doing.into();
    move |source| Error::Step { doing, source: source.into() }
}

/// In a mount namespace, PID, network and cgroup namespace of its own.
pub(super) fn apply(cluster: &Path, own: &Path) -> Result<(), Error> {
    let hierarchies: Vec<Hierarchy> = Hierarchies::detect()?.iter().cloned().collect();
    let steps = plan(&mount_points::all()?, &hierarchies, (cluster, own));
    propagate(Propagation::Slave)?;
    let covers = prepare_covers(own)?;
    let mut prepared = Vec::new();
    for step in &steps {
        prepared.push((step, prepare(step)?));
    }
    for (step, mount) in prepared {
        let (Some(mount), Some(path)) = (mount, target(step)) else { continue };
        attach(mount, path)?;
    }
    for (place, mount) in covers {
        make_file(&place)?;
        attach(mount, &place)?;
    }
    // What pods mount for each other is seen by all of this node.
    propagate(Propagation::Shared)
}

fn propagate(propagation: Propagation) -> Result<(), Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).map_err(failed("open /"))?;
    mounts::set_propagation(root.as_fd(), propagation, Depth::Recursive)
        .map_err(failed("keep mounts of the node in the node"))
}

fn target(step: &Step) -> Option<&Path> {
    match step {
        Step::Hide(_) => None,
        Step::Keep(path) | Step::New { path, .. } => Some(path),
        Step::Cgroups(hierarchy) => Some(&hierarchy.mount),
    }
}

/// Takes copies of what is kept while it can be seen.
fn prepare(step: &Step) -> Result<Option<Detached>, Error> {
    let attributes = Attributes {
        no_suid: Some(true),
        no_devices: Some(true),
        no_exec: Some(true),
        ..Attributes::default()
    };
    let made = match step {
        Step::Hide(path) => {
            mounts::detach(path).map_err(failed(format!("unmount {}", path.display())))?;
            return Ok(None);
        }
        Step::Keep(path) => copy(path)?,
        Step::Cgroups(hierarchy) => match hierarchy.version {
            Version::V1 => {
                let options: Vec<_> = hierarchy.controllers.iter().map(|it| option(it)).collect();
                Detached::new("cgroup", "cgroup", &options, attributes)?
            }
            Version::V2 => Detached::new("cgroup2", "cgroup2", &[], attributes)?,
        },
        Step::New { kind: "tmpfs", path } => {
            let mode = if path == Path::new(RUN) { "0755" } else { "1777" };
            let options = [("mode", mode), ("size", "10%")];
            let options = options.map(|(key, it)| (key.to_owned(), Some(it.to_owned())));
            let attributes = Attributes { no_exec: None, ..attributes };
            Detached::new("tmpfs", "tmpfs", &options, attributes)?
        }
        Step::New { kind, .. } => Detached::new(kind, kind, &[], attributes)?,
    };
    Ok(Some(made))
}

/// As version 1 is mounted: `memory`, or `name=systemd`.
fn option(controller: &str) -> (String, Option<String>) {
    match controller.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (controller.to_owned(), None),
    }
}

fn copy(path: &Path) -> Result<Detached, Error> {
    let doing = || format!("copy the mount {}", path.display());
    let source = mounts::open_source(path).map_err(failed(doing()))?;
    Detached::copy_of(source.as_fd(), Depth::One).map_err(failed(doing()))
}

fn attach(mount: Detached, path: &Path) -> Result<(), Error> {
    let doing = || format!("mount on {}", path.display());
    let target = mounts::open_source(path).map_err(failed(doing()))?;
    mount.attach(target.as_fd()).map(drop).map_err(failed(doing()))
}

/// Before anything is covered by which they are found.
fn prepare_covers(own: &Path) -> Result<Vec<(PathBuf, Detached)>, Error> {
    let mut covers = Vec::new();
    for Cover { name, over } in files::ALL {
        if let Some(place) = files::real(over) {
            covers.push((place, copy(&own.join(name))?));
        }
    }
    Ok(covers)
}

/// Where one was on what is new and empty now.
fn make_file(path: &Path) -> Result<(), Error> {
    if !path.starts_with(RUN) {
        return Ok(());
    }
    let doing = || format!("make {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed(doing()))?;
    }
    fs::File::create(path).map(drop).map_err(failed(doing()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(step: &Step) -> String {
        match step {
            Step::Hide(path) => format!("hide {}", path.display()),
            Step::Keep(path) => format!("keep {}", path.display()),
            Step::Cgroups(it) => format!("cgroups {}", it.mount.display()),
            Step::New { kind, path } => format!("new {kind} {}", path.display()),
        }
    }

    /// Mounts as `kind path`; hierarchies of cgroups by their mounts.
    fn check(mounted: &[&str], hierarchies: &[&str], expected: &[&str]) {
        let mounted = mounted.iter().map(|it| {
            let (kind, path) = it.split_once(' ').unwrap();
            Mounted { kind: kind.to_owned(), path: path.into() }
        });
        let mounted: Vec<Mounted> = mounted.collect();
        let hierarchy = |it: &&str| Hierarchy {
            version: Version::V1,
            mount: it.into(),
            controllers: Vec::new(),
        };
        let hierarchies: Vec<Hierarchy> = hierarchies.iter().map(hierarchy).collect();
        let own = (Path::new("/data/a"), Path::new("/data/a/nodes/b"));
        let steps = plan(&mounted, &hierarchies, own);
        assert_eq!(steps.iter().map(show).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_node_has_its_own_of_what_is_about_processes_and_network() {
        check(&["ext4 /"], &[], &["new proc /proc", "new sysfs /sys", "new tmpfs /run"]);
        check(
            &["ext4 /", "sysfs /sys", "bpf /sys/fs/bpf", "cgroup2 /sys/fs/cgroup"],
            &["/sys/fs/cgroup"],
            &[
                "new proc /proc",
                "new sysfs /sys",
                "keep /sys/fs/bpf",
                "cgroups /sys/fs/cgroup",
                "new tmpfs /run",
            ],
        );
    }

    #[test]
    fn hierarchies_stay_where_they_are_and_what_is_mounted_twice_is_seen_once() {
        check(
            &[
                "tmpfs /dev/shm",
                "tmpfs /dev/shm",
                "tmpfs /sys/fs/cgroup",
                "cgroup /sys/fs/cgroup/memory",
                "cgroup /sys/fs/cgroup/again",
            ],
            &["/sys/fs/cgroup/memory"],
            &[
                "new proc /proc",
                "new sysfs /sys",
                "new tmpfs /dev/shm",
                "keep /sys/fs/cgroup",
                "cgroups /sys/fs/cgroup/memory",
                "new tmpfs /run",
            ],
        );
    }

    #[test]
    fn what_other_nodes_have_mounted_is_hidden_and_what_one_stands_on_is_not() {
        check(
            &["xfs /data/a", "xfs /data/a/nodes", "tmpfs /data/a/pods/x", "tmpfs /data/a/pods/x"],
            &[],
            &[
                "hide /data/a/pods/x",
                "hide /data/a/pods/x",
                "new proc /proc",
                "new sysfs /sys",
                "new tmpfs /run",
            ],
        );
        assert!(refusal(Path::new("/run/a")).is_some() && refusal(Path::new("/runs")).is_none());
    }
}
