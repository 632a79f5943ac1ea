//! The process of a holder: whether it lives is asked of the kernel, never guessed from silence.
//!
//! It is found by its record (`holder.json`); where there is none, because an earlier version
//! started it, by the arguments of the machine's processes, which have the sandbox's id.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use linux::process::{Identity, Pid, Signal};
use node_api::SandboxId;
use node_api::network::Namespace;
use tokio::io::Interest;

use super::watched::watched;
use crate::holder;
use crate::records::{self, HolderRecord};

#[derive(Debug)]
pub(super) struct Process {
    pid: i32,
    pidfd: OwnedFd,
}

impl Process {
    /// One that has just said its number: it lives, so the number is still its own. Written down if
    /// it did not do so itself.
    pub(super) fn answered(pid: i32, directory: &Path) -> io::Result<Self> {
        let gone = || io::Error::other("the holder has no process");
        let number = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(gone)?;
        let pidfd = linux::process::open(number)?;
        if !directory.join(<HolderRecord as records::Record>::FILE).exists() {
            let record = HolderRecord::from(Identity::of(number)?);
            // The next start then has to look for it as this one did.
            let _ = records::write(directory, &record);
        }
        Ok(Self { pid, pidfd })
    }

    /// Resolves when the process is gone, and with it its namespaces.
    pub(super) async fn exited(&self) -> io::Result<()> {
        let pidfd = watched(self.pidfd.try_clone()?, Interest::READABLE)?;
        let _ready = pidfd.readable().await?;
        Ok(())
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn kill(&self) {
        let _ = linux::process::kill(self.pidfd.as_fd(), Signal::KILL);
    }

    /// The pod's, in which the holder lives.
    pub(super) fn namespace(self: &Arc<Self>) -> Arc<dyn Namespace> {
        Arc::new(HoldersNamespace(self.clone()))
    }
}

#[derive(Debug)]
struct HoldersNamespace(Arc<Process>);

impl Namespace for HoldersNamespace {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        let opened = File::open(format!("/proc/{}/ns/net", self.0.pid));
        // It has not ended yet: so what was opened is its own, and not that of another process with
        // its number.
        if linux::process::has_ended(self.0.pidfd.as_fd())? {
            return Ok(None);
        }
        opened.map(|it| Some(it.into()))
    }
}

/// The machine's processes, looked at once and only if somebody needs it.
#[derive(Default)]
pub(super) struct Machine {
    holders: OnceLock<BTreeMap<String, Vec<Identity>>>,
}

impl Machine {
    /// The holder of the sandbox in this directory. `None`: it is dead, for sure.
    pub(super) fn holder(&self, directory: &Path, id: &SandboxId) -> io::Result<Option<Process>> {
        // One that cannot be read says nothing.
        if let Ok(Some(record)) = records::read::<HolderRecord>(directory) {
            return open(&record.into());
        }
        let found = match self.holders.get() {
            Some(found) => found,
            None => {
                let found = scan()?;
                self.holders.get_or_init(|| found)
            }
        };
        for identity in found.get(id.as_str()).into_iter().flatten() {
            if let Some(process) = open(identity)? {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }
}

fn open(identity: &Identity) -> io::Result<Option<Process>> {
    Ok(identity.open()?.map(|pidfd| Process { pid: identity.pid, pidfd }))
}

/// By the name of the sandbox's directory, the oldest first: children that a holder has forked and
/// that have not executed anything yet have its arguments too.
fn scan() -> io::Result<BTreeMap<String, Vec<Identity>>> {
    let mut found: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // Those that end meanwhile are no holders that live.
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        if let Some(sandbox) = sandbox_of(&line)
            && let Ok(identity) = Identity::of(pid)
        {
            found.entry(sandbox).or_default().push(identity);
        }
    }
    found.values_mut().for_each(|it| it.sort_by_key(|it| it.start_time));
    Ok(found)
}

/// Of `<program> holder <directory> <cluster>`.
fn sandbox_of(command_line: &[u8]) -> Option<String> {
    let mut words = command_line.split(|it| *it == 0);
    let (_, argument, directory) = (words.next()?, words.next()?, words.next()?);
    if argument != holder::ARGUMENT.as_bytes() {
        return None;
    }
    Path::new(std::str::from_utf8(directory).ok()?).file_name()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::sandbox_of;

    #[test]
    fn a_holder_is_known_by_its_arguments() {
        let check = |line: &str, expected: Option<&str>| {
            let line = line.replace(' ', "\0");
            assert_eq!(sandbox_of(line.as_bytes()).as_deref(), expected, "{line:?}");
        };
        check("/usr/bin/xebec holder /var/lib/xebec/containers/sandboxes/abc c0ffee ", Some("abc"));
        check("xebec holder data/containers/sandboxes/abc c0ffee ", Some("abc"));
        check("xebec up holder /x/abc c0ffee ", None);
        check("xebec holder", None);
        check("", None);
    }
}
