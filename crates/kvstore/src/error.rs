//! What an engine can answer instead of a result.

use crate::Revision;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("revision {requested} has been compacted (oldest retained: {oldest})", requested = requested.0, oldest = oldest.0)]
    Compacted { requested: Revision, oldest: Revision },
    #[error("revision {requested} is in the future (current: {current})", requested = requested.0, current = current.0)]
    Future { requested: Revision, current: Revision },
    #[error("the store is read-only: {why}")]
    ReadOnly { why: String },
    #[error("the store is closed")]
    Closed,
    #[error("{doing}")]
    Io {
        doing: &'static str,
        #[source]
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
}
