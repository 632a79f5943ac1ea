//! How the certificates of a node are kept: as `NAME.crt` and `NAME.key`, or as upstream's kubelet
//! keeps them: each with its key in a file of its date, and a link to the current one.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use authn::pki::Identity;
use jiff::Timestamp;

use super::Purpose;
use crate::data_dir::{make_private, write_private};
use crate::pki_files::{read_pair, remove_pair, write_pair};

const CURRENT: &str = "current";
/// The link on its way.
const UPDATED: &str = "updated";
const DATE: &str = "%Y-%m-%d-%H-%M-%S";
/// Of one name, beside the current one.
const OLD_MAX: usize = 1;

#[derive(Clone, Debug)]
pub(crate) enum Storage {
    Pairs(PathBuf),
    Dated(PathBuf),
}

impl Storage {
    pub(super) fn load(&self, purpose: &Purpose) -> Result<Option<Identity>> {
        match self {
            Self::Pairs(folder) => read_pair(folder, purpose.file()),
            Self::Dated(folder) => read_dated(&current(folder, purpose)),
        }
    }

    pub(super) fn save(
        &self,
        purpose: &Purpose,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<()> {
        match self {
            Self::Pairs(folder) => write_pair(folder, purpose.file(), identity),
            Self::Dated(folder) => write_dated(folder, name(purpose), identity, now),
        }
    }

    pub(super) fn forget(&self, purpose: &Purpose) -> Result<()> {
        match self {
            Self::Pairs(folder) => remove_pair(folder, purpose.file()),
            Self::Dated(folder) => remove(&current(folder, purpose)),
        }
    }
}

/// The link to the one in use, as kubeconfigs name it.
pub(crate) fn current(folder: &Path, purpose: &Purpose) -> PathBuf {
    of(folder, name(purpose), CURRENT)
}

/// As upstream calls it.
fn name(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Serving(_) => "kubelet-server",
        Purpose::Kubelet | Purpose::Component(..) => purpose.file(),
    }
}

fn of(folder: &Path, name: &str, what: &str) -> PathBuf {
    folder.join(format!("{name}-{what}.pem"))
}

fn read_dated(path: &Path) -> Result<Option<Identity>> {
    match fs::read_to_string(path) {
        // Whoever reads either of them finds it among the other.
        Ok(pem) => Ok(Some(Identity { certificate_pem: pem.clone(), private_key_pem: pem })),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err).with_context(|| format!("reading {}", path.display())),
    }
}

fn write_dated(folder: &Path, name: &str, identity: &Identity, now: Timestamp) -> Result<()> {
    make_private(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = of(folder, name, &now.strftime(DATE).to_string());
    let pem = format!("{}{}", identity.certificate_pem, identity.private_key_pem);
    write_private(&path, pem.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    let (current, updated) = (of(folder, name, CURRENT), of(folder, name, UPDATED));
    if fs::symlink_metadata(&current).is_ok_and(|it| !it.is_symlink()) {
        bail!("{} is a file and no symbolic link: remove it", current.display());
    }
    remove(&updated)?;
    symlink(&path, &updated)
        .and_then(|()| fs::rename(&updated, &current))
        .with_context(|| format!("linking {}", current.display()))?;
    remove_old(folder, name, &path)
}

/// Short lives would fill the directory otherwise, which upstream lets them.
fn remove_old(folder: &Path, name: &str, current: &Path) -> Result<()> {
    let doing = || format!("reading {}", folder.display());
    let mut old: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).with_context(doing)? {
        let path = entry.with_context(doing)?.path();
        if path != current && is_dated(&path, name) {
            old.push(path);
        }
    }
    old.sort();
    old.iter().rev().skip(OLD_MAX).try_for_each(|it| remove(it))
}

/// `NAME-YYYY-MM-DD-hh-mm-ss.pem`
fn is_dated(path: &Path, name: &str) -> bool {
    let file = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let date = file.strip_prefix(name).and_then(|it| it.strip_prefix('-')?.strip_suffix(".pem"));
    let is_date = |it: &str| {
        it.len() == "YYYY-MM-DD-hh-mm-ss".len()
            && it.bytes().all(|it| it == b'-' || it.is_ascii_digit())
    };
    date.is_some_and(is_date)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            Err(err).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use authn::pki::{Authority, Rotating};
    use jiff::{SignedDuration, Timestamp};
    use stdx::Random;

    use super::{Purpose, Storage, current};

    #[test]
    fn certificates_are_kept_as_upstreams_kubelet_keeps_them() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("pki");
        let storage = Storage::Dated(folder.clone());
        assert!(storage.load(&Purpose::Kubelet).unwrap().is_none());
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let random = Random::from_seed(1);
        let authority = Authority::create("a", start, &random).unwrap();
        let mut last = String::new();
        for hours in 0..4 {
            let now = start + SignedDuration::from_hours(hours);
            let identity = authority.issue_client("b", &["system:nodes"], now, &random).unwrap();
            storage.save(&Purpose::Kubelet, &identity, now).unwrap();
            last = format!("{}{}", identity.certificate_pem, identity.private_key_pem);
        }
        fs::write(folder.join("kubelet-client-mine.pem"), "kept").unwrap();
        let link = current(&folder, &Purpose::Kubelet);
        let target = folder.join("kubelet-client-2026-01-02-06-04-05.pem");
        assert_eq!(fs::read_link(&link).unwrap(), target);
        assert_eq!(fs::read_to_string(&link).unwrap(), last);
        let loaded = storage.load(&Purpose::Kubelet).unwrap().unwrap();
        assert!(Rotating::new(&loaded).is_ok() && loaded.not_after().is_ok());
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = ["2026-01-02-05-04-05", "2026-01-02-06-04-05", "current", "mine"];
        assert_eq!(names, expected.map(|it| format!("kubelet-client-{it}.pem")));
        // What somebody put in the place of the link is theirs.
        fs::remove_file(&link).unwrap();
        fs::write(&link, "mine").unwrap();
        let identity = authority.issue_client("b", &[], start, &random).unwrap();
        let refused = storage.save(&Purpose::Kubelet, &identity, start).unwrap_err().to_string();
        assert!(refused.contains("no symbolic link"), "{refused}");
    }
}
