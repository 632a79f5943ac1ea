//! From node-api's types to CRI's messages and back. Pure.

mod container;
mod sandbox;
mod stats;

pub(crate) use container::{actual, container, resources, state, update};
pub(crate) use sandbox::{addresses, sandbox};
pub(crate) use stats::{container_stats, filesystem, sandbox_stats};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where the configuration is kept: CRI gives annotations back, and not much else.
pub(crate) const RECORD: &str = "xebec.dev/config";
/// The label by which ours are told from others'.
pub(crate) const CLUSTER: &str = "xebec.dev/cluster";

/// Nanoseconds, as CRI counts them.
pub(crate) fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default()
}

pub(crate) fn record(config: &impl Serialize) -> String {
    serde_json::to_string(config).expect("plain types with names for keys are JSON")
}

/// `None`: not ours, or written by a version that we do not understand.
pub(crate) fn read_record<T: DeserializeOwned>(
    annotations: &std::collections::BTreeMap<String, String>,
) -> Option<T> {
    serde_json::from_str(annotations.get(RECORD)?).ok()
}

/// What nobody limits is 0 on the wire.
fn signed(number: Option<u64>) -> i64 {
    number.map_or(0, |it| i64::try_from(it).unwrap_or(i64::MAX))
}
