//! Kernel settings below `/proc/sys`.
//!
//! Those of the network are the ones of the calling thread's network namespace.

use std::path::Path;
use std::{fs, io};

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    pub doing: String,
    #[source]
    pub source: io::Error,
}

/// The value, or `None` if this kernel has no such setting. Names are written with slashes: `net/ipv4/ip_forward`.
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
