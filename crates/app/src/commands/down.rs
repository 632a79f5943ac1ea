//! `xebec down`: stops a detached cluster, and with `--purge` removes what it left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};

use crate::progress::say;
use crate::{data_dir, kubeconfig_file, node};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The cluster's data directory
    #[arg(long, value_name = "DIR", default_value_os_t = data_dir::default_path(), value_parser = data_dir::parser())]
    data_dir: PathBuf,
    /// Also stop the containers and remove everything: rules, mounts, cgroups, links, the data directory, the context in
    /// your kubeconfig
    #[arg(long)]
    purge: bool,
}

/// Longer than the server's own drain.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let path = &flags.data_dir;
    match data_dir::running(path)? {
        None => say("no cluster is running there"),
        Some(pid) => {
            kill_process(pid, Signal::TERM).with_context(|| format!("stopping process {pid:?}"))?;
            wait_until_stopped(path)?;
            say("stopped");
        }
    }
    if flags.purge {
        purge_node(path)?;
        let kubeconfig = path.join("kubeconfig");
        kubeconfig_file::forget(&kubeconfig)?;
        std::fs::remove_dir_all(path).with_context(|| format!("removing {}", path.display()))?;
        say(&format!("removed {}", path.display()));
    }
    Ok(())
}

/// The directory stays when something of the node is still there: a second try needs it.
fn purge_node(path: &Path) -> Result<()> {
    let problems = node::purge(path)?;
    if problems.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = problems.iter().map(|it| format!("\n  - {it}")).collect();
    bail!("not everything of the node could be removed:{}", list.concat())
}

/// The lock is released by the kernel when the process is gone.
fn wait_until_stopped(path: &Path) -> Result<()> {
    for _ in 0..WAIT.as_millis() / STEP.as_millis() {
        if data_dir::running(path)?.is_none() {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    bail!("still running after {WAIT:?}; see {}", data_dir::log_file(path).display())
}
