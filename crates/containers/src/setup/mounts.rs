//! The mounts of a container: what each is made of, and placing it inside the root.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linux::cgroups::{Hierarchies, Version};
use linux::mounts::{AccessTime, Attributes, Depth, Detached, Propagation};
use linux::rooted::{self, Missing, Root};
use rustix::fs::{AtFlags, FileType, Mode};

use super::devices;
use super::refusal::{OrRefuse as _, Refusal, Result};
use crate::spec::{IMAGE, LAYER, Mount, Spec};

/// A mount's options, told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    attributes: Attributes,
    /// `ro` of a file system that is made, or of the mounts below a bind (`rro`).
    is_recursively_read_only: bool,
    propagation: Option<(Propagation, Depth)>,
    bind: Option<Depth>,
    /// Of an image, uppermost first.
    layers: Vec<PathBuf>,
    /// For the file system.
    others: Vec<(String, Option<String>)>,
}

pub(super) fn parse_options(mount: &Mount) -> Options {
    let mut options = Options::default();
    if mount.kind == "bind" {
        options.bind = Some(Depth::One);
    }
    let attributes = &mut options.attributes;
    for option in &mount.options {
        match option.as_str() {
            "ro" => attributes.read_only = Some(true),
            "rw" => attributes.read_only = Some(false),
            "rro" => {
                attributes.read_only = Some(true);
                options.is_recursively_read_only = true;
            }
            "nosuid" => attributes.no_suid = Some(true),
            "suid" => attributes.no_suid = Some(false),
            "nodev" => attributes.no_devices = Some(true),
            "dev" => attributes.no_devices = Some(false),
            "noexec" => attributes.no_exec = Some(true),
            "exec" => attributes.no_exec = Some(false),
            "relatime" => attributes.access_time = Some(AccessTime::Relative),
            "noatime" => attributes.access_time = Some(AccessTime::Never),
            "strictatime" => attributes.access_time = Some(AccessTime::Strict),
            "bind" => options.bind = Some(Depth::One),
            "rbind" => options.bind = Some(Depth::Recursive),
            "private" => options.propagation = Some((Propagation::Private, Depth::One)),
            "rprivate" => options.propagation = Some((Propagation::Private, Depth::Recursive)),
            "slave" => options.propagation = Some((Propagation::Slave, Depth::One)),
            "rslave" => options.propagation = Some((Propagation::Slave, Depth::Recursive)),
            "shared" => options.propagation = Some((Propagation::Shared, Depth::One)),
            "rshared" => options.propagation = Some((Propagation::Shared, Depth::Recursive)),
            layer if layer.starts_with(LAYER) => {
                options.layers.push(PathBuf::from(&layer[LAYER.len()..]));
            }
            // Every instance of devpts is a new one since Linux 4.7.
            "newinstance" | "defaults" => {}
            other => options.others.push(match other.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (other.to_owned(), None),
            }),
        }
    }
    options
}

/// A mount that is ready to be placed.
pub(super) struct Prepared<'a> {
    mount: &'a Mount,
    options: Options,
    /// What is bound, where it is a bind.
    bound: Option<(Detached, FileType)>,
}

/// Takes copies of what is bound, while the host's mounts still have their peers there: only so can
/// mounts propagate.
pub(super) fn prepare(mounts: &[Mount]) -> Result<Vec<Prepared<'_>>> {
    mounts.iter().map(prepare_one).collect()
}

fn prepare_one(mount: &Mount) -> Result<Prepared<'_>> {
    let options = parse_options(mount);
    if mount.kind == IMAGE {
        let bound = image(mount, &options)?;
        return Ok(Prepared { mount, options, bound: Some(bound) });
    }
    let Some(depth) = options.bind else {
        return Ok(Prepared { mount, options, bound: None });
    };
    let doing = || failed(mount);
    let source = linux::mounts::open_source(Path::new(&mount.source)).or_refuse(doing)?;
    let stat = rustix::fs::statat(&source, "", AtFlags::EMPTY_PATH).or_refuse(doing)?;
    let bound = Detached::copy_of(source.as_fd(), depth).or_refuse(doing)?;
    if let Some((propagation, depth)) = options.propagation {
        // A copy of a shared mount is its peer already; sharing what was private would help nobody.
        if propagation != Propagation::Shared {
            bound.set_propagation(propagation, depth).or_refuse(doing)?;
        }
    }
    let depth = if options.is_recursively_read_only { Depth::Recursive } else { Depth::One };
    // `rw` is what the source is: never lift a read-only mount of the host's.
    let mut attributes = options.attributes;
    attributes.read_only = attributes.read_only.filter(|it| *it);
    bound.set_attributes(attributes, depth).or_refuse(doing)?;
    Ok(Prepared { mount, options, bound: Some((bound, FileType::from_raw_mode(stat.st_mode))) })
}

