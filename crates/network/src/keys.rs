//! The key by which a node that encrypts is known, kept in a file that only its owner reads. When it
//! is old another one is made; who deletes the file gets a new key at the next start.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_lc_rs::agreement::{PrivateKey as Generated, X25519};
use aws_lc_rs::encoding::{AsBigEndian as _, Curve25519SeedBin};
use linux::netlink::wireguard::{Key, PrivateKey};

/// In the folder of the network.
pub(crate) const FILE: &str = "wireguard.key";
const FILE_NEW: &str = "wireguard.new";
/// An older key is replaced.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

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

/// The key, a new one if that of now is old; and when it will be. The time of the file says how old.
pub(crate) fn renew(directory: &Path, now: SystemTime) -> Result<(Keys, Duration), Error> {
    let path = directory.join(FILE);
    let shown = || path.display().to_string();
    let made = match fs::metadata(&path).and_then(|it| it.modified()) {
        Ok(made) => made,
        Err(err) if err.kind() == io::ErrorKind::NotFound => SystemTime::UNIX_EPOCH,
        Err(err) => return Err(Error::Read(shown(), err)),
    };
    // Of a file from the future nobody knows how old it is.
    let age = now.duration_since(made).unwrap_or_default();
    if let Some(due) = AGE_MAX.checked_sub(age).filter(|it| !it.is_zero()) {
        return Ok((load(directory)?, due));
    }
    let bytes = generate().ok_or(Error::Make)?;
    write(directory, &bytes).map_err(|err| Error::Write(shown(), err))?;
    let keys = of(&bytes).ok_or_else(|| Error::NoKey(shown()))?;
    Ok((keys, AGE_MAX))
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

    #[test]
    fn an_old_key_is_replaced_and_a_young_one_stays() {
        let root = tempfile::tempdir().unwrap();
        let first = load(root.path()).unwrap();
        let made = fs::metadata(root.path().join(FILE)).unwrap().modified().unwrap();
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(renew(root.path(), made - day).unwrap(), (first.clone(), AGE_MAX));
        assert_eq!(renew(root.path(), made + day).unwrap(), (first.clone(), AGE_MAX - day));
        let (second, due) = renew(root.path(), made + AGE_MAX).unwrap();
        assert_eq!((second != first, due), (true, AGE_MAX));
        assert_eq!(load(root.path()).unwrap(), second);
        remove(root.path()).unwrap();
        assert_ne!(renew(root.path(), made).unwrap().0, second);
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
