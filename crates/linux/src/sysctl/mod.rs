//! Kernel settings below `/proc/sys`.
//!
//! Those of the network are the ones of the calling thread's network namespace.

mod name;

use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

pub use name::{Isolation, LENGTH_MAX, Name, OwnNamespaces, Pattern, PatternError};

use crate::rooted::Root;

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    pub doing: String,
    #[source]
    pub source: io::Error,
}

/// The value, or `None` if this kernel has no such setting. Names are written with slashes:
/// `net/ipv4/ip_forward`.
pub fn read(name: &str) -> Result<Option<String>, Error> {
    match fs::read_to_string(Path::new("/proc/sys").join(name)) {
        Ok(value) => Ok(Some(value.trim_end().to_owned())),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error { doing: format!("read the kernel setting {name}"), source }),
    }
}

pub fn write(name: &str, value: &str) -> Result<(), Error> {
    fs::write(Path::new("/proc/sys").join(name), value).map_err(|source| Error {
        doing: format!("set the kernel setting {name} to {value}"),
        source,
    })
}

/// Sets what the namespaces of this process have of it. Nothing but the kernel's own file is
/// written to: no link is followed, and both the folder and the file must be procfs
/// (CVE-2025-52881).
pub fn set(name: &Name, value: &str) -> io::Result<()> {
    let root = Root::open(Path::new("/"))?;
    set_below(&root, name, value)
}

/// The same through the `/proc` of this root.
pub fn set_below(root: &Root, name: &Name, value: &str) -> io::Result<()> {
    let file = root.open_plain_to_write(&format!("/proc/sys/{}", name.path()))?;
    if !crate::mounts::is_proc(&file)? {
        return Err(io::Error::other("it is not in the kernel's /proc"));
    }
    fs::File::from(file).write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_procfs_is_written() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("proc/sys/net")).unwrap();
        fs::write(directory.path().join("proc/sys/net/x"), "as it was").unwrap();
        let root = Root::open(directory.path()).unwrap();
        let err = set_below(&root, &Name::parse("net.x").unwrap(), "1").unwrap_err();
        assert!(err.to_string().contains("not in the kernel's /proc"), "{err}");
        let left = fs::read_to_string(directory.path().join("proc/sys/net/x")).unwrap();
        assert_eq!(left, "as it was");
    }
}
