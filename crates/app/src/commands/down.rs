//! `xebec down`: stops a cluster, and with `--purge` removes what it left. Only what is the
//! cluster's own is touched.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};

use super::next_steps;
use crate::cluster::{Cluster, Registry, Selection};
use crate::progress::say;
use crate::{data_dir, kubeconfig_file, local_nodes, node};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
    /// Also stop the containers and remove everything: rules, mounts, cgroups, links, the data
    /// directory, the context in your kubeconfig
    #[arg(long)]
    purge: bool,
}

/// Longer than the server's own drain.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let path = flags.selection.find()?;
    if let Some((cluster, name)) = local_nodes::owner(&path) {
        bail!(
            "this is the directory of the node {name} of the cluster in {}: stop it with `xebec node stop {name}`",
            cluster.display()
        );
    }
    end(&path, flags.purge)
}

/// Stops what runs on the directory; then nothing of it is left, if it is to be so.
pub(super) fn end(path: &Path, is_purged: bool) -> Result<()> {
    match data_dir::running(path)? {
        None => say(&format!("no cluster is running on {}", path.display())),
        Some(pid) => {
            kill_process(pid, Signal::TERM).with_context(|| format!("stopping process {pid:?}"))?;
            wait_until_stopped(path)?;
            say(&format!("stopped the cluster in {}", path.display()));
        }
    }
    let cluster = Cluster::load(path)?;
    // Who was killed has not stopped them.
    if let Some(cluster) = &cluster {
        for name in local_nodes::stop(cluster, path)? {
            say(&format!("stopped the node {name}"));
        }
    }
    if is_purged {
        purge(path, cluster.as_ref())
    } else {
        cluster.iter().for_each(|it| next_steps::say_farewell(it, path));
        Ok(())
    }
}

/// The registry's entry goes last: until then the cluster is found by its name.
fn purge(path: &Path, cluster: Option<&Cluster>) -> Result<()> {
    if let Some(cluster) = cluster {
        purge_node(path, cluster)?;
    }
    kubeconfig_file::forget(&path.join("kubeconfig"))?;
    std::fs::remove_dir_all(path).with_context(|| format!("removing {}", path.display()))?;
    say(&format!("removed {}", path.display()));
    cluster.map_or(Ok(()), |it| Registry::of_this_user().forget(it.id))
}

/// The directory stays when something of the node is still there: a second try needs it.
fn purge_node(path: &Path, cluster: &Cluster) -> Result<()> {
    let problems = node::purge(path, cluster)?;
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
