//! `cargo xtask diff extension`: what our API server and upstream's make of the same definitions,
//! custom objects, policies and webhook configurations.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::server::Server;
use crate::process::run;

const EXTENSION: &str = "crates/client/examples/extension";
/// Where the tests that have no upstream find what it answered.
const VERDICTS: &str = "crates/apiserver/tests/suite/extension/verdicts";

pub(crate) fn extension(root: &Path, arguments: &[&str]) -> Result<()> {
    let upstream = super::upstream_kubeconfig()?;
    let (mut filter, mut is_recorded) = ("", false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--case" => filter = arguments.next().context("--case needs a name")?,
            "--record" => is_recorded = true,
            other => anyhow::bail!("{other} is not known; there are --case NAME and --record"),
        }
    }
    let mut build = Command::new("cargo");
    let what = ["build", "-p", "app", "-p", "client", "--bin", "xebec", "--example", "extension"];
    run(build.args(what).current_dir(root))?;
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root.join(EXTENSION).join("cases"))?
        .map(|it| Ok(it?.path()))
        .collect::<Result<_>>()?;
    cases.retain(|it| it.to_string_lossy().contains(filter));
    cases.sort();
    let server = Server::start_alone(root)?;
    let mut extension = Command::new(root.join("target/debug/examples/extension"));
    extension.arg(server.kubeconfig()).arg(upstream);
    if is_recorded {
        extension.arg("--record").arg(root.join(VERDICTS));
    }
    run(extension.args(cases))
}
