//! What can be wrong with a log, and how it is told: which file, which byte, what goes on after it.

use std::io;

use bytes::Bytes;

use super::frame::Kind;

/// Why bytes are not the frame that should be there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the file ends within a frame")]
    Cut,
    #[error("a frame claims to be longer than any is written")]
    Length,
    #[error("the check of a frame does not match")]
    Check,
    #[error("a frame does not follow the one before it")]
    Chain,
    #[error("a frame is of format {version}, which is newer than this program")]
    Newer { version: u8 },
    #[error("a frame is of kind {kind}, which this program does not know")]
    Kind { kind: u8 },
    #[error("the segment ends before what was synced of it")]
    Short,
    #[error("the segment does not begin with a checkpoint")]
    Begin,
    #[error("the segment that should follow is missing")]
    Missing,
    #[error("the file is larger than a segment can be")]
    TooLarge,
    #[error("a frame cannot be understood: {why}")]
    Body { why: String },
}

/// Stored bytes are not what was stored. Never repaired by guessing, and never served.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {fault}")]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub fault: Fault,
    /// The next frame that can be read, so that a reader of bodies can tell what lies between.
    pub next: Option<(Kind, Bytes)>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("{file} was written by a newer version (format {version})")]
    Newer { file: String, version: u8 },
    #[error("cannot read the log: {doing} {file}")]
    Io {
        doing: &'static str,
        file: String,
        #[source]
        source: io::Error,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The segment was rewritten, and whoever rewrote it has let go of the old one: look the place
    /// up again.
    #[error("the place is in a segment that was replaced")]
    Moved,
    #[error("cannot read {file}")]
    Io {
        file: String,
        #[source]
        source: io::Error,
    },
}

impl Damage {
    pub(super) fn new(file: String, offset: usize, fault: Fault) -> Self {
        Self { file, offset: offset as u64, fault, next: None }
    }
}
