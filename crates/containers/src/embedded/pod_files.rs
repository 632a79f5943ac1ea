//! The files that all containers of a pod share: `/etc/resolv.conf`, `/etc/hostname`, `/etc/hosts`
//! and `/dev/shm`.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use node_api::containers::{Mount, Propagation};
use node_api::sandboxes::{Dns, IpcNamespace, NetworkNamespace, SandboxConfig};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::files;

const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
/// As container runtimes give it.
const SHM: &std::ffi::CStr = c"mode=1777,size=65536k";

/// Readable by every user of the containers, hence the modes.
pub(super) fn write(directory: &Path, config: &SandboxConfig) -> io::Result<()> {
    let resolv_conf = match &config.dns {
        Some(dns) => render_resolv_conf(dns),
        None => fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
    };
    let hostname = match config.network {
        NetworkNamespace::Pod => config.hostname.clone(),
        NetworkNamespace::Host => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    for (name, text) in [
        ("resolv.conf", resolv_conf),
        ("hostname", format!("{hostname}\n")),
        ("hosts", HOSTS.to_owned()),
    ] {
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
        read_only: false,
        propagation: Propagation::Private,
    };
    let shm = match config.ipc {
        IpcNamespace::Pod => directory.join("shm"),
        IpcNamespace::Host => PathBuf::from("/dev/shm"),
    };
    vec![
        mount(directory.join("resolv.conf"), "/etc/resolv.conf"),
        mount(directory.join("hostname"), "/etc/hostname"),
        mount(directory.join("hosts"), "/etc/hosts"),
        mount(shm, "/dev/shm"),
    ]
}

fn render_resolv_conf(dns: &Dns) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use node_api::sandboxes::Dns;

    use super::render_resolv_conf;

    #[test]
    fn resolv_conf_says_what_was_asked_for() {
        let dns = Dns {
            servers: vec!["10.96.0.10".parse().unwrap()],
            searches: vec!["default.svc.cluster.local".into(), "svc.cluster.local".into()],
            options: vec!["ndots:5".into()],
        };
        assert_eq!(
            render_resolv_conf(&dns),
            "search default.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
        );
        assert_eq!(render_resolv_conf(&Dns::default()), "");
    }
}