/// The content of an image, or a directory or file in it that is reached inside it alone: links in
/// the image lead nowhere else.
fn image(mount: &Mount, options: &Options) -> Result<(Detached, FileType)> {
    let doing = || failed(mount);
    let whole = linux::mounts::overlay_read_only(&options.layers).or_refuse(doing)?;
    let bound = match mount.source.as_str() {
        "" => whole,
        path => {
            let root = Root::from_descriptor(whole.as_fd().try_clone_to_owned().or_refuse(doing)?);
            let inside = root.find(path).or_refuse(doing)?;
            Detached::copy_of(inside.as_fd(), Depth::One).or_refuse(doing)?
        }
    };
    bound.set_attributes(options.attributes, Depth::One).or_refuse(doing)?;
    let stat = rustix::fs::statat(&bound, "", AtFlags::EMPTY_PATH).or_refuse(doing)?;
    Ok((bound, FileType::from_raw_mode(stat.st_mode)))
}

/// What mounts need to know of the container.
pub(super) struct Place<'a> {
    pub(super) root: &'a Root,
    pub(super) spec: &'a Spec,
    pub(super) hierarchies: &'a Arc<Hierarchies>,
    pub(super) procs: Procs,
}

/// Whose processes `/proc` shows.
pub(super) enum Procs {
    /// Those of the PID namespace that this process is in.
    Own,
    /// Those of another one. This process is in the holder's, so it must not make one itself.
    Others(std::cell::Cell<Option<Detached>>),
}

pub(super) fn place(prepared: Prepared<'_>, place: &Place<'_>) -> Result<()> {
    let Prepared { mount, options, bound } = prepared;
    let destination = mount.destination.as_str();
    if let Some((bound, kind)) = bound {
        let missing = if kind == FileType::Directory { Missing::Directory } else { Missing::File };
        let target = place.root.ensure(destination, missing).or_refuse(|| failed(mount))?;
        refuse_proc(&target, mount)?;
        // Nor may something else be there in its place.
        if destination == "/proc" && !linux::mounts::is_proc(&bound).or_refuse(|| failed(mount))? {
            return Err(inside_proc(mount));
        }
        bound.attach(target.as_fd()).or_refuse(|| failed(mount))?;
        return Ok(());
    }
    let target = match mount.kind.as_str() {
        // An image could make these a link to somewhere in a volume, where somebody else can reach
        // them (CVE-2019-19921).
        "proc" | "sysfs" => plain_directory(place.root, mount)?,
        _ => place.root.ensure(destination, Missing::Directory).or_refuse(|| failed(mount))?,
    };
    if mount.kind != "proc" {
        refuse_proc(&target, mount)?;
    }
    match mount.kind.as_str() {
        "cgroup" => place_cgroup(target.as_fd(), &options, mount, place.hierarchies),
        "tmpfs" if destination == "/dev" => {
            let made = make(mount, &options)?;
            devices::populate(made.as_fd(), place.spec)?;
            attach(made, target.as_fd(), mount)
        }
        "proc" => {
            let made = match &place.procs {
                Procs::Own => make(mount, &options)?,
                Procs::Others(procs) => {
                    let procs = procs.take();
                    let procs =
                        procs.ok_or_else(|| Refusal(format!("{}: twice", failed(mount))))?;
                    procs
                        .set_attributes(options.attributes, Depth::One)
                        .or_refuse(|| failed(mount))?;
                    procs
                }
            };
            attach(made, target.as_fd(), mount)
        }
        "sysfs" | "tmpfs" | "devpts" | "mqueue" => {
            attach(make(mount, &options)?, target.as_fd(), mount)
        }
        other => Err(Refusal(format!("{}: file system {other:?} is not supported", failed(mount)))),
    }
}

