//! The files that all containers of a pod share: `/etc/resolv.conf`, `/etc/hostname` and `/dev/shm`.
//! `/etc/hosts` is the kubelet's, which knows the pod's aliases.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use node_api::containers::Mount;
use node_api::resolv_conf;
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, SandboxConfig};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::files;

/// As container runtimes give it.
const SHM: &std::ffi::CStr = c"mode=1777,size=65536k";

/// Readable by every user of the containers, hence the modes.
pub(super) fn write(directory: &Path, config: &SandboxConfig) -> io::Result<()> {
    let text = match &config.dns {
        Some(dns) => resolv_conf::render(dns),
        None => fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
    };
    let hostname = match config.network {
        NetworkNamespace::Pod => config.hostname.clone(),
        NetworkNamespace::Host => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    for (name, text) in [("resolv.conf", text), ("hostname", format!("{hostname}\n"))] {
        files::write_atomically(&directory.join(name), text.as_bytes(), 0o644)?;
    }
    if config.ipc == IpcNamespace::Pod {
        let shm = directory.join("shm");
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&shm)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount(c"shm", &shm, c"tmpfs", flags, Some(SHM))?;
    }
    Ok(())
}

/// Succeeds when nothing is mounted.
pub(super) fn unmount(directory: &Path) -> io::Result<()> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(directory.join("shm"), flags) {
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

pub(super) fn mounts(directory: &Path, config: &SandboxConfig) -> Vec<Mount> {
    let mount = |host_path: PathBuf, container_path: &str| Mount {
        host_path,
        container_path: container_path.to_owned(),
        ..Mount::default()
    };
    let shm = match config.ipc {
        IpcNamespace::Pod => directory.join("shm"),
        IpcNamespace::Host => PathBuf::from("/dev/shm"),
    };
    vec![
        mount(directory.join("resolv.conf"), "/etc/resolv.conf"),
        mount(directory.join("hostname"), "/etc/hostname"),
        mount(shm, "/dev/shm"),
    ]
}
