//! A container's record as it is kept in memory, with the configuration that everybody sees.

use std::path::PathBuf;

use jiff::Timestamp;
use node_api::containers::ContainerConfig;

use crate::records::ContainerRecord;

#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) config: ContainerConfig,
    pub(super) created: Timestamp,
    pub(super) stop_signal: i32,
    pub(super) cgroup: String,
    pub(super) layers: Vec<PathBuf>,
}

impl From<ContainerRecord> for Recorded {
    fn from(record: ContainerRecord) -> Self {
        let ContainerRecord { config, created, stop_signal, cgroup, layers } = record;
        Self { config: config.into(), created, stop_signal, cgroup, layers }
    }
}

impl From<Recorded> for ContainerRecord {
    fn from(recorded: Recorded) -> Self {
        let Recorded { config, created, stop_signal, cgroup, layers } = recorded;
        Self { config: config.into(), created, stop_signal, cgroup, layers }
    }
}
