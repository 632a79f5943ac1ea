//! From a fresh process to a holder in its namespaces: away from whoever started it, then new
//! namespaces, host name, sysctls.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use linux::namespaces::{self, Namespaces};
use linux::process::{CloneFlags, Fork, Identity};
use linux::seqpacket::Listener;
use linux::sysctl::Name;
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};

use super::pod_init::PodInit;
use crate::cgroups;
use crate::protocol::{self, Message, Refusal, Reply};
use crate::records::{self, HolderRecord, Limits, SandboxRecord, Unreadable};
use crate::spec;

/// A holder that the kernel kills for memory takes its pod with it: better a container than the
/// holder.
const OOM_SCORE_ADJ: &str = "-998";

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("finding out who this process is")]
    Identity(#[source] io::Error),
    #[error(transparent)]
    Read(#[from] Unreadable),
    #[error("{} describes no sandbox", directory.display())]
    NoSandbox { directory: PathBuf },
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
    #[error("{}", spec::not_isolated(.0))]
    SysctlOfHost(String),
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
    pub(super) config: SandboxConfig,
    pub(super) log_limits: Limits,
    pub(super) cgroups: cgroups::Tree,
    pub(super) pod_init: Option<PodInit>,
}

/// Forks, so that the holder becomes init's child and nobody has to reap it, and leaves the
/// session.
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
    // First of all: whoever comes next knows by it whether this process lives.
    let identity = Identity::own().map_err(Error::Identity)?;
    records::write(&directory, &HolderRecord::from(identity)).map_err(Error::Identity)?;
    let sandbox: SandboxRecord = records::read(&directory)?
        .ok_or_else(|| Error::NoSandbox { directory: directory.clone() })?;
    let SandboxRecord { config, cgroup_root, log_limits, .. } = sandbox;
    let config = SandboxConfig::from(config);
    // Lowering needs CAP_SYS_RESOURCE; without it the holder is as likely to be killed as others.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let cgroups = cgroups::Tree::open(&cgroup_root).map_err(Error::Cgroup)?;
    cgroups.join("holders").map_err(Error::Cgroup)?;

    let sysctls = validate_sysctls(&config)?;
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
    apply_sysctls(&sysctls)?;
    let pod_init = match config.pid {
        PidNamespace::Pod => {
            let init = PodInit::start(&directory, &cgroups, &config.cgroup);
            Some(init.map_err(Error::PodInit)?)
        }
        PidNamespace::Container | PidNamespace::Host => None,
    };
    Ok(SetUp { directory, config, log_limits, cgroups, pod_init })
}

/// Checked before anything is made: a setting that the pod's own namespaces do not isolate would be
/// the host's.
fn validate_sysctls(config: &SandboxConfig) -> Result<BTreeMap<Name, String>, Error> {
    spec::isolated_sysctls(config).map_err(Error::SysctlOfHost)
}

/// Those of the network and IPC namespaces are read by whoever is in them: this process is.
fn apply_sysctls(sysctls: &BTreeMap<Name, String>) -> Result<(), Error> {
    for (name, value) in sysctls {
        linux::sysctl::set(name, value).map_err(|source| Error::Sysctl {
            name: name.as_str().to_owned(),
            value: value.clone(),
            source,
        })?;
    }
    Ok(())
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
    use node_api::sandboxes::{IpcNamespace, NetworkNamespace, SandboxConfig};
    use node_api::{PodRef, PodUid};

    use super::validate_sysctls;

    #[test]
    fn only_settings_of_the_pods_own_namespaces_are_taken() {
        let plain = || {
            let [namespace, name] = ["default", "a"].map(str::to_owned);
            node_api::fake::plain_sandbox(PodRef { namespace, name, uid: PodUid::new("0") })
        };
        let check = |config: SandboxConfig, name: &str, expected: bool| {
            let sysctls = [(name.to_owned(), "1".to_owned())].into();
            let taken = validate_sysctls(&SandboxConfig { sysctls, ..config });
            assert_eq!(taken.is_ok(), expected, "{name:?}: {taken:?}");
        };
        let host_network = || SandboxConfig { network: NetworkNamespace::Host, ..plain() };
        let host_ipc = || SandboxConfig { ipc: IpcNamespace::Host, ..plain() };
        check(plain(), "net.core.somaxconn", true);
        check(plain(), "net/core/somaxconn", true);
        check(host_network(), "net.core.somaxconn", false);
        check(host_network(), "kernel.sem", true);
        check(plain(), "kernel.shmmax", true);
        check(host_ipc(), "kernel.shmmax", false);
        check(host_ipc(), "fs/mqueue/msg_max", false);
        for name in ["vm.swappiness", "kernel.core_pattern", "net/../vm/swappiness", "net", ""] {
            check(plain(), name, false);
        }
    }
}
