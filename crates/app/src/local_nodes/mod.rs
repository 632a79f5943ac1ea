//! Further nodes on this machine (`xebec up --nodes N`): each is a machine to itself, with network,
//! mount, PID, UTS, IPC and cgroup namespaces of its own, a first process that outlives its agent
//! and so keeps its pods, and a cable to a switch. Its agent is `xebec join`, as on any machine.
//!
//! Whether `up` lives is nothing to them: what there is of a node is in its directory and in the
//! kernel, and whoever comes next looks there ([`life`]).

mod agent;
mod boot;
mod enter;
mod files;
mod flags;
mod life;
mod mounts;
mod place;
mod process;
mod switch;
mod uplink;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail};
use lifecycle::Tasks;
use linux::cgroups::Hierarchies;
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::node;

pub(crate) use agent::Start;
pub(crate) use flags::passed_on;
pub(crate) use life::{Node, Observed, State, Wanted};
pub(crate) use place::owner;

use switch::Switch;

/// The first argument that makes the binary one of the programs here.
pub(crate) const ARGUMENT: &str = "local-node";

/// `arguments` are those after [`ARGUMENT`].
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    match arguments.split_first() {
        Some((program, arguments)) if program == "boot" => boot::run(arguments),
        Some((program, arguments)) if program == "enter" => enter::run(arguments),
        _ => bail!("{ARGUMENT}: this is for xebec itself"),
    }
}

/// This binary as one of the programs here.
fn command(program: &str) -> Command {
    let mut command = Command::new(node::PROGRAM);
    command.args([ARGUMENT, program]).current_dir("/");
    command
}

/// All of a cluster, as `up` has them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LocalNodes {
    switch: Switch,
    nodes: Vec<Node>,
    cluster_directory: PathBuf,
    is_stopping: Arc<AtomicBool>,
    /// Of each that is being booted: told when it is.
    booting: Arc<Mutex<Vec<Outcome>>>,
}

type Outcome = oneshot::Receiver<Result<()>>;

impl LocalNodes {
    /// `None`: there are none.
    pub(crate) fn of(cluster: &Cluster, directory: &Path) -> Result<Option<Self>> {
        let Some(switch) = Switch::of(cluster) else { return Ok(None) };
        if let Some(why) = mounts::refusal(directory) {
            bail!("{why}");
        }
        Ok(Some(Self {
            switch,
            nodes: Node::all(cluster, directory),
            cluster_directory: directory.to_owned(),
            is_stopping: Arc::default(),
            booting: Arc::default(),
        }))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Where nodes reach the machine.
    pub(crate) fn gateway(&self) -> Result<IpAddr> {
        self.switch.gateway().context("the network between nodes has addresses")
    }

    /// Makes the network between them, on which the API server is to listen, and boots those that are
    /// dead, which goes on beside what the caller does next.
    pub(crate) fn open(&self) -> Result<()> {
        self.switch.make().context("making the network between the nodes of this machine")?;
        let boot = |node: Node| self.beside(&node.place.name.clone(), move |_| node.prepare());
        let booting = self.nodes.iter().cloned().map(boot).collect();
        *self.booting() = booting;
        Ok(())
    }

    fn booting(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.booting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an agent on each, anew where one runs. Returns when all are Ready.
    pub(crate) async fn start(&self, start: Start) -> Result<()> {
        start.save(&self.cluster_directory)?;
        let booting = std::mem::take(&mut *self.booting());
        for booted in booting {
            booted.await.context("a node was being booted")??;
        }
        let start = Arc::new(start);
        let started = self.nodes.iter().cloned().map(|node| {
            let start = start.clone();
            self.beside(&node.place.name.clone(), move |is_stopping| {
                node.bring_to(Wanted::Restarted, Some(&start))?;
                // Whoever stops all of them may have looked before this one was there.
                if is_stopping.load(Ordering::SeqCst) {
                    node.bring_to(Wanted::Stopped, None)?;
                }
                Ok(())
            })
        });
        for started in started.collect::<Vec<_>>() {
            started.await.context("a node was being started")??;
        }
        Ok(())
    }

    /// Ends the agents when this process ends; their pods go on.
    pub(crate) fn stop_with(&self, tasks: &Tasks) {
        let own = self.clone();
        tasks.spawn("local-nodes", |shutdown| async move {
            shutdown.cancelled().await;
            own.is_stopping.store(true, Ordering::SeqCst);
            let stopped = own.nodes.iter().cloned().map(|node| {
                own.beside(&node.place.name.clone(), move |_| {
                    node.bring_to(Wanted::Stopped, None).map(drop)
                })
            });
            for stopped in stopped.collect::<Vec<_>>() {
                if let Ok(Err(err)) = stopped.await {
                    tracing::warn!(error = format!("{err:#}"), "an agent goes on");
                }
            }
        });
    }

    /// In a thread of its own: nobody waits for it who does not want to, at the end of the runtime
    /// either.
    fn beside(
        &self,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static,
    ) -> Outcome {
        let (done, waiting) = oneshot::channel();
        let is_stopping = self.is_stopping.clone();
        let run = move || {
            // Nobody may wait any more.
            let _ = done.send(work(&is_stopping));
        };
        // Without a thread nobody sends, which the other end sees.
        if let Err(err) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
            tracing::warn!(node = name, error = %err, "no thread for a node");
        }
        waiting
    }
}

/// Ends the agents of a cluster that does not run any more. Says of which nodes there were any.
pub(crate) fn stop(cluster: &Cluster, directory: &Path) -> Result<Vec<String>> {
    let mut stopped = Vec::new();
    for node in Node::all(cluster, directory) {
        if node.bring_to(Wanted::Stopped, None)? {
            stopped.push(node.place.name);
        }
    }
    Ok(stopped)
}

/// Ends them with all that they are in the kernel, and what joined them. Goes on after a failure and
/// tells all. Directories stay.
pub(crate) fn purge(cluster: &Cluster, directory: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for node in Node::all(cluster, directory) {
        problems.extend(node.purge().err().map(|it| format!("{it:#}")));
    }
    if let Some(switch) = Switch::of(cluster) {
        problems.extend(remove_unused(&place::cgroup(cluster)).err());
        problems.extend(switch.remove().iter().map(|it| stdx::error_chain(it)));
    }
    problems
}

/// What is in use is somebody else's, or was told as a problem already.
fn remove_unused(name: &str) -> Result<(), String> {
    let remove = || {
        let cgroup = Hierarchies::detect()?.cgroup(name)?;
        if cgroup.processes()?.is_empty() { cgroup.remove() } else { Ok(()) }
    };
    remove().map_err(|err| stdx::error_chain(&err))
}

/// How many containers run on them.
pub(crate) fn count_containers(cluster: &Cluster, directory: &Path) -> usize {
    let count = |node: Node| {
        let joined = Cluster::load(&node.place.data()).ok().flatten()?;
        let root = joined.node.as_ref()?.cgroup_root.trim_matches('/').to_owned();
        Some(node::count_containers_below(&format!("{}/{root}", node.place.cgroup())))
    };
    Node::all(cluster, directory).into_iter().filter_map(count).sum()
}
