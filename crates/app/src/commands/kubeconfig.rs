//! `xebec kubeconfig`: the administrator's kubeconfig of a cluster, on standard output.

use anyhow::{Context as _, Result};

use crate::cluster::Selection;
use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let path = flags.selection.find()?.join("kubeconfig");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    say(text.trim_end());
    Ok(())
}
