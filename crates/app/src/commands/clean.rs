//! `xebec clean`: removes what others have left on this machine that is no cluster of ours.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use network::leftovers::{self, Leftover};

use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// What other Kubernetes and their pod networks have left here: chains and tables of rules,
    /// ipsets, links and files, as far as their names say whose they were
    #[arg(long, required = true)]
    foreign: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Names of files are from here on.
const ROOT: &str = "/";

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let found = leftovers::find(Path::new(ROOT)).context("looking for what others left")?;
    if found.is_empty() {
        say("nothing of other clusters is here");
        return Ok(());
    }
    let owners = leftovers::owners().context("looking for programs of other clusters")?;
    let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
    if flags.dry_run {
        found.iter().for_each(|it| say(&format!("would remove {it}")));
        if !owners.is_empty() {
            say(&format!("but not while these run: {}", owners.join(", ")));
        }
        return Ok(());
    }
    if !owners.is_empty() {
        bail!(
            "this may be in use by {}: stop that first (`--dry-run` shows what would be removed)",
            owners.join(", ")
        );
    }
    remove(&found)
}

/// Goes on after a failure, and tells all.
fn remove(found: &[Leftover]) -> Result<()> {
    let mut problems = Vec::new();
    for it in found {
        match it.remove() {
            Ok(()) => say(&format!("removed {it}")),
            Err(err) => problems.push(format!("\n  - {it}: {}", stdx::error_chain(&err))),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("not everything could be removed:{}", problems.concat())
}
