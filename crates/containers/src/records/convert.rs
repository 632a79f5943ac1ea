//! Between `node-api`'s types and the records: every field by name, both ways, so that one that is
//! added is missed here.

use std::path::PathBuf;

use node_api::containers::{self as theirs, ContainerConfig};
use node_api::network::{HostPort, Protocol};
use node_api::sandboxes::{Dns, IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};
use node_api::{ContainerId, ImageId, PodRef, PodUid};

use super::container::{self, Seccomp, SeccompFile};
use super::exit::Exit;
use super::sandbox;

/// Structs whose fields have the same names, and types that convert.
macro_rules! fields {
    ($one:ty, $other:ty { $($field:ident),* }) => {
        fields!(@way $one, $other { $($field),* });
        fields!(@way $other, $one { $($field),* });
    };
    (@way $from:ty, $to:ty { $($field:ident),* }) => {
        impl From<$from> for $to {
            fn from(it: $from) -> Self {
                type From_ = $from;
                let From_ { $($field),* } = it;
                Self { $($field: $field.into()),* }
            }
        }
    };
}

/// Enums whose variants have the same names.
macro_rules! variants {
    ($one:ty, $other:ty { $($variant:ident),* }) => {
        variants!(@way $one, $other { $($variant),* });
        variants!(@way $other, $one { $($variant),* });
    };
    (@way $from:ty, $to:ty { $($variant:ident),* }) => {
        impl From<$from> for $to {
            fn from(it: $from) -> Self {
                type From_ = $from;
                match it { $(From_::$variant => Self::$variant),* }
            }
        }
    };
}

fields!(theirs::CpuQuota, container::CpuQuota { quota, period });
fields!(theirs::Device, container::Device { host_path, container_path, permissions });
fields!(theirs::IdMapping, container::IdMapping { host, container, length });
fields!(theirs::Selinux, container::Selinux { user, role, kind, level });
fields!(Dns, sandbox::Dns { servers, searches, options });
fields!(HostPort, sandbox::HostPort { protocol, host_address, host_port, container_port });
fields!(theirs::Exit, Exit { code, signal, oom_killed, started, finished, message });
variants!(theirs::Propagation, container::Propagation { Private, HostToContainer, Bidirectional });
variants!(Protocol, sandbox::Protocol { Tcp, Udp, Sctp });
variants!(NetworkNamespace, sandbox::Network { Pod, Host });
variants!(PidNamespace, sandbox::Pid { Container, Pod, Host });
variants!(IpcNamespace, sandbox::Ipc { Pod, Host });

impl From<PodRef> for sandbox::Pod {
    fn from(PodRef { namespace, name, uid }: PodRef) -> Self {
        Self { namespace, name, uid: uid.as_str().to_owned() }
    }
}

impl From<sandbox::Pod> for PodRef {
    fn from(sandbox::Pod { namespace, name, uid }: sandbox::Pod) -> Self {
        Self { namespace, name, uid: PodUid::new(uid) }
    }
}

impl From<SandboxConfig> for sandbox::Config {
    fn from(it: SandboxConfig) -> Self {
        let SandboxConfig {
            pod,
            attempt,
            hostname,
            network,
            pid,
            ipc,
            dns,
            host_ports,
            sysctls,
            cgroup,
            annotations,
            labels,
            runtime_handler,
            user_namespace,
            privileged,
            log_directory,
            resources,
            overhead,
        } = it;
        Self {
            pod: pod.into(),
            attempt,
            hostname,
            network: network.into(),
            pid: pid.into(),
            ipc: ipc.into(),
            dns: dns.map(Into::into),
            host_ports: host_ports.into_iter().map(Into::into).collect(),
            sysctls,
            cgroup,
            annotations,
            labels,
            runtime_handler,
            user_namespace: user_namespace.map(Into::into),
            privileged,
            log_directory,
            resources: resources.into(),
            overhead: overhead.into(),
        }
    }
}

impl From<sandbox::Config> for SandboxConfig {
    fn from(it: sandbox::Config) -> Self {
        let sandbox::Config {
            pod,
            attempt,
            hostname,
            network,
            pid,
            ipc,
            dns,
            host_ports,
            sysctls,
            cgroup,
            annotations,
            labels,
            runtime_handler,
            user_namespace,
            privileged,
            log_directory,
            resources,
            overhead,
        } = it;
        Self {
            pod: pod.into(),
            attempt,
            hostname,
            network: network.into(),
            pid: pid.into(),
            ipc: ipc.into(),
            dns: dns.map(Into::into),
            host_ports: host_ports.into_iter().map(Into::into).collect(),
            sysctls,
            cgroup,
            annotations,
            labels,
            runtime_handler,
            user_namespace: user_namespace.map(Into::into),
            privileged,
            log_directory,
            resources: resources.into(),
            overhead: overhead.into(),
        }
    }
}

