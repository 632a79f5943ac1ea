//! `xebec store restore FILE`: a store from a snapshot. All of it is verified before anything is made.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kvstore::{Revision, embedded};

use crate::data_dir::DataDir;
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// A file that `xebec store snapshot` wrote
    file: PathBuf,
    /// The state at this revision and not the last one
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    if !flags.file.is_file() {
        bail!("there is no snapshot {}", flags.file.display());
    }
    let data = DataDir::open(directory)?;
    let store = data.store();
    let is_taken = std::fs::read_dir(&store).is_ok_and(|mut it| it.next().is_some());
    if is_taken {
        bail!(
            "{} has a store already: restore into another --data-dir, or move {} away",
            directory.display(),
            store.display()
        );
    }
    let restored = embedded::restore(&flags.file, &store, flags.revision.map(Revision))
        .with_context(|| format!("restoring {}", flags.file.display()))?;
    say(&format!("restored revision {} into {}", restored.0, directory.display()));
    Ok(())
}
