//! `xebec store compact`: online or not.

use std::path::Path;

use anyhow::Result;

use super::unexpected;
use crate::datastore::socket::{Answer, Request};
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Forget what is older than this revision; without it, everything that is not current
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    match super::ask(directory, Request::Compact { through: flags.revision })? {
        Answer::Compacted { through } => {
            say(&format!("compacted: history before revision {through} is forgotten"));
            Ok(())
        }
        _ => Err(unexpected()),
    }
}
