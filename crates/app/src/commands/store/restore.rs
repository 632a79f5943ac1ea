//! `xebec store restore FILE`: a store from a snapshot. All of it is verified before anything is
//! made. Revisions go on far after the snapshot's, so that no client takes what the old store told
//! it for something of the new one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kvstore::Revision;
use kvstore::embedded::{self, Restore};

use crate::data_dir::DataDir;
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// A file that `xebec store snapshot` wrote
    file: PathBuf,
    /// The state at this revision and not the last one
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    /// Go on so many revisions after the snapshot's newest one, with everything before compacted:
    /// clients that watched the old store list again. 0 restores exactly, history included, and
    /// gives revisions again that the old store may have given
    #[arg(long, value_name = "N", default_value_t = Restore::BUMP_DEFAULT)]
    bump_revision: u64,
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
    let wish = Restore { at: flags.revision.map(Revision), bump: flags.bump_revision };
    let restored = embedded::restore(&flags.file, &store, wish)
        .with_context(|| format!("restoring {}", flags.file.display()))?;
    let (at, revision) = (restored.at.0, restored.revision.0);
    say(&format!("restored revision {at} into {} as revision {revision}", directory.display()));
    Ok(())
}
