//! The program that starts a node's agent among the processes of the node: enters its namespaces,
//! and executes this binary there as `xebec join`. Single-threaded; runs before anything else of the
//! binary is started.

use std::ffi::{CString, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use linux::cgroups::Hierarchies;
use linux::namespaces::{self, Namespaces};
use linux::process::{CloneFlags, Fork};

use super::boot::CGROUP_OF_AGENT;
use super::process;
use crate::node;

/// The program. `arguments`: the node's directory, its cgroup, and those of the agent. Returns when
/// the agent is noted; its streams are this program's.
pub(super) fn run(arguments: &[OsString]) -> Result<()> {
    let [directory, cgroup, arguments @ ..] = arguments else { bail!("expected arguments") };
    let directory = PathBuf::from(directory);
    let found = process::find(&directory.join("init.json")).context("looking for the node")?;
    let init = found.context("the node is dead")?.pidfd;
    let cgroup = format!("{}/{CGROUP_OF_AGENT}", cgroup.to_string_lossy());
    let cgroup = Hierarchies::detect()?.cgroup(&cgroup)?;
    cgroup.create()?;
    cgroup.join()?;
    // Of children alone: what is noted is the number that the machine knows it by.
    namespaces::join_process(init.as_fd(), Namespaces::PID).context("entering the node")?;
    match linux::process::fork(CloneFlags::default()).context("starting the agent")? {
        Fork::Parent { pid, .. } => {
            let path = directory.join("agent.json");
            process::note(&path, pid).with_context(|| format!("writing {}", path.display()))
        }
        Fork::Child => {
            let others = Namespaces::CGROUP
                | Namespaces::IPC
                | Namespaces::MOUNT
                | Namespaces::NETWORK
                | Namespaces::UTS;
            namespaces::join_process(init.as_fd(), others).context("entering the node")?;
            rustix::process::chdir("/").context("going to /")?;
            linux::process::new_session().context("making a session")?;
            drop(init);
            Err(execute(arguments)).context("executing the agent")
        }
    }
}

/// Returns only the reason why it could not.
fn execute(arguments: &[OsString]) -> std::io::Error {
    let program = CString::new(node::PROGRAM).expect("it has no zero byte");
    let words = arguments.iter().map(|it| CString::new(it.as_bytes()));
    let Ok(words) = words.collect::<Result<Vec<_>, _>>() else {
        return std::io::ErrorKind::InvalidInput.into();
    };
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    });
    linux::process::exec(&program, &words, &variables.collect::<Vec<_>>())
}
