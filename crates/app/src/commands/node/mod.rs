//! `xebec node`: the nodes of this machine, and what can happen to one.

mod list;

use anyhow::{Context as _, Result, bail};

use super::Output;
use crate::cluster::{self, Cluster, Selection};
use crate::data_dir;
use crate::local_nodes::{Node, Observed, Start, State, Wanted};
use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the nodes of this machine and how they are
    List {
        /// How to show them
        #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
        output: Output,
    },
    /// Undo whatever was done to a node: boot it, plug its cable in, start its agent
    Start(Named),
    /// End the agent of a node in order; its pods go on
    Stop(Named),
    /// End a node with all that runs on it at once, as if its power was cut
    Kill(Named),
    /// Pull the network cable of a node out
    Isolate(Named),
}

#[derive(clap::Args)]
struct Named {
    /// The node: one of those that `xebec up --nodes` made
    #[arg(value_name = "NODE")]
    node: String,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let path = flags.selection.find()?;
    let Some(cluster) = Cluster::load(&path)? else {
        bail!("no cluster was started in {} yet", path.display());
    };
    let (named, wanted) = match &flags.command {
        Command::List { output } => return list::run(&cluster, &path, *output),
        Command::Start(named) => (named, Wanted::Running),
        Command::Stop(named) => (named, Wanted::Stopped),
        Command::Kill(named) => (named, Wanted::Dead),
        Command::Isolate(named) => (named, Wanted::Isolated),
    };
    let node = Node::find(&cluster, &path, &named.node)?;
    if let Some(pid) = cluster::process_in_namespace_of(&cluster)? {
        bail!(
            "this cluster is in another network namespace, that of process {pid}: run this there, with `nsenter --net=/proc/{pid}/ns/net`"
        );
    }
    let start = match wanted {
        Wanted::Running => {
            if data_dir::running(&path)?.is_none() {
                bail!(
                    "the cluster does not run: `xebec up --data-dir {}` starts its nodes, too",
                    path.display()
                );
            }
            Some(Start::load(&path).context("nobody has started this node yet")?)
        }
        _ => None,
    };
    refuse(&node, &node.observe()?, wanted)?;
    let is_changed = node.bring_to(wanted, start.as_ref())?;
    let state = node.observe()?.state();
    let already = if is_changed { "" } else { "already " };
    say(&format!("node {} is {already}{state}", node.place.name));
    Ok(())
}

/// What makes no sense as it is.
fn refuse(node: &Node, observed: &Observed, wanted: Wanted) -> Result<()> {
    let is_dead = observed.state() == State::Dead;
    if is_dead && matches!(wanted, Wanted::Stopped | Wanted::Isolated) {
        bail!("{} is dead: `xebec node start {0}` first", node.place.name);
    }
    Ok(())
}
