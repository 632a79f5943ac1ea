//! From a fresh process to a holder in its namespaces: away from whoever started it, then new namespaces, host name,
//! sysctls.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use linux::namespaces::{self, Namespaces};
use linux::process::{CloneFlags, Fork};
use linux::seqpacket::Listener;
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace};

use super::pod_init::PodInit;
use crate::cgroups;
use crate::files;
use crate::protocol::{self, Message, Refusal, Reply, SandboxRecord};

/// A holder that the kernel kills for memory takes its pod with it: better a container than the holder.
const OOM_SCORE_ADJ: &str = "-998";

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} describes no sandbox", path.display())]
    NoSandbox { path: PathBuf },
    #[error("moving the holder into its cgroup")]
    Cgroup(#[source] node_api::Error),
    #[error("making the pod's namespaces")]
    Namespaces(#[source] io::Error),
    #[error("setting the host name {name:?}")]
    HostName {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("setting the sysctl {name:?} to {value:?}")]
    Sysctl {
        name: String,
        value: String,
        #[source]
        source: io::Error,
    },
    #[error("bringing up the pod's loopback interface")]
    Loopback(#[source] io::Error),
    #[error("starting the first process of the pod's PID namespace")]
    PodInit(#[source] io::Error),
}

pub(super) enum Role {
    Intermediate,
    Holder,
}

pub(super) struct SetUp {
    pub(super) directory: PathBuf,
    pub(super) sandbox: SandboxRecord,
    pub(super) cgroups: cgroups::Tree,
    pub(super) pod_init: Option<PodInit>,
}

/// Forks, so that the holder becomes init's child and nobody has to reap it, and leaves the session.
pub(super) fn detach() -> io::Result<Role> {
    match linux::process::fork(CloneFlags::default())? {
        Fork::Parent { .. } => Ok(Role::Intermediate),
        Fork::Child => {
            linux::process::new_session()?;
            Ok(Role::Holder)
        }
    }
}

/// Moves the listening socket away from standard input, where containers would inherit it.
pub(super) fn take_listener() -> io::Result<Listener> {
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(Listener::from(listener))
}

pub(super) fn set_up(directory: PathBuf) -> Result<SetUp, Error> {
    let path = directory.join("sandbox.json");
    let sandbox: SandboxRecord = files::read_json(&path)
        .map_err(|source| Error::Read { path: path.clone(), source })?
        .ok_or(Error::NoSandbox { path })?;
    // Lowering needs CAP_SYS_RESOURCE; without it the holder is as likely to be killed as others.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let cgroups = cgroups::Tree::open(&sandbox.cgroup_root).map_err(Error::Cgroup)?;
    cgroups.join("holders").map_err(Error::Cgroup)?;

    let config = &sandbox.config;
    let mut kinds = Namespaces::NONE;
    if config.network == NetworkNamespace::Pod {
        // With the host's network a pod has the host's name too, as upstream has it.
        kinds = kinds | Namespaces::NETWORK | Namespaces::UTS;
    }
    if config.ipc == IpcNamespace::Pod {
        kinds = kinds | Namespaces::IPC;
    }
    namespaces::unshare(kinds).map_err(Error::Namespaces)?;
    if config.network == NetworkNamespace::Pod {
        linux::loopback::bring_up().map_err(Error::Loopback)?;
        rustix::system::sethostname(config.hostname.as_bytes()).map_err(|source| {
            Error::HostName { name: config.hostname.clone(), source: source.into() }
        })?;
    }
    apply_sysctls(Path::new("/proc/sys"), &config.sysctls)?;
    let pod_init = match config.pid {
        PidNamespace::Pod => Some(PodInit::start().map_err(Error::PodInit)?),
        PidNamespace::Container | PidNamespace::Host => None,
    };
    Ok(SetUp { directory, sandbox, cgroups, pod_init })
}

/// Those of the network, IPC and UTS namespaces are read by whoever is in them: this process is.
fn apply_sysctls(root: &Path, sysctls: &BTreeMap<String, String>) -> Result<(), Error> {
    for (name, value) in sysctls {
        let path = sysctl_path(name);
        // Whatever a name says, it names something below the root.
        let written = if path.split('/').any(|it| it.is_empty() || it == "..") {
            Err(io::ErrorKind::InvalidInput.into())
        } else {
            fs::write(root.join(path), value)
        };
        written.map_err(|source| Error::Sysctl {
            name: name.clone(),
            value: value.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Names are written with dots or slashes; where the first separator is a slash, dots belong to names, as in
/// `net/ipv4/conf/eth0.1/forwarding` (sysctl.d(5)).
fn sysctl_path(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name.as_bytes()[first] == b'.' => name
            .chars()
            .map(|it| match it {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Tells the first client why there is no sandbox.
pub(super) fn refuse(listener: &Listener, error: &Error) {
    let refusal = Refusal::CouldNotStart(stdx::error_chain(error));
    let _ = rustix::io::ioctl_fionbio(listener, false);
    let Ok(client) = listener.accept() else { return };
    if rustix::io::ioctl_fionbio(&client, false).is_err() {
        return;
    }
    if let Ok(Some(packet)) = client.receive()
        && let Ok((id, _)) = protocol::decode_request(&packet.bytes)
        && let Ok(packet) =
            protocol::encode_message(&Message::Reply { id, reply: Reply::Refused(refusal) })
    {
        let _ = client.send(&packet, &[]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{apply_sysctls, sysctl_path};

    #[test]
    fn sysctls_stay_below_their_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("sys");
        fs::create_dir_all(root.join("net")).unwrap();
        let apply =
            |name: &str| apply_sysctls(&root, &BTreeMap::from([(name.to_owned(), "1".to_owned())]));
        apply("net.x").unwrap();
        assert_eq!(fs::read_to_string(root.join("net/x")).unwrap(), "1");
        for name in ["../x", "net/../../x", "/x", "", "net..x"] {
            assert!(apply(name).is_err(), "{name:?}");
        }
        assert!(!directory.path().join("x").exists());
    }

    #[test]
    fn sysctl_names_become_paths() {
        for (name, path) in [
            ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
            ("kernel/shm_rmid_forced", "kernel/shm_rmid_forced"),
            ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
            ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ] {
            assert_eq!(sysctl_path(name), path);
        }
    }
}
