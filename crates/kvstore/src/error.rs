//! What an engine can answer instead of a result.

use std::sync::Arc;

use bytes::Bytes;

use crate::{LeaseId, Revision};

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("revision {requested} has been compacted (oldest retained: {oldest})", requested = requested.0, oldest = oldest.0)]
    Compacted { requested: Revision, oldest: Revision },
    #[error("revision {requested} is in the future (current: {current})", requested = requested.0, current = current.0)]
    Future { requested: Revision, current: Revision },
    #[error("key {key:?} is written twice in one transaction")]
    DuplicateKey { key: Bytes },
    #[error("key {key:?} does not exist, so it has no value or lease to keep")]
    KeyNotFound { key: Bytes },
    #[error("lease {:x} does not exist", id.0)]
    LeaseNotFound { id: LeaseId },
    #[error("lease {:x} exists already", id.0)]
    LeaseExists { id: LeaseId },
    #[error("{what} is too large: {size}, and at most {max} are allowed")]
    TooLarge { what: &'static str, size: usize, max: usize },
    /// Did not happen, unless it was under way when the disk failed and the process ends before the
    /// store can be written again.
    #[error("the store is read-only: {why}")]
    ReadOnly { why: String },
    /// Did not happen; may be tried again.
    #[error("the store cannot be reached: {why}")]
    Unavailable { why: String },
    /// The connection broke while the answer was under way, and what is stored does not tell.
    #[error("it is not known whether the write happened: {why}")]
    Uncertain { why: String },
    #[error("the store is closed")]
    Closed,
    #[error("{doing}")]
    Io {
        doing: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}
