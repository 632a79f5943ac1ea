//! What must outlive the process: who has which address and host ports, and what kernel settings were before us.
//!
//! One file, replaced as a whole, so that it is either the old or the new one whenever we are killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use node_api::network::HostPort;
use node_api::{PodRef, SandboxId};
use serde::{Deserialize, Serialize};

const FILE: &str = "network.json";
const FILE_NEW: &str = "network.json.new";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Records {
    /// The address that was given last.
    pub(crate) last: Option<Ipv4Addr>,
    pub(crate) sandboxes: BTreeMap<SandboxId, Record>,
    /// Kernel settings that we changed, as they were before.
    pub(crate) settings_before: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pod: PodRef,
    pub(crate) address: Ipv4Addr,
    pub(crate) host_ports: Vec<HostPort>,
}

/// The folder of the file.
#[derive(Clone, Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Makes the folder if it is missing; nothing is recorded then.
    pub(crate) fn load(&self) -> Result<Records, node_api::Error> {
        let path = self.0.join(FILE);
        let doing = || format!("read the pod addresses in use from {}", path.display());
        fs::create_dir_all(&self.0).map_err(|err| node_api::Error::node(doing(), err))?;
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|err| node_api::Error::node(doing(), err))
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Records::default()),
            Err(err) => Err(node_api::Error::node(doing(), err)),
        }
    }

    pub(crate) fn save(&self, records: &Records) -> Result<(), node_api::Error> {
        let write = || -> Result<(), io::Error> {
            let bytes = serde_json::to_vec_pretty(records)?;
            let new = self.0.join(FILE_NEW);
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            fs::rename(&new, self.0.join(FILE))?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|err| {
            let doing = format!("write the pod addresses in use to {}", self.0.display());
            node_api::Error::node(doing, err)
        })
    }

    /// Removes the files, and the folder if nothing else is in it.
    pub(crate) fn remove(&self) -> Result<(), node_api::Error> {
        let gone = |result: Result<(), io::Error>, path: &Path| match result {
            Err(err)
                if !matches!(
                    err.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(node_api::Error::node(format!("remove {}", path.display()), err))
            }
            _ => Ok(()),
        };
        for path in [self.0.join(FILE_NEW), self.0.join(FILE)] {
            gone(fs::remove_file(&path), &path)?;
        }
        gone(fs::remove_dir(&self.0), &self.0)
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
        let directory = Directory(root.path().join("a/b"));
        assert_eq!(directory.load().unwrap(), Records::default());
        let host_port = HostPort {
            protocol: Protocol::Udp,
            host_address: Some(Ipv4Addr::LOCALHOST.into()),
            host_port: 53,
            container_port: 5353,
        };
        let pod = PodRef { namespace: "a".into(), name: "b".into(), uid: PodUid::new("c") };
        let address = Ipv4Addr::new(10, 0, 0, 2);
        let record = Record { pod, address, host_ports: vec![host_port] };
        let records = Records {
            last: Some(address),
            sandboxes: BTreeMap::from([(SandboxId::new("s"), record)]),
            settings_before: BTreeMap::from([("net/x".into(), "0".into())]),
        };
        directory.save(&records).unwrap();
        assert_eq!(directory.load().unwrap(), records);
        directory.remove().unwrap();
        assert!(!directory.0.exists());
        directory.remove().unwrap();
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(FILE), "{").unwrap();
        let err = Directory(root.path().into()).load().unwrap_err();
        assert!(err.to_string().contains(FILE), "{err}");
    }

    #[test]
    fn what_a_killed_write_left_is_ignored() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(FILE_NEW), "{").unwrap();
        let directory = Directory(root.path().into());
        assert_eq!(directory.load().unwrap(), Records::default());
        directory.save(&Records::default()).unwrap();
        assert!(!root.path().join(FILE_NEW).exists());
    }
}