fn make(mount: &Mount, options: &Options) -> Result<Detached> {
    Detached::new(&mount.kind, &mount.kind, &options.others, options.attributes)
        .or_refuse(|| failed(mount))
}

fn attach(made: Detached, target: BorrowedFd<'_>, mount: &Mount) -> Result<()> {
    made.attach(target).or_refuse(|| failed(mount))?;
    Ok(())
}

fn plain_directory(root: &Root, mount: &Mount) -> Result<OwnedFd> {
    let destination = mount.destination.as_str();
    let doing = || {
        format!("filesystem {:?} must be mounted on ordinary directory {destination}", mount.kind)
    };
    let target = match root.find_plain(destination) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            root.ensure(destination, Missing::Directory).or_refuse(doing)?;
            root.find_plain(destination).or_refuse(doing)?
        }
        result => result.or_refuse(doing)?,
    };
    match rooted::is_directory(target.as_fd()).or_refuse(doing)? {
        true => Ok(target),
        false => Err(Refusal(doing())),
    }
}

/// Over `/proc` nothing may be mounted but what hides it: a fake `/proc` would fool whoever writes
/// there later.
fn refuse_proc(target: &OwnedFd, mount: &Mount) -> Result<()> {
    if linux::mounts::is_proc(target).or_refuse(|| failed(mount))? {
        return Err(inside_proc(mount));
    }
    Ok(())
}

fn inside_proc(mount: &Mount) -> Refusal {
    Refusal(format!("{:?} cannot be mounted because it is inside /proc", mount.destination))
}

/// The container's own part of every hierarchy; its cgroup namespace makes that the root. Version 1
/// has a folder for each hierarchy, under the name of its mount on the host, with links for
/// controllers that share one.
fn place_cgroup(
    target: BorrowedFd<'_>,
    options: &Options,
    mount: &Mount,
    hierarchies: &Hierarchies,
) -> Result<()> {
    let new = |kind: &str, others: &[(String, Option<String>)]| {
        Detached::new(kind, kind, others, options.attributes).or_refuse(|| failed(mount))
    };
    if hierarchies.is_unified() {
        return attach(new("cgroup2", &[])?, target, mount);
    }
    let folder = Detached::new(
        "tmpfs",
        "tmpfs",
        &[("mode".to_owned(), Some("755".to_owned()))],
        Attributes { read_only: None, ..options.attributes },
    )
    .or_refuse(|| failed(mount))?;
    let folder = folder.attach(target).or_refuse(|| failed(mount))?;
    for hierarchy in hierarchies.iter() {
        let name = hierarchy.mount.file_name().unwrap_or_default();
        rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))
            .or_refuse(|| failed(mount))?;
        let at = Root::from_descriptor(folder.try_clone().or_refuse(|| failed(mount))?);
        let at = at.find_plain(&name.to_string_lossy()).or_refuse(|| failed(mount))?;
        let made = match hierarchy.version {
            Version::V2 => new("cgroup2", &[])?,
            Version::V1 => {
                let controllers: Vec<_> = hierarchy
                    .controllers
                    .iter()
                    .map(|it| match it.strip_prefix("name=") {
                        Some(name) => ("name".to_owned(), Some(name.to_owned())),
                        None => (it.clone(), None),
                    })
                    .collect();
                new("cgroup", &controllers)?
            }
        };
        attach(made, at.as_fd(), mount)?;
        for controller in hierarchy.controllers.iter().filter(|it| name != it.as_str()) {
            if hierarchy.version == Version::V1 && !controller.contains('=') {
                rustix::fs::symlinkat(name, &folder, controller.as_str())
                    .or_refuse(|| failed(mount))?;
            }
        }
    }
    let attributes =
        Attributes { read_only: options.attributes.read_only, ..Attributes::default() };
    linux::mounts::set_attributes(folder.as_fd(), attributes, Depth::One)
        .or_refuse(|| failed(mount))
}

fn failed(mount: &Mount) -> String {
    format!("error mounting {:?} to rootfs at {:?}", mount.source, mount.destination)
}
