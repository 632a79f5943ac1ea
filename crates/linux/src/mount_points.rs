//! Mounts by their paths: what is mounted on and below a directory, taking it away, and a tmpfs for
//! what must not touch a disk. For directories that belong to us; see `mounts` for others.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{stat, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use crate::mounts::{Error, error};

/// Mounts on one path can be stacked; more rounds than this mean that somebody else mounts there.
const ROUNDS_MAX: usize = 16;

/// Says what was being done, as in `reading /a/b`.
trait Attempt<T> {
    fn attempt(self, doing: &str, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Attempt<T> for Result<T, E> {
    fn attempt(self, doing: &str, path: &Path) -> Result<T, Error> {
        self.map_err(|err| error(format!("{doing} {}", path.display()), err.into()))
    }
}

/// Mounts a tmpfs, or corrects the size of the one that is there. Whether it was mounted now.
pub fn ensure_tmpfs(path: &Path, size_limit: Option<u64>) -> Result<bool, Error> {
    if is_mount_point(path)? {
        if let Some(size) = size_limit {
            let vfs = statvfs(path).attempt("looking at", path)?;
            if vfs.f_blocks * vfs.f_frsize != size.next_multiple_of(vfs.f_frsize.max(1)) {
                let flags = MountFlags::NOSUID | MountFlags::NODEV;
                mount_remount(path, flags, format!("size={size}")).attempt("resizing", path)?;
            }
        }
        return Ok(false);
    }
    let size = size_limit.map(|it| format!(",size={it}")).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mount_with = |options: &str| {
        let options = std::ffi::CString::new(format!("mode=0755{size}{options}"));
        let options = options.map_err(|_| Errno::INVAL)?;
        mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))
    };
    // Kernels before 6.3 cannot keep it from being swapped out.
    match mount_with(",noswap") {
        Err(Errno::INVAL) => mount_with(""),
        result => result,
    }
    .attempt("mounting a tmpfs on", path)?;
    Ok(true)
}

/// Mounts a file system of huge pages of one size. Whether it was mounted now.
pub fn ensure_hugetlbfs(
    path: &Path,
    page_size: u64,
    size_limit: Option<u64>,
) -> Result<bool, Error> {
    if is_mount_point(path)? {
        return Ok(false);
    }
    let size = size_limit.map(|it| format!(",size={it}")).unwrap_or_default();
    let options = std::ffi::CString::new(format!("pagesize={page_size}{size}"));
    let options = options.map_err(|_| Errno::INVAL);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mounted =
        options.and_then(|it| mount("nodev", path, "hugetlbfs", flags, Some(it.as_c_str())));
    mounted.attempt("mounting a file system of huge pages on", path)?;
    Ok(true)
}

/// For a directory of our own: something else than its parent's file system is on it.
pub fn is_mount_point(path: &Path) -> Result<bool, Error> {
    let Some(parent) = path.parent() else { return Ok(true) };
    let device = |it: &Path| stat(it).attempt("looking at", it).map(|it| it.st_dev);
    Ok(device(path)? != device(parent)?)
}

/// Unmounts everything on and below a directory, and goes on after a failure; what is still in use
/// goes away when it no longer is.
pub fn unmount_below(directory: &Path) -> Result<(), Error> {
    for _ in 0..ROUNDS_MAX {
        let mut mounted = below(directory)?;
        if mounted.is_empty() {
            return Ok(());
        }
        // The last mounted first: it may be on one of the others.
        mounted.reverse();
        let mut failure = None;
        for path in mounted {
            match unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // Gone already, with the one it was on.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
                Err(err) => failure = failure.or(Some((path, err))),
            }
        }
        if let Some((path, err)) = failure {
            return Err(err).attempt("unmounting", &path);
        }
    }
    let doing = format!("unmounting {}", directory.display());
    Err(error(doing, io::Error::other("it is mounted again and again")))
}

/// Mount points on and below a directory, in the order of mounting.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mounted = all()?.into_iter().map(|it| it.path);
    Ok(mounted.filter(|it| it.starts_with(directory)).collect())
}

/// One mount of this process's mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub path: PathBuf,
    /// Of the file system, such as `tmpfs`.
    pub kind: String,
}

/// In the order of mounting: of several on one path the last is seen.
pub fn all() -> Result<Vec<Mounted>, Error> {
    let file = Path::new("/proc/self/mountinfo");
    let text = std::fs::read(file).attempt("reading", file)?;
    Ok(mounts(&text).collect())
}

/// Lines of proc_pid_mountinfo(5): the fifth field, and the one behind the dash.
fn mounts(mountinfo: &[u8]) -> impl Iterator<Item = Mounted> {
    let lines = mountinfo.split(|it| *it == b'\n');
    lines.filter_map(|line| {
        let mut fields = line.split(|it| *it == b' ');
        let path = unescaped(fields.nth(4)?);
        let kind = fields.skip_while(|it| *it != b"-").nth(1)?;
        Some(Mounted { path, kind: String::from_utf8_lossy(kind).into_owned() })
    })
}

/// Space, tab, newline and backslash are written as `\040` and so on.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match rest {
            [b'\\', digits @ ..] if digits.len() >= 3 => {
                let octal = digits[..3].iter().try_fold(0u32, |sum, it| {
                    char::from(*it).to_digit(8).map(|digit| sum * 8 + digit)
                });
                match octal.and_then(|it| u8::try_from(it).ok()) {
                    Some(byte) => {
                        bytes.push(byte);
                        rest = &rest[4..];
                    }
                    None => {
                        bytes.push(*first);
                        rest = tail;
                    }
                }
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::mounts;

    #[test]
    fn mount_points_are_read() {
        let text = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:35 / /a\\040b rw,relatime - tmpfs tmpfs rw\n\
            41 22 0:36 / /c\\134d\\0 rw - tmpfs tmpfs rw\n";
        let shown = |it: super::Mounted| format!("{} {}", it.kind, it.path.display());
        let found: Vec<String> = mounts(text).map(shown).collect();
        assert_eq!(found, ["ext4 /", "tmpfs /a b", "tmpfs /c\\d\\0"]);
    }
}
