//! `xebec netpol`: what network policies say.

mod why;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say whether a pod may reach another one, and which rule or policies decide it
    Why(why::Flags),
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    match &flags.command {
        Command::Why(flags) => why::run(flags),
    }
}
