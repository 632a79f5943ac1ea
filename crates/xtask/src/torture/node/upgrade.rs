//! Pods that an older version has started are taken over by this one: adopted as they are, entered
//! by commands, started anew, deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::host::{Host, chatty, processes, send};
use super::{Profile, target};
use crate::process::{output, run as execute};
use crate::{root, say};

/// The program of that revision, from a work tree of its own below the target directory.
pub(super) fn build(revision: &str, profile: Profile) -> Result<PathBuf> {
    let mut parse = Command::new("git");
    parse.args(["rev-parse", "--verify", &format!("{revision}^{{commit}}")]).current_dir(root());
    let commit = output(&mut parse).with_context(|| format!("--from {revision}"))?;
    let commit = commit.trim();
    let folder = target().join("torture");
    fs::create_dir_all(&folder)?;
    let tree = folder.join("from");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).arg(&tree).current_dir(root());
        git
    };
    // One that an earlier run has left.
    let _ = output(&mut git(&["worktree", "remove", "--force"]));
    execute(git(&["worktree", "add", "--force", "--detach"]).arg(commit))?;
    let built = super::build(&tree, profile);
    execute(&mut git(&["worktree", "remove", "--force"]))?;
    let copy = folder.join(format!("xebec-{commit}"));
    fs::copy(built?, &copy)?;
    Ok(copy)
}

pub(super) fn run(old: &Path, new: &Path, pods: usize) -> Result<()> {
    let mut host = Host::new(old)?;
    host.up()?;
    host.apply(&chatty(pods))?;
    host.apply(&shared())?;
    host.wait_ready("app=chatty", pods)?;
    host.wait_ready("app=shared", 1)?;
    let selector = "app in (chatty,shared)";
    let before = host.containers(selector)?;
    host.kill()?;
    host.set_binary(new);
    host.up()?;
    ensure!(host.containers(selector)? == before, "containers are others than before");
    for name in (0..pods).map(|n| format!("chatty-{n}")).chain(["shared".to_owned()]) {
        host.until(&["exec", &name, "--", "echo", "entered"], |it| it.contains("entered"))?;
    }
    for n in 0..pods {
        host.check_log(&format!("chatty-{n}"))?;
    }
    let pids = processes(&["sleep", &seconds()])?;
    ensure!(pids.len() == 1, "the container that is to end has processes {pids:?}");
    send("KILL", pids[0])?;
    let template =
        "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";
    host.until(&["get", "pod", "shared", "-o", template], |it| it == "1 true")?;
    host.until(&["exec", "shared", "--", "echo", "again"], |it| it.contains("again"))?;
    host.kubectl(&["delete", "pods", "--all"])?;
    host.until_no_sandbox()?;
    say(&format!("{:>12}  pods taken over from an older version", pods + 1));
    Ok(())
}

/// A command line that no other process has.
fn seconds() -> String {
    format!("{}.5", 2_000_000 + std::process::id())
}

/// With the processes of its containers in one namespace, which is set up in another way.
fn shared() -> String {
    let pod = super::host::pod("shared", "shared", &format!("[sleep, '{}']", seconds()));
    format!("{pod}  shareProcessNamespace: true\n")
}
