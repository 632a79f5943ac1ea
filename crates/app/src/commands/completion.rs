//! `xebec completion`: what a shell needs to complete commands and flags.

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The shell to complete in
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    /// To be sourced: `source <(xebec completion bash)`
    Bash,
    /// To be sourced: `xebec completion fish | source`
    Fish,
    /// To be sourced: `source <(xebec completion zsh)`
    Zsh,
}

/// `command` is the whole of xebec's.
pub(crate) fn run(flags: &Flags, mut command: clap::Command) -> Result<()> {
    let shell = match flags.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
    Ok(())
}