impl From<ContainerConfig> for container::Config {
    fn from(it: ContainerConfig) -> Self {
        let ContainerConfig {
            name,
            attempt,
            image,
            command,
            args,
            working_dir,
            env,
            mounts,
            stdin,
            stdin_once,
            tty,
            log_path,
            resources,
            security,
            stop_signal,
            target,
            annotations,
            labels,
            devices,
            cdi_devices,
        } = it;
        Self {
            name,
            attempt,
            image: image.as_str().to_owned(),
            command,
            args,
            working_dir,
            env,
            mounts: mounts.into_iter().map(Into::into).collect(),
            stdin,
            stdin_once,
            tty,
            log_path,
            resources: resources.into(),
            security: security.into(),
            stop_signal,
            target: target.map(|it| it.as_str().to_owned()),
            annotations,
            labels,
            devices: devices.into_iter().map(Into::into).collect(),
            cdi_devices,
        }
    }
}

impl From<container::Config> for ContainerConfig {
    fn from(it: container::Config) -> Self {
        let container::Config {
            name,
            attempt,
            image,
            command,
            args,
            working_dir,
            env,
            mounts,
            stdin,
            stdin_once,
            tty,
            log_path,
            resources,
            security,
            stop_signal,
            target,
            annotations,
            labels,
            devices,
            cdi_devices,
        } = it;
        Self {
            name,
            attempt,
            image: ImageId::new(image),
            command,
            args,
            working_dir,
            env,
            mounts: mounts.into_iter().map(Into::into).collect(),
            stdin,
            stdin_once,
            tty,
            log_path,
            resources: resources.into(),
            security: security.into(),
            stop_signal,
            target: target.map(ContainerId::new),
            annotations,
            labels,
            devices: devices.into_iter().map(Into::into).collect(),
            cdi_devices,
        }
    }
}

/// Lists of what converts, and what is an id there and a text here.
macro_rules! mounts {
    ($from:ty, $from_image:ty, $from_mappings:ty => $to:ty, $to_image:ty, $to_mappings:ty, $id:expr) => {
        impl From<$from> for $to {
            fn from(it: $from) -> Self {
                type From_ = $from;
                let From_ {
                    host_path,
                    container_path,
                    read_only,
                    propagation,
                    recursive_read_only,
                    image,
                    id_mappings,
                } = it;
                Self {
                    host_path,
                    container_path,
                    read_only,
                    propagation: propagation.into(),
                    recursive_read_only,
                    image: image.map(Into::into),
                    id_mappings: id_mappings.map(Into::into),
                }
            }
        }

        impl From<$from_image> for $to_image {
            fn from(it: $from_image) -> Self {
                type From_ = $from_image;
                let From_ { image, sub_path } = it;
                Self { image: $id(image), sub_path }
            }
        }

        impl From<$from_mappings> for $to_mappings {
            fn from(it: $from_mappings) -> Self {
                type From_ = $from_mappings;
                let From_ { uids, gids } = it;
                let all = |it: Vec<_>| it.into_iter().map(Into::into).collect();
                Self { uids: all(uids), gids: all(gids) }
            }
        }
    };
}

mounts!(
    theirs::Mount, theirs::ImageMount, theirs::IdMappings =>
    container::Mount, container::ImageMount, container::IdMappings,
    |it: ImageId| it.as_str().to_owned()
);
mounts!(
    container::Mount, container::ImageMount, container::IdMappings =>
    theirs::Mount, theirs::ImageMount, theirs::IdMappings,
    |it: String| ImageId::new(it)
);

impl From<theirs::Apparmor> for container::Apparmor {
    fn from(it: theirs::Apparmor) -> Self {
        match it {
            theirs::Apparmor::RuntimeDefault => Self::RuntimeDefault,
            theirs::Apparmor::Unconfined => Self::Unconfined,
            theirs::Apparmor::Localhost(name) => Self::Localhost(name),
        }
    }
}

