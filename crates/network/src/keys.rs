//! The key by which a node that encrypts is known. Made once, kept in a file that only its owner
//! reads; who deletes the file gets a new key at the next start.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use aws_lc_rs::agreement::{PrivateKey as Generated, X25519};
use aws_lc_rs::encoding::{AsBigEndian as _, Curve25519SeedBin};
use linux::netlink::wireguard::{Key, PrivateKey};

/// In the folder of the network.
pub(crate) const FILE: &str = "wireguard.key";
const FILE_NEW: &str = "wireguard.new";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read the node's key from {0}")]
    Read(String, #[source] io::Error),
    #[error("write the node's key to {0}")]
    Write(String, #[source] io::Error),
    #[error("{0} is no key: 32 bytes are; delete it, and a new one is made")]
    NoKey(String),
    #[error("make a key for the node")]
    Make,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) private: PrivateKey,
    pub(crate) public: Key,
}

/// Makes one where there is none yet.
pub(crate) fn load(directory: &Path) -> Result<Keys, Error> {
    let path = directory.join(FILE);
    let shown = || path.display().to_string();
    let mut bytes = Vec::new();
    match fs::File::open(&path) {
        Ok(file) => {
            file.take(64).read_to_end(&mut bytes).map_err(|err| Error::Read(shown(), err))?;
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            bytes = generate().ok_or(Error::Make)?;
            write(directory, &bytes).map_err(|err| Error::Write(shown(), err))?;
        }
        Err(err) => return Err(Error::Read(shown(), err)),
    }
    of(&bytes).ok_or_else(|| Error::NoKey(shown()))
}

fn of(bytes: &[u8]) -> Option<Keys> {
    let bytes: [u8; 32] = bytes.try_into().ok()?;
    let generated = Generated::from_private_key(&X25519, &bytes).ok()?;
    let public = generated.compute_public_key().ok()?;
    let public = Key(public.as_ref().try_into().ok()?);
    Some(Keys { private: PrivateKey::clamped(bytes), public })
}

fn generate() -> Option<Vec<u8>> {
    let generated = Generated::generate(&X25519).ok()?;
    let seed: Curve25519SeedBin<'_> = generated.as_be_bytes().ok()?;
    Some(seed.as_ref().to_vec())
}

/// Whole or not at all, and on the disk before anybody is told of it.
fn write(directory: &Path, bytes: &[u8]) -> Result<(), io::Error> {
    fs::create_dir_all(directory)?;
    let new = directory.join(FILE_NEW);
    match fs::remove_file(&new) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, directory.join(FILE))
}

/// As if there never was one.
pub(crate) fn remove(directory: &Path) -> Result<(), io::Error> {
    for name in [FILE, FILE_NEW] {
        match fs::remove_file(directory.join(name)) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("network");
        let keys = load(&directory).unwrap();
        assert_eq!(load(&directory).unwrap(), keys);
        let mode = fs::metadata(directory.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        remove(&directory).unwrap();
        remove(&directory).unwrap();
        assert_ne!(load(&directory).unwrap().public, keys.public);
    }

    /// As computed by the formulas of RFC 7748 5 in another language.
    #[test]
    fn the_public_key_follows_from_the_private_one() {
        let private: Vec<u8> = (1..=32).collect();
        let keys = of(&private).unwrap();
        assert_eq!(keys.public.0[..8], [0x07, 0xa3, 0x7c, 0xbc, 0x14, 0x20, 0x93, 0xc8]);
        assert_eq!(keys.public.0[28..], [0xb8, 0x6d, 0x1c, 0x7c]);
        assert_eq!(keys.private, PrivateKey::clamped(private.try_into().unwrap()));
    }

    #[test]
    fn what_is_no_key_is_an_error_that_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(FILE), "short").unwrap();
        let err = load(root.path()).unwrap_err();
        assert!(err.to_string().contains("wireguard.key is no key"), "{err}");
    }
}
