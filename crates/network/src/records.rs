//! What must outlive the process: who has which address and host ports, and what kernel settings
//! were before us.
//!
//! One file, replaced as a whole, so that it is either the old or the new one whenever we are
//! killed. It is not forced to the disk, which takes long on a busy one: nothing that it speaks of
//! outlives the machine's reboot. Its name is of one boot, so that what a power failure left of it
//! is never read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use node_api::network::HostPort;
use node_api::{PodRef, SandboxId};
use serde::{Deserialize, Deserializer, Serialize};
use stdx::Family;

use crate::keys;
use crate::links::Kind;

const FILE_START: &str = "addresses-";
const NEW: &str = "new";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Records {
    /// The addresses that were given last, one of each family.
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) last: Vec<IpAddr>,
    pub(crate) sandboxes: BTreeMap<SandboxId, Record>,
    /// Kernel settings that we changed, as they were before.
    pub(crate) settings_before: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pod: PodRef,
    /// At most one of each family. (One alone was `address` before there were two.)
    #[serde(alias = "address", deserialize_with = "one_or_many")]
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) host_ports: Vec<HostPort>,
    /// How it is joined to the node.
    #[serde(default)]
    pub(crate) kind: Kind,
}

impl Records {
    pub(crate) fn last(&self, family: Family) -> Option<IpAddr> {
        self.last.iter().copied().find(|it| Family::of(*it) == family)
    }

    /// It is the last one of its family now.
    pub(crate) fn set_last(&mut self, address: IpAddr) {
        self.last.retain(|it| Family::of(*it) != Family::of(address));
        self.last.push(address);
    }
}

impl Record {
    /// The host's end of its link.
    pub(crate) fn link(&self, sandbox: &SandboxId) -> String {
        self.kind.name(sandbox, &self.pod)
    }

    pub(crate) fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|it| Family::of(*it) == family)
    }
}

/// Where there was one address, or none, before there were two.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Many(Vec<IpAddr>),
        One(Option<IpAddr>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Many(addresses) => addresses,
        Written::One(address) => address.into_iter().collect(),
    })
}

/// The folder of the file.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    file: PathBuf,
}

impl Directory {
    /// `boot` is what the kernel calls the time since it started.
    pub(crate) fn new(path: PathBuf, boot: &str) -> Self {
        let file = path.join(format!("{FILE_START}{boot}.json"));
        Self { path, file }
    }

