//! `xebec store snapshot FILE`: online or not.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::unexpected;
use crate::datastore::amounts::render_size;
use crate::datastore::socket::{Answer, Request};
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// The file to write; it must not exist
    file: PathBuf,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    let file = std::path::absolute(&flags.file)
        .with_context(|| format!("finding {}", flags.file.display()))?;
    match super::ask(directory, Request::Snapshot { file: file.clone() })? {
        Answer::Snapshot(taken) => {
            let size = render_size(taken.bytes);
            say(&format!("snapshot of revision {} in {} ({size})", taken.revision, file.display()));
            Ok(())
        }
        _ => Err(unexpected()),
    }
}
