//! Mounts by descriptors (fsopen(2), open_tree(2), move_mount(2), mount_setattr(2)): what is
//! mounted where is settled by what was opened, so no path can be changed in between. Needs Linux
//! 5.12.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use crate::namespaces::{self, Namespaces};

#[derive(Debug, thiserror::Error)]
#[error("{doing}{}", if said.is_empty() { String::new() } else { format!(" ({said})") })]
pub struct Error {
    doing: String,
    /// What the file system itself has to say.
    said: String,
    #[source]
    source: io::Error,
}

impl Error {
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// What was being done, and why it failed.
    pub fn into_parts(self) -> (String, io::Error) {
        (self.to_string(), self.source)
    }
}

/// How a mount may be used. `None` leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub read_only: Option<bool>,
    pub no_suid: Option<bool>,
    pub no_devices: Option<bool>,
    pub no_exec: Option<bool>,
    pub access_time: Option<AccessTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTime {
    Relative,
    Never,
    Strict,
}

/// Whether mounts made below a mount are seen in its copies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Private,
    Slave,
    Shared,
    Unbindable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// This mount alone.
    One,
    /// And all below it.
    Recursive,
}

/// A mount that nobody sees until it is attached. Dropped without that, it is gone.
#[derive(Debug)]
pub struct Detached(OwnedFd);

impl Detached {
    /// A new instance of a file system.
    pub fn new(
        kind: &str,
        source: &str,
        options: &[(String, Option<String>)],
        attributes: Attributes,
    ) -> Result<Self, Error> {
        let doing = || format!("mount {kind}");
        let at = |source: rustix::io::Errno| error(doing(), source.into());
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(at)?;
        let told = |err: rustix::io::Errno| Error {
            doing: doing(),
            said: log_of(&context),
            source: err.into(),
        };
        if !source.is_empty() {
            rustix::mount::fsconfig_set_string(&context, "source", source).map_err(told)?;
        }
        for (key, value) in options {
            match value {
                Some(value) => {
                    rustix::mount::fsconfig_set_string(&context, key.as_str(), value.as_str())
                }
                None => rustix::mount::fsconfig_set_flag(&context, key.as_str()),
            }
            .map_err(told)?;
        }
        rustix::mount::fsconfig_create(&context).map_err(told)?;
        let (set, _) = attributes.bits();
        let flags = MountAttrFlags::from_bits_retain(u32::try_from(set).unwrap_or(0));
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags);
        Ok(Self(mount.map_err(told)?))
    }

    /// A copy of what is mounted at `source`, seen from there. It has the peers that the original
    /// has.
    pub fn copy_of(source: BorrowedFd<'_>, depth: Depth) -> io::Result<Self> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        if depth == Depth::Recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        Ok(Self(rustix::mount::open_tree(source, "", flags)?))
    }

    /// A copy of what is mounted at `path` in another mount namespace, which `namespace` stands for
    /// (or a process in it). Only in a process with a single thread, which is back where it was
    /// afterwards.
    pub fn copy_from(namespace: BorrowedFd<'_>, path: &Path) -> io::Result<Self> {
        let open =
            |path: &str, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        let own = open("/proc/self/ns/mnt", OFlags::RDONLY)?;
        let root = open("/", OFlags::PATH)?;
        namespaces::join(namespace, Namespaces::MOUNT)?;
        let copied = open_source(path).and_then(|it| Self::copy_of(it.as_fd(), Depth::One));
        // Whoever joins gets the namespace's root, which need not be what it was for us.
        namespaces::join(own.as_fd(), Namespaces::MOUNT)?;
        rustix::process::fchdir(&root)?;
        rustix::process::chroot(".")?;
        copied
    }

    pub fn set_attributes(&self, attributes: Attributes, depth: Depth) -> io::Result<()> {
        set_attributes(self.0.as_fd(), attributes, depth)
    }

    pub fn set_propagation(&self, propagation: Propagation, depth: Depth) -> io::Result<()> {
        set_propagation(self.0.as_fd(), propagation, depth)
    }

    /// Makes it seen at `target`, over what is there. Returns its own root, to work in.
    pub fn attach(self, target: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        rustix::mount::move_mount(
            &self.0,
            "",
            target,
            "",
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
        )?;
        Ok(self.0)
    }
}

impl AsFd for Detached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Attributes {
    /// Bits of mount_setattr(2) to set and to clear.
    fn bits(self) -> (u64, u64) {
        const ACCESS_TIME_MASK: u64 = 0x70;
        let (mut set, mut clear) = (0, 0);
        for (wanted, bit) in
            [(self.read_only, 1), (self.no_suid, 2), (self.no_devices, 4), (self.no_exec, 8)]
        {
            match wanted {
                Some(true) => set |= bit,
                Some(false) => clear |= bit,
                None => {}
            }
        }
        if let Some(access_time) = self.access_time {
            clear |= ACCESS_TIME_MASK;
            set |= match access_time {
                AccessTime::Relative => 0,
                AccessTime::Never => 0x10,
                AccessTime::Strict => 0x20,
            };
        }
        (set, clear)
    }
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

pub fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    depth: Depth,
) -> io::Result<()> {
    let (set, clear) = attributes.bits();
    mount_setattr(mount, &MountAttr { set, clear, ..MountAttr::default() }, depth)
}

