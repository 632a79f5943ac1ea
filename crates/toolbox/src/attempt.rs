//! `try`: does one thing that a container may be forbidden, and says what the kernel said.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

#[derive(clap::Args)]
pub(crate) struct Flags {
    what: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Give a file to another user
    Chown,
    /// Mount a file system
    Mount,
    /// Make a user namespace
    Unshare,
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    match flags.what {
        What::Chown => {
            std::fs::write("/tmp/theirs", "").context("writing /tmp/theirs")?;
            std::os::unix::fs::chown("/tmp/theirs", Some(1), Some(1)).context("chown")?;
        }
        What::Mount => {
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("none", "/tmp", "tmpfs", flags, None).context("mount")?;
        }
        What::Unshare => {
            linux::namespaces::unshare(linux::namespaces::Namespaces::USER).context("unshare")?;
        }
    }
    println!("allowed");
    Ok(ExitCode::SUCCESS)
}
