//! `holder.json`: which process the sandbox's holder is. There since version 2; written by the
//! holder before it does anything else, or by the `xebec` that meets an older one.

use linux::process::Identity;
use serde::{Deserialize, Serialize};

use super::Record;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HolderRecord {
    pid: i32,
    start_time: u64,
    boot: String,
}

impl Record for HolderRecord {
    const FILE: &'static str = "holder.json";
}

impl From<Identity> for HolderRecord {
    fn from(Identity { pid, start_time, boot }: Identity) -> Self {
        Self { pid, start_time, boot }
    }
}

impl From<HolderRecord> for Identity {
    fn from(HolderRecord { pid, start_time, boot }: HolderRecord) -> Self {
        Self { pid, start_time, boot }
    }
}
