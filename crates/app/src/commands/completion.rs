//! `xebec completion`: what a shell needs to complete commands and flags.

use anyhow::Result;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The shell to complete in
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// `command` is the whole of xebec's.
pub(crate) fn run(flags: &Flags, mut command: clap::Command) -> Result<()> {
    let name = command.get_name().to_owned();
    clap_complete::generate(flags.shell, &mut command, name, &mut std::io::stdout());
    Ok(())
}
