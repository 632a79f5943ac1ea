//! The first process of the PID namespace that all containers of a pod share: it holds the
//! namespace and reaps orphans.
//!
//! Containers see it, and one with CAP_SYS_PTRACE can do as it. So it is nobody with nothing
//! ([`linux::pause`]), in the pod's cgroup, before the first container is started: `start` returns
//! when it is. While it is still what the holder is, it is alone in its namespace.
//!
//! Only a process in a PID namespace can mount the procfs of that namespace, and none that a
//! container can see should be able to mount. So this one does it once, in a mount namespace that
//! nothing but a descriptor of the holder's leads to; containers get copies of that mount.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use linux::mounts::{Attributes, Detached};
use linux::namespaces::{self, Namespaces};
use linux::process::{CloneFlags, Fork};
use linux::seqpacket;
use rustix::fs::{Mode, OFlags};

use crate::cgroups;

pub(super) struct PodInit {
    pidfd: OwnedFd,
    procs: OwnedFd,
}

/// Its cgroup, below the pod's: what somebody makes it do counts as the pod's.
pub(crate) fn cgroup(of_pod: &str) -> String {
    format!("{of_pod}/init")
}

impl PodInit {
    /// The child never returns from here; it ends with the holder. `directory` is one of the
    /// sandbox's own, to mount on.
    pub(super) fn start(
        directory: &Path,
        cgroups: &cgroups::Tree,
        of_pod: &str,
    ) -> io::Result<Self> {
        let (ours, theirs) = seqpacket::Connection::pair()?;
        let flags = CloneFlags { namespaces: Namespaces::PID, ..CloneFlags::default() };
        match linux::process::fork(flags)? {
            Fork::Parent { pidfd, .. } => {
                drop(theirs);
                let procs = receive(&ours)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                // The other end closes when the program is executed.
                match receive(&ours)? {
                    Some(_) => Err(io::ErrorKind::InvalidData.into()),
                    None if linux::process::try_wait(pidfd.as_fd())?.is_some() => {
                        Err(io::Error::other("it ended at once"))
                    }
                    None => Ok(Self { pidfd, procs }),
                }
            }
            Fork::Child => {
                let joined = cgroups.join_new(&cgroup(of_pod)).map_err(io::Error::other);
                let failed = joined.and_then(|()| become_init(directory, &theirs));
                let why = failed.map_or_else(|err| stdx::error_chain(&err), |()| String::new());
                // Nobody is left to be told if this fails.
                let _ = theirs.send(format!("!{why}").as_bytes(), &[]);
                linux::process::exit_now(1)
            }
        }
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// A mount namespace whose `/proc` shows the pod's processes.
    pub(super) fn procs(&self) -> BorrowedFd<'_> {
        self.procs.as_fd()
    }
}

fn receive(socket: &seqpacket::Connection) -> io::Result<Option<OwnedFd>> {
    let Some(message) = socket.receive()? else { return Ok(None) };
    match message.descriptors.into_iter().next() {
        Some(descriptor) => Ok(Some(descriptor)),
        None => Err(io::Error::other(String::from_utf8_lossy(&message.bytes).into_owned())),
    }
}

fn become_init(directory: &Path, holder: &seqpacket::Connection) -> io::Result<()> {
    linux::process::new_session()?;
    // Kernels may be built without keyrings.
    linux::process::new_session_keyring().ok();
    let procs = make_procs(directory)?;
    holder.send(b"procs", &[procs.as_fd()])?;
    drop(procs);
    // Not in the namespace that the holder now has: its procfs hides nothing.
    namespaces::unshare(Namespaces::MOUNT | Namespaces::CGROUP)?;
    let place = linux::mounts::open_source(Path::new("/proc"))?;
    linux::pause::become_pause(place.as_fd(), holder.as_fd())
}

/// A new mount namespace with an empty root and this PID namespace's procfs.
fn make_procs(directory: &Path) -> io::Result<OwnedFd> {
    namespaces::unshare(Namespaces::MOUNT)?;
    linux::mounts::make_all_private()?;
    let attributes = Attributes {
        no_suid: Some(true),
        no_devices: Some(true),
        no_exec: Some(true),
        ..Attributes::default()
    };
    let new = |kind| Detached::new(kind, kind, &[], attributes).map_err(io::Error::other);
    let (root, procs) = (new("tmpfs")?, new("proc")?);
    rustix::fs::mkdirat(&root, "proc", Mode::from_raw_mode(0o555))?;
    let place = linux::mounts::open_source(directory)?;
    let root = root.attach(place.as_fd())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::openat(&root, "proc", flags, Mode::empty())?;
    procs.attach(place.as_fd())?;
    linux::mounts::pivot(root.as_fd())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc/self/ns/mnt", flags, Mode::empty())?)
}