pub fn set_propagation(
    mount: BorrowedFd<'_>,
    propagation: Propagation,
    depth: Depth,
) -> io::Result<()> {
    let propagation = match propagation {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::Slave => libc::MS_SLAVE,
        Propagation::Shared => libc::MS_SHARED,
        Propagation::Unbindable => libc::MS_UNBINDABLE,
    };
    mount_setattr(mount, &MountAttr { propagation, ..MountAttr::default() }, depth)
}

fn mount_setattr(mount: BorrowedFd<'_>, attr: &MountAttr, depth: Depth) -> io::Result<()> {
    let recursive = if depth == Depth::Recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a null-terminated string and the attributes have the size given; the
    // kernel reads both only.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Mounts layers (uppermost first) with a writable one on top at `target`. Paths are handed over as
/// descriptors: neither their length nor their number meets a limit but the kernel's of 500 layers,
/// and the container does not see them.
pub fn overlay(
    layers: &[PathBuf],
    upper: &Path,
    work: &Path,
    target: &Path,
) -> Result<OwnedFd, Error> {
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|err| error(format!("open layer {}", path.display()), err.into()))
    };
    let layers: Vec<OwnedFd> = layers.iter().map(|it| open(it)).collect::<Result<_, _>>()?;
    let (upper, work, target) = (open(upper)?, open(work)?, open(target)?);
    match overlay_new(&layers, &upper, &work) {
        Ok(mount) => {
            mount.attach(target.as_fd()).map_err(|err| error("attach overlay".to_owned(), err))
        }
        // Before Linux 6.7 layers cannot be given one by one.
        Err(err) if err.errno() == Some(libc::EINVAL) => {
            overlay_old(&layers, &upper, &work, &target).map_err(|_| err)
        }
        Err(err) => Err(err),
    }
}

/// Layers (uppermost first) without a writable one, attached nowhere yet.
pub fn overlay_read_only(layers: &[PathBuf]) -> Result<Detached, Error> {
    let open = |path: &PathBuf| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|err| error(format!("open layer {}", path.display()), err.into()))
    };
    let layers: Vec<OwnedFd> = layers.iter().map(open).collect::<Result<_, _>>()?;
    if let [layer] = layers.as_slice() {
        // Overlayfs wants two.
        return Detached::copy_of(layer.as_fd(), Depth::One)
            .map_err(|err| error("copy the layer's mount".to_owned(), err));
    }
    let one_by_one = layers.iter().map(|it| ("lowerdir+".to_owned(), Some(magic_path(it))));
    let one_by_one: Vec<_> = one_by_one.collect();
    let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
    match Detached::new("overlay", "overlay", &one_by_one, attributes) {
        // Before Linux 6.7 layers cannot be given one by one.
        Err(err) if err.errno() == Some(libc::EINVAL) => {
            let paths: Vec<String> = layers.iter().map(magic_path).collect();
            let joined = [("lowerdir".to_owned(), Some(paths.join(":")))];
            Detached::new("overlay", "overlay", &joined, attributes).map_err(|_| err)
        }
        made => made,
    }
}

fn overlay_new(layers: &[OwnedFd], upper: &OwnedFd, work: &OwnedFd) -> Result<Detached, Error> {
    let mut options: Vec<(String, Option<String>)> =
        layers.iter().map(|it| ("lowerdir+".to_owned(), Some(magic_path(it)))).collect();
    options.push(("upperdir".to_owned(), Some(magic_path(upper))));
    options.push(("workdir".to_owned(), Some(magic_path(work))));
    Detached::new("overlay", "overlay", &options, Attributes::default())
}

fn overlay_old(
    layers: &[OwnedFd],
    upper: &OwnedFd,
    work: &OwnedFd,
    target: &OwnedFd,
) -> io::Result<OwnedFd> {
    let lower: Vec<String> = layers.iter().map(magic_path).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.join(":"),
        magic_path(upper),
        magic_path(work)
    );
    let options = std::ffi::CString::new(options)?;
    let path = magic_path(target);
    rustix::mount::mount("overlay", &path, "overlay", MountFlags::empty(), options.as_c_str())?;
    // The descriptor still names what the mount covers: look again.
    let name = rustix::fs::readlink(&path, Vec::new())?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, Mode::empty())?)
}

fn magic_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Every mount of this process's namespace: changes here are not seen elsewhere, nor the other way
/// round.
pub fn make_all_private() -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    set_propagation(root.as_fd(), Propagation::Private, Depth::Recursive)
}

