//! `exit.json` and `started.json`: what became of a container. Written by its holder; where a
//! container got no process, by `xebec`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Record;

/// As [`node_api::containers::Exit`]. Also what a holder tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) oom_killed: bool,
    pub(crate) started: Option<Timestamp>,
    pub(crate) finished: Timestamp,
    pub(crate) message: Option<String>,
}

impl Record for Exit {
    const FILE: &'static str = "exit.json";
}

/// There since version 2, for those who cannot ask the holder. It stays when the container has
/// exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedRecord {
    pub(crate) started: Timestamp,
}

impl Record for StartedRecord {
    const FILE: &'static str = "started.json";
}
