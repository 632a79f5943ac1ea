//! `cargo xtask test`: everything that must pass before a change lands, in the order that fails
//! fastest.

mod binaries;
mod runner;

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::{root, test_deps, tidy};

pub(crate) fn run_cargo(words: &[&str]) -> Result<()> {
    process::run(Command::new("cargo").args(words).current_dir(root()))
}

pub(crate) fn run() -> Result<()> {
    let tools = test_deps::install(&root())?;
    run_cargo(&["fmt", "--all", "--check"])?;
    tidy::run(&root())?;
    run_cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    let binaries = binaries::build(&root())?;
    runner::run(&binaries, &|command| {
        tools.export(command);
        // What could not be installed for them fails, and is not passed over.
        command.env("XEBEC_TEST_ALL_CLIENTS", "1");
    })
}

/// The suite that `cargo xtask test` runs against a cluster of ours, against any.
pub(crate) fn conformance(arguments: &[&str]) -> Result<()> {
    run_cargo(&[&["run", "--quiet", "--package", "conformance", "--"], arguments].concat())
}