impl From<container::Apparmor> for theirs::Apparmor {
    fn from(it: container::Apparmor) -> Self {
        match it {
            container::Apparmor::RuntimeDefault => Self::RuntimeDefault,
            container::Apparmor::Unconfined => Self::Unconfined,
            container::Apparmor::Localhost(name) => Self::Localhost(name),
        }
    }
}

impl From<theirs::Resources> for container::Resources {
    fn from(it: theirs::Resources) -> Self {
        let theirs::Resources {
            cpu_shares,
            cpu_quota,
            memory_limit,
            pids_limit,
            oom_score_adj,
            memory_swap_limit,
            cpuset_cpus,
            cpuset_mems,
            hugepage_limits,
            unified,
        } = it;
        Self {
            cpu_shares,
            cpu_quota: cpu_quota.map(Into::into),
            memory_limit,
            pids_limit,
            oom_score_adj,
            memory_swap_limit,
            cpuset_cpus,
            cpuset_mems,
            hugepage_limits,
            unified,
        }
    }
}

impl From<container::Resources> for theirs::Resources {
    fn from(it: container::Resources) -> Self {
        let container::Resources {
            cpu_shares,
            cpu_quota,
            memory_limit,
            pids_limit,
            oom_score_adj,
            memory_swap_limit,
            cpuset_cpus,
            cpuset_mems,
            hugepage_limits,
            unified,
        } = it;
        Self {
            cpu_shares,
            cpu_quota: cpu_quota.map(Into::into),
            memory_limit,
            pids_limit,
            oom_score_adj,
            memory_swap_limit,
            cpuset_cpus,
            cpuset_mems,
            hugepage_limits,
            unified,
        }
    }
}

impl From<theirs::Security> for container::Security {
    fn from(it: theirs::Security) -> Self {
        let theirs::Security {
            run_as_user,
            run_as_group,
            supplemental_groups,
            ignores_groups_of_image,
            privileged,
            capabilities_add,
            capabilities_drop,
            read_only_root,
            no_new_privileges,
            seccomp,
            unmasked_proc,
            apparmor,
            selinux,
        } = it;
        Self {
            run_as_user,
            run_as_group,
            supplemental_groups,
            ignores_groups_of_image,
            privileged,
            capabilities_add,
            capabilities_drop,
            read_only_root,
            no_new_privileges,
            seccomp: seccomp.into(),
            unmasked_proc,
            apparmor: apparmor.into(),
            selinux: selinux.map(Into::into),
        }
    }
}

impl From<container::Security> for theirs::Security {
    fn from(it: container::Security) -> Self {
        let container::Security {
            run_as_user,
            run_as_group,
            supplemental_groups,
            ignores_groups_of_image,
            privileged,
            capabilities_add,
            capabilities_drop,
            read_only_root,
            no_new_privileges,
            seccomp,
            unmasked_proc,
            apparmor,
            selinux,
        } = it;
        Self {
            run_as_user,
            run_as_group,
            supplemental_groups,
            ignores_groups_of_image,
            privileged,
            capabilities_add,
            capabilities_drop,
            read_only_root,
            no_new_privileges,
            seccomp: seccomp.into(),
            unmasked_proc,
            apparmor: apparmor.into(),
            selinux: selinux.map(Into::into),
        }
    }
}

impl From<theirs::Seccomp> for Seccomp {
    fn from(it: theirs::Seccomp) -> Self {
        match it {
            theirs::Seccomp::Unconfined => Self::Unconfined,
            theirs::Seccomp::RuntimeDefault => Self::RuntimeDefault,
            theirs::Seccomp::Localhost(theirs::SeccompFile { directory, name }) => {
                Self::Localhost(SeccompFile::Parts { directory, name })
            }
        }
    }
}

impl From<Seccomp> for theirs::Seccomp {
    fn from(it: Seccomp) -> Self {
        match it {
            Seccomp::Unconfined => Self::Unconfined,
            Seccomp::RuntimeDefault => Self::RuntimeDefault,
            Seccomp::Localhost(SeccompFile::Parts { directory, name }) => {
                Self::Localhost(theirs::SeccompFile { directory, name })
            }
            Seccomp::Localhost(SeccompFile::Path(path)) => Self::Localhost(theirs::SeccompFile {
                directory: path.parent().map(PathBuf::from).unwrap_or_default(),
                name: path
                    .file_name()
                    .map(|it| it.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            }),
        }
    }
}
