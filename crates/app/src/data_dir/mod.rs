//! The data directory of one cluster: whose it is, who runs on it, where its files are.
//!
//! Promise: nothing is written before the directory is known to be ours (or empty) and nobody else
//! runs on it. From then on nobody else can read it, whatever its modes were before.

mod modes;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use rustix::fs::OFlags;
use rustix::process::Pid;

use crate::cluster::Name;

/// The layout of the directory. A newer one is refused, an older one would be migrated.
const FORMAT: &str = "1";
const MARKER: &str = "xebec-format";
const LOCK: &str = "lock";
/// A file of ours is never a link to somewhere else.
pub(crate) const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot use the data directory {}", .path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not empty and not a xebec data directory: choose another with --data-dir", .0.display())]
    Foreign(PathBuf),
    #[error("{} has format {found:?}, this xebec reads {FORMAT}: use a newer xebec", .path.display())]
    Newer { path: PathBuf, found: String },
    #[error("a cluster already runs on {path} (process {pid}): stop it with `xebec down --data-dir {path}`", path = .path.display())]
    Running { path: PathBuf, pid: String },
    #[error("no xebec data directory at {}", .0.display())]
    Absent(PathBuf),
    #[error("{} belongs to user {owner}, not to the one that runs xebec ({us}): whoever it is could change what it says; remove it, or `chown` it if it is yours", .path.display())]
    Owner { path: PathBuf, owner: u32, us: u32 },
    #[error("{} is a symbolic link in place of a file of xebec's: remove it", .0.display())]
    Link(PathBuf),
    #[error("cannot take {} away from other users (mode {mode:04o}): it must be on a file system that has modes", .path.display())]
    Mode {
        path: PathBuf,
        mode: u32,
        #[source]
        source: io::Error,
    },
}

/// An opened directory, locked for this process.
pub(crate) struct DataDir {
    path: PathBuf,
    /// Held for the life of the process; the kernel lets go when it ends, however it ends.
    _lock: File,
}

/// `/var/lib/xebec` for root, in the user's data directory otherwise; with the cluster's name
/// behind, if it has another.
pub(crate) fn default_path(name: &Name) -> PathBuf {
    default_parent().join(name.context())
}

/// Where clusters are that nobody chose another place for.
pub(crate) fn default_parent() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib");
    }
    let home = || std::env::var_os("HOME").map(|it| PathBuf::from(it).join(".local/share"));
    let base = std::env::var_os("XDG_DATA_HOME")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from)
        .or_else(home);
    base.unwrap_or_else(|| PathBuf::from("."))
}

/// For `--data-dir`. Whoever is started in another directory, as holders are, must find it too.
pub(crate) fn parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(std::path::absolute)
}

/// Whether [`DataDir::open`] could open it now. Changes nothing.
pub(crate) fn validate(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => {
            metadata.map_err(failed)?;
        }
    }
    modes::validate_owner(path)?;
    validate_marker(path)?;
    match open_lock(path, false) {
        Ok(mut lock) if lock.try_lock().is_err() => {
            Err(Error::Running { path: path.to_owned(), pid: read_pid(&mut lock) })
        }
        // What is wrong with the file is told by the opening.
        _ => Ok(()),
    }
}

impl DataDir {
    /// Makes the directory if needed and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        make_private(path).map_err(failed)?;
        modes::validate_owner(path)?;
        validate_marker(path)?;
        modes::protect(path)?;
        let mut lock = open_lock(path, true).map_err(failed)?;
        if !stdx::lock_file(&lock) {
            return Err(Error::Running { path: path.to_owned(), pid: read_pid(&mut lock) });
        }
        write_private(&path.join(MARKER), FORMAT.as_bytes()).map_err(failed)?;
        lock.set_len(0).and_then(|()| write!(&lock, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.path.join("pki")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// The kubeconfig of a component that runs alone.
    pub(crate) fn component_kubeconfig(&self, component: &str) -> PathBuf {
        self.path.join(format!("{component}.kubeconfig"))
    }
}

pub(crate) fn log_file(path: &Path) -> PathBuf {
    path.join("xebec.log")
}

/// The process that runs on the directory, if one does.
pub(crate) fn running(path: &Path) -> Result<Option<Pid>, Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    if !path.join(MARKER).exists() {
        return Err(Error::Absent(path.to_owned()));
    }
    let mut lock = match open_lock(path, false) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        lock => lock.map_err(failed)?,
    };
    if lock.try_lock().is_ok() {
        return Ok(None);
    }
    Ok(read_pid(&mut lock).parse().ok().and_then(Pid::from_raw))
}