    /// Makes the folder if it is missing; nothing is recorded then. Removes the files of other
    /// boots.
    pub(crate) fn load(&self) -> Result<Records, node_api::Error> {
        let doing = || format!("read the pod addresses in use from {}", self.file.display());
        fs::create_dir_all(&self.path).map_err(|err| node_api::Error::node(doing(), err))?;
        for file in self.files()?.into_iter().filter(|it| *it != self.file) {
            remove(fs::remove_file(&file), &file)?;
        }
        match fs::read(&self.file) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|err| node_api::Error::node(doing(), err))
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Records::default()),
            Err(err) => Err(node_api::Error::node(doing(), err)),
        }
    }

    pub(crate) fn save(&self, records: &Records) -> Result<(), node_api::Error> {
        let write = || -> Result<(), io::Error> {
            let new = self.file.with_extension(NEW);
            fs::write(&new, serde_json::to_vec_pretty(records)?)?;
            fs::rename(&new, &self.file)
        };
        write().map_err(|err| {
            let doing = format!("write the pod addresses in use to {}", self.file.display());
            node_api::Error::node(doing, err)
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files, and the folder if nothing else is in it.
    pub(crate) fn remove(&self) -> Result<(), node_api::Error> {
        for file in self.files()? {
            remove(fs::remove_file(&file), &file)?;
        }
        keys::remove(&self.path)
            .map_err(|err| node_api::Error::node("remove the key of this node", err))?;
        remove(fs::remove_dir(&self.path), &self.path)
    }

    /// Ours, of this boot and others, whole or half-written.
    fn files(&self) -> Result<Vec<PathBuf>, node_api::Error> {
        let list = || -> Result<Vec<PathBuf>, io::Error> {
            let mut files = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(FILE_START) {
                    files.push(entry.path());
                }
            }
            Ok(files)
        };
        match list() {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            result => result
                .map_err(|err| node_api::Error::node(format!("list {}", self.path.display()), err)),
        }
    }
}

fn remove(result: Result<(), io::Error>, path: &Path) -> Result<(), node_api::Error> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound};
    match result {
        Err(err) if !matches!(err.kind(), NotFound | DirectoryNotEmpty) => {
            Err(node_api::Error::node(format!("remove {}", path.display()), err))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_api::PodUid;
    use node_api::network::Protocol;

    #[test]
    fn what_was_saved_is_loaded() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::new(root.path().join("a/b"), "boot");
        assert_eq!(directory.load().unwrap(), Records::default());
        let host_port = HostPort {
            protocol: Protocol::Udp,
            host_address: Some("127.0.0.1".parse().unwrap()),
            host_port: 53,
            container_port: 5353,
        };
        let pod = PodRef { namespace: "a".into(), name: "b".into(), uid: PodUid::new("c") };
        let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let (host_ports, kind) = (vec![host_port], Kind::Routed);
        let record = Record { pod, addresses: addresses.clone(), host_ports, kind };
        let records = Records {
            last: addresses,
            sandboxes: BTreeMap::from([(SandboxId::new("s"), record)]),
            settings_before: BTreeMap::from([("net/x".into(), "0".into())]),
        };
        directory.save(&records).unwrap();
        assert_eq!(directory.load().unwrap(), records);
        directory.remove().unwrap();
        assert!(!directory.path.exists());
        directory.remove().unwrap();
    }

    #[test]
    fn what_was_written_before_there_were_two_families_is_read() {
        let pod = r#"{"namespace": "a", "name": "b", "uid": "c"}"#;
        let check = |last: &str, expected: &[&str]| {
            let text = format!(
                r#"{{"last": {last}, "settings_before": {{}}, "sandboxes": {{
                    "s": {{"pod": {pod}, "address": "10.0.0.2", "host_ports": []}}}}}}"#
            );
            let records: Records = serde_json::from_str(&text).unwrap();
            let shown: Vec<_> = records.last.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected);
            let record = &records.sandboxes[&SandboxId::new("s")];
            assert_eq!(record.address(Family::V4), Some("10.0.0.2".parse().unwrap()));
            assert_eq!(record.address(Family::V6), None);
            assert_eq!(record.kind, Kind::Gateway);
        };
        check("null", &[]);
        check(r#""10.0.0.7""#, &["10.0.0.7"]);
    }

    #[test]
    fn the_last_address_is_kept_per_family() {
        let mut records = Records::default();
        for address in ["10.0.0.2", "fd00::2", "10.0.0.3"] {
            records.set_last(address.parse().unwrap());
        }
        assert_eq!(records.last(Family::V4), Some("10.0.0.3".parse().unwrap()));
        assert_eq!(records.last(Family::V6), Some("fd00::2".parse().unwrap()));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("addresses-1.json"), "{").unwrap();
        let err = Directory::new(root.path().into(), "1").load().unwrap_err();
        assert!(err.to_string().contains("addresses-1.json"), "{err}");
    }

    #[test]
    fn what_another_boot_or_a_killed_write_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for file in ["addresses-1.json", "addresses-1.new", "addresses-2.new"] {
            fs::write(root.path().join(file), "{").unwrap();
        }
        fs::write(root.path().join("of somebody else"), "").unwrap();
        let directory = Directory::new(root.path().into(), "2");
        assert_eq!(directory.load().unwrap(), Records::default());
        directory.save(&Records::default()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        directory.remove().unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
