//! `xebec policy`: policies, before they are enforced.

mod check;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show which objects, and which writes of the past, would have been refused
    Check(check::Flags),
}

pub(crate) fn run(flags: Flags) -> Result<()> {
    match flags.command {
        Command::Check(flags) => check::run(&flags),
    }
}
