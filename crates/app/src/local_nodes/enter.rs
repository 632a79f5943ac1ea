//! The program that starts a node's agent among the processes of the node: enters its namespaces,
//! and executes this binary there as `xebec join`. Single-threaded; runs before anything else of the
//! binary is started.

use std::ffi::{CString, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
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
    // As the machine sees it.
    let program = std::env::current_exe().ok();
    let program = program.and_then(|it| CString::new(it.into_os_string().into_vec()).ok());
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
            Err(execute(arguments, program)).context("executing the agent")
        }
    }
}

/// By its path, by which it has its name in the list of processes; also where that is not to be seen
/// in the node, or another file by now. Returns only the reason why it could not.
fn execute(arguments: &[OsString], program: Option<CString>) -> std::io::Error {
    let words = arguments.iter().map(|it| CString::new(it.as_bytes()));
    let Ok(words) = words.collect::<Result<Vec<_>, _>>() else {
        return std::io::ErrorKind::InvalidInput.into();
    };
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    });
    let variables: Vec<_> = variables.collect();
    if let Some(program) = program {
        // What is wrong with it is said of the other one.
        let _ = linux::process::exec(&program, &words, &variables);
    }
    let itself = CString::new(node::PROGRAM).expect("it has no zero byte");
    linux::process::exec(&itself, &words, &variables)
}