fn open_lock(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(NO_FOLLOW)
        .open(path.join(LOCK))
}

fn read_pid(lock: &mut File) -> String {
    let mut pid = String::new();
    let _ = lock.read_to_string(&mut pid);
    if pid.is_empty() { "unknown".to_owned() } else { pid }
}

/// An empty directory becomes ours; one with other things in it does not.
fn validate_marker(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    match fs::read_to_string(path.join(MARKER)) {
        Ok(found) if found.trim() == FORMAT => Ok(()),
        Ok(found) => Err(Error::Newer { path: path.to_owned(), found: found.trim().to_owned() }),
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            for entry in fs::read_dir(path).map_err(failed)? {
                if entry.map_err(failed)?.file_name() != LOCK {
                    return Err(Error::Foreign(path.to_owned()));
                }
            }
            Ok(())
        }
        Err(source) => Err(failed(source)),
    }
}

/// A folder that nobody else gets into, unless it is there already.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes whole or not at all: into a file beside it, then renamed over.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|it| it == content) {
        return fs::set_permissions(path, Permissions::from_mode(0o600));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    // What an earlier attempt left, whatever somebody made of it.
    match fs::remove_file(&beside) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::{DataDir, running, write_private};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_could_read_they_cannot_after_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        drop(DataDir::open(path).unwrap());
        for folder in ["pki", "store/log", "pods", "log"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        for file in ["kubeconfig", "pki/ca.key", "store/LOCK", "store/log/1"] {
            fs::write(path.join(file), "secret").unwrap();
            set_mode(&path.join(file), 0o644);
        }
        set_mode(path, 0o777);
        drop(DataDir::open(path).unwrap());
        let check = |name: &str, expected: u32| {
            assert_eq!(mode(&path.join(name)), expected, "{name}");
        };
        for folder in ["", "pki", "store", "store/log", "pods"] {
            check(folder, 0o700);
        }
        for file in ["kubeconfig", "pki/ca.key", "store/LOCK", "store/log/1", "lock"] {
            check(file, 0o600);
        }
    }

    #[test]
    fn a_file_that_is_a_link_is_refused() {
        for name in ["lock", "kubeconfig", "pki/ca.key", "store/LOCK"] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            drop(DataDir::open(path).unwrap());
            let _ = fs::remove_file(path.join("lock"));
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            let target = directory.path().with_extension("target");
            fs::write(&target, "mine").unwrap();
            symlink(&target, path.join(name)).unwrap();
            let err = DataDir::open(path).err().unwrap().to_string();
            assert!(err.contains("is a symbolic link"), "{name}: {err}");
            assert_eq!(fs::read(&target).unwrap(), b"mine");
            fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for name in ["", "lock", "manifests/evil.yaml", "pki/ca.key"] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            drop(DataDir::open(path).unwrap());
            if !name.is_empty() {
                fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
                fs::write(path.join(name), "x").unwrap();
            }
            std::os::unix::fs::chown(path.join(name), Some(65_534), None).unwrap();
            let err = DataDir::open(path).err().unwrap().to_string();
            assert!(err.contains("belongs to user 65534"), "{name}: {err}");
        }
    }

    #[test]
    fn a_private_file_is_private_even_if_it_says_the_same_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        fs::write(&path, "same").unwrap();
        set_mode(&path, 0o644);
        // What an attempt that was cut short has left, or somebody else.
        symlink("/dev/full", directory.path().join("kubeconfig.new")).unwrap();
        write_private(&path, b"same").unwrap();
        assert_eq!(mode(&path), 0o600);
        write_private(&path, b"other").unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"other".to_vec()));
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "years of work").unwrap();
        let err = DataDir::open(directory.path()).err().unwrap().to_string();
        assert!(err.contains("not a xebec data directory"), "{err}");
        let names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["thesis.txt"]);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("xebec-format"), "99").unwrap();
        let err = DataDir::open(directory.path()).err().unwrap().to_string();
        assert!(err.contains("use a newer xebec"), "{err}");
    }

    #[test]
    fn a_second_opening_is_refused_with_the_process_that_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let held = DataDir::open(directory.path()).unwrap();
        let err = DataDir::open(directory.path()).err().unwrap().to_string();
        assert!(err.contains(&format!("process {}", std::process::id())), "{err}");
        assert!(running(directory.path()).unwrap().is_some());
        drop(held);
        assert!(running(directory.path()).unwrap().is_none());
    }
}
