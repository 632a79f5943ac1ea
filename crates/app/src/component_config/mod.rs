//! Upstream's configuration files of components, as tables: every field that upstream has is a line
//! with its default, and says whether we honor it.
//!
//! Promise: what is read is what will be. A field that nobody has is refused, and so is one that we
//! do not honor when it asks for something else than its default; all such are told at once, by
//! their paths.

mod document;
mod fields;
mod form;
pub(crate) mod kubelet;
pub(crate) mod proxy;

#[cfg(test)]
mod tests;

use serde::Deserialize;

pub(crate) use document::{Document, Error};
pub(crate) use fields::Kind;

/// Both kinds have it.
#[derive(Debug, Deserialize)]
pub(crate) struct Logging {
    pub(crate) format: String,
    verbosity: i64,
}

impl Logging {
    /// As `-v`.
    pub(crate) fn verbosity(&self) -> u8 {
        u8::try_from(self.verbosity.max(0)).unwrap_or(u8::MAX)
    }
}
