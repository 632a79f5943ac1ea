//! What is on disk of one sandbox, and whether its holder lives. Only looks; blocks for a moment.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use node_api::{ContainerId, SandboxId};

use super::process::{Machine, Process};
use crate::records::{
    self, ContainerRecord, Exit, SandboxRecord, StartedRecord, Unreadable, Whose,
};

pub(super) struct Found {
    pub(super) id: SandboxId,
    pub(super) record: Result<Option<SandboxRecord>, Unreadable>,
    /// Whose it is, if that much can be read.
    pub(super) whose: Option<Whose>,
    pub(super) containers: io::Result<Vec<FoundContainer>>,
    /// `None`: it is dead.
    pub(super) holder: io::Result<Option<Process>>,
    /// A holder was started, or was about to be.
    pub(super) has_socket: bool,
}

pub(super) struct FoundContainer {
    pub(super) id: ContainerId,
    pub(super) record: Result<Option<ContainerRecord>, Unreadable>,
    pub(super) exit: Result<Option<Exit>, Unreadable>,
    pub(super) started: Option<Timestamp>,
}

pub(super) fn look(directory: &Path, id: SandboxId, machine: &Machine) -> Found {
    let record = records::read::<SandboxRecord>(directory);
    let whose = match &record {
        Ok(_) => None,
        Err(_) => records::read_loosely(directory),
    };
    Found {
        record,
        whose,
        containers: look_at_containers(&directory.join("containers")),
        holder: machine.holder(directory, &id),
        has_socket: directory.join("sock").symlink_metadata().is_ok(),
        id,
    }
}

fn look_at_containers(directory: &Path) -> io::Result<Vec<FoundContainer>> {
    let look = |name: String| {
        let directory = directory.join(&name);
        let started = records::read::<StartedRecord>(&directory).ok().flatten();
        FoundContainer {
            id: ContainerId::new(name),
            record: records::read(&directory),
            exit: records::read(&directory),
            started: started.map(|it| it.started),
        }
    };
    Ok(names(directory)?.into_iter().map(look).collect())
}

/// In their order, so that a history repeats.
pub(super) fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let names: io::Result<Vec<_>> = entries.map(|it| Ok(it?.file_name())).collect();
    let mut names: Vec<String> =
        names?.into_iter().filter_map(|it| it.into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Where it is.
pub(super) fn socket(directory: &Path) -> PathBuf {
    directory.join("sock")
}
