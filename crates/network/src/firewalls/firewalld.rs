//! Firewalld, where it lets nobody else change its table: pods' addresses are sources of its zone
//! `trusted`, whose packets it accepts. Asked by its own program, until it is started again or loads
//! its configuration anew: then it is asked again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use linux::network_namespace::NetworkNamespace;
use stdx::Cidr;

use super::programs::{self, Error};

/// Of its table.
pub(super) const TABLE: &str = "firewalld";
pub(super) const PROGRAM: &str = "firewall-cmd";
/// Which ranges are sources because of us, in the folder of the network.
const FILE: &str = "firewalld.json";

pub(super) struct Zone {
    program: PathBuf,
    file: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ZoneError {
    #[error(transparent)]
    Program(#[from] Error),
    #[error("write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
}

impl Zone {
    pub(super) fn new(program: &Path, directory: &Path) -> Self {
        Self { program: program.to_owned(), file: directory.join(FILE) }
    }

    pub(super) fn trust(
        &self,
        namespace: &NetworkNamespace,
        pods: &[Cidr],
    ) -> Result<(), ZoneError> {
        for range in pods {
            if self.is_source(namespace, *range)? {
                continue;
            }
            // Before it is done, so that it is undone whatever happens in between.
            let mut ours = self.ours();
            if ours.insert(*range) {
                self.write(&ours)?;
            }
            self.change(namespace, "add", *range)?;
        }
        Ok(())
    }

    /// What was a source before us stays one.
    pub(super) fn purge(&self, namespace: &NetworkNamespace) -> Result<(), ZoneError> {
        let ours = self.ours();
        if ours.is_empty() {
            return Ok(());
        }
        for range in &ours {
            match self.is_source(namespace, *range) {
                // Who has no such program any more has no such zone.
                Err(Error::Missing(_)) | Ok(false) => {}
                Err(err) => return Err(err.into()),
                Ok(true) => self.change(namespace, "remove", *range)?,
            }
        }
        let removed = fs::remove_file(&self.file);
        removed.map_err(|source| ZoneError::Write { file: self.file.clone(), source })
    }

    /// What somebody who does it by hand types.
    pub(super) fn advice(pods: &[Cidr]) -> String {
        let of = |it: &Cidr| format!("{PROGRAM} --permanent --zone=trusted --add-source={it}");
        let commands: Vec<_> = pods.iter().map(of).collect();
        format!("{} && {PROGRAM} --reload", commands.join(" && "))
    }

    fn is_source(&self, namespace: &NetworkNamespace, range: Cidr) -> Result<bool, Error> {
        let query = format!("--query-source={range}");
        match programs::run(namespace, &self.program, &["--zone=trusted", &query], "") {
            Ok(_) => Ok(true),
            // It answers and fails.
            Err(Error::Refused { complaint, .. }) if complaint == "no" => Ok(false),
            Err(err) => Err(err),
        }
    }

    fn change(&self, namespace: &NetworkNamespace, verb: &str, range: Cidr) -> Result<(), Error> {
        let change = format!("--{verb}-source={range}");
        programs::run(namespace, &self.program, &["--zone=trusted", &change], "").map(drop)
    }

    /// None, if it cannot be read.
    fn ours(&self) -> BTreeSet<Cidr> {
        let bytes = fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn write(&self, ours: &BTreeSet<Cidr>) -> Result<(), ZoneError> {
        let write = || {
            if let Some(folder) = self.file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&self.file, serde_json::to_vec(ours)?)
        };
        write().map_err(|source| ZoneError::Write { file: self.file.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// One that keeps its sources in a file.
    const FIREWALL: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
touch sources
case "$2" in
--query-source=*) grep -qx "${2#*=}" sources && echo yes || { echo no; exit 1; } ;;
--add-source=*) echo "${2#*=}" >> sources; echo success ;;
--remove-source=*) grep -vx "${2#*=}" sources > left; mv left sources; echo success ;;
esac
"#;

    fn ranges() -> [Cidr; 2] {
        ["10.244.0.0/16", "fd00:10:244::/56"].map(|it| it.parse().unwrap())
    }

    #[test]
    fn pods_are_sources_of_the_zone_until_purge_and_what_was_one_before_stays() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join(PROGRAM);
        fs::write(&program, FIREWALL).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let sources = || fs::read_to_string(root.path().join("sources")).unwrap_or_default();
        fs::write(root.path().join("sources"), "192.0.2.0/24\n10.244.0.0/16\n").unwrap();
        let directory = root.path().join("network");
        let zone = Zone::new(&program, &directory);
        let namespace = NetworkNamespace::current().unwrap();
        zone.purge(&namespace).unwrap();
        for _ in 0..2 {
            zone.trust(&namespace, &ranges()).unwrap();
            assert_eq!(sources(), "192.0.2.0/24\n10.244.0.0/16\nfd00:10:244::/56\n");
        }
        zone.purge(&namespace).unwrap();
        assert_eq!(sources(), "192.0.2.0/24\n10.244.0.0/16\n");
        assert!(!directory.join(FILE).exists());
    }

    #[test]
    fn without_the_program_that_is_said_and_purging_is_possible() {
        let root = tempfile::tempdir().unwrap();
        let zone = Zone::new(Path::new("/nowhere/firewall-cmd"), root.path());
        let namespace = NetworkNamespace::current().unwrap();
        let err = zone.trust(&namespace, &ranges()).unwrap_err();
        assert!(err.to_string().contains("firewall-cmd is not there"), "{err}");
        zone.write(&ranges().into()).unwrap();
        zone.purge(&namespace).unwrap();
        let expected = "firewall-cmd --permanent --zone=trusted --add-source=10.244.0.0/16 && firewall-cmd --reload";
        assert_eq!(Zone::advice(&ranges()[..1]), expected);
    }
}