/// Makes `root`, which is a mount, the root of this process and of its mount namespace, and drops
/// all other mounts.
pub fn pivot(root: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // Old and new root on one place (pivot_root(2)): the old one is on top, and goes.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Opens something on the host to be mounted elsewhere.
pub fn open_source(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether this is a file of procfs, and not one that only has its name.
pub fn is_proc(file: impl AsFd) -> io::Result<bool> {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    Ok(rustix::fs::fstatfs(file)?.f_type as i64 == PROC_SUPER_MAGIC)
}

/// Mounts a `tmpfs` at a path.
pub fn mount_tmpfs(
    target: &Path,
    options: &[(&str, &str)],
    attributes: Attributes,
) -> Result<(), Error> {
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect();
    let mount = Detached::new("tmpfs", "tmpfs", &options, attributes)?;
    let doing = || format!("mount tmpfs on {}", target.display());
    let target = open_source(target).map_err(|err| error(doing(), err))?;
    mount.attach(target.as_fd()).map_err(|err| error(doing(), err))?;
    Ok(())
}

/// Unmounts at once for new users, and really when the last one leaves. What is no mount is an
/// error.
pub fn detach(path: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// The last of what the file system has logged about this mount (`e overlay: ...`).
fn log_of(context: &OwnedFd) -> String {
    let mut buffer = [0; 1024];
    let mut last = String::new();
    // The kernel keeps eight messages.
    for _ in 0..8 {
        match rustix::io::read(context, &mut buffer) {
            Ok(n) if n > 0 => {
                last = String::from_utf8_lossy(&buffer[..n]).trim().to_owned();
            }
            _ => break,
        }
    }
    last.split_once(' ').map_or_else(|| last.clone(), |(_, message)| message.to_owned())
}

pub(crate) fn error(doing: String, source: io::Error) -> Error {
    Error { doing, said: String::new(), source }
}

/// A program that cannot be written to through this descriptor, whoever gets hold of it: a process
/// that enters a container lends the container its `/proc/<pid>/exe`, and with that the program on
/// the host (CVE-2019-5736). Executed as `/proc/self/fd/<n>`.
pub fn open_program(path: &Path) -> io::Result<OwnedFd> {
    let copy = Detached::copy_of(open_source(path)?.as_fd(), Depth::One)?;
    let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
    copy.set_attributes(attributes, Depth::One)?;
    Ok(copy.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::{Namespaces, unshare};

    /// A thread with mounts of its own, if we may.
    fn apart(test: impl FnOnce(&Path) + Send + 'static) {
        let thread = std::thread::spawn(move || {
            if unshare(Namespaces::MOUNT).and_then(|()| make_all_private()).is_err() {
                println!("SKIPPED: no mount namespace without root");
                return;
            }
            let directory = tempfile::tempdir().unwrap();
            test(directory.path());
        });
        thread.join().unwrap();
    }

    fn overlay_of(n_layers: usize, directory: &Path) -> (Vec<OwnedFd>, [OwnedFd; 3]) {
        let make = |name: &str| {
            let path = directory.join(name);
            std::fs::create_dir_all(&path).unwrap();
            open_source(&path).unwrap()
        };
        let layers = (0..n_layers).map(|n| make(&format!("{n}-{}", "x".repeat(200)))).collect();
        std::fs::write(directory.join(format!("0-{}/which", "x".repeat(200))), "top").unwrap();
        std::fs::write(directory.join(format!("1-{}/which", "x".repeat(200))), "next").unwrap();
        (layers, [make("upper"), make("work"), make("target")])
    }

    #[test]
    fn many_layers_with_long_names_are_mounted() {
        apart(|directory| {
            let (layers, [upper, work, target]) = overlay_of(150, directory);
            let mount = overlay_new(&layers, &upper, &work);
            match mount {
                Ok(mount) => drop(mount.attach(target.as_fd()).unwrap()),
                Err(err) => {
                    println!("SKIPPED: this kernel does not take layers one by one: {err}");
                    return;
                }
            }
            let read = std::fs::read_to_string(directory.join("target/which")).unwrap();
            assert_eq!(read, "top");
            detach(&directory.join("target")).unwrap();
        });
    }

    #[test]
    fn older_kernels_are_given_all_layers_at_once() {
        apart(|directory| {
            let (layers, [upper, work, target]) = overlay_of(100, directory);
            let root = overlay_old(&layers, &upper, &work, &target).unwrap();
            let read = std::fs::read_to_string(directory.join("target/which")).unwrap();
            assert_eq!(read, "top");
            // What is returned is the mount, not what it covers.
            let root = crate::rooted::Root::from_descriptor(root);
            root.find_plain("/which").unwrap();
            detach(&directory.join("target")).unwrap();
        });
    }

    #[test]
    fn a_failed_mount_says_what_the_file_system_says() {
        apart(|_| {
            let options = [("size".to_owned(), Some("many".to_owned()))];
            let err = Detached::new("tmpfs", "tmpfs", &options, Attributes::default()).unwrap_err();
            assert!(err.to_string().contains("size"), "{err}");
        });
    }

    #[test]
    fn a_program_is_not_writable_through_its_descriptor() {
        apart(|directory| {
            let path = directory.join("program");
            std::fs::write(&path, "#!/bin/true\n").unwrap();
            let program = open_program(&path).unwrap();
            let opened = std::fs::OpenOptions::new().append(true).open(magic_path(&program));
            assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EROFS));
            std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        });
    }
}
