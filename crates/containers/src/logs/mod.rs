//! A container's log on disk, in the CRI format that kubelets and log collectors read:
//! `2026-11-16T00:00:00.000000000Z stdout F text`.
//!
//! Lines are cut apart purely ([`Lines`]); [`LogFile`] appends whole entries and rotates. A full
//! disk costs entries, never the container's progress.

mod file;
mod lines;

pub(crate) use file::LogFile;
pub(crate) use lines::{Lines, Stream};
