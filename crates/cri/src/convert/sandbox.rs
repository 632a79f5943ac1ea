//! Sandboxes.

use std::net::IpAddr;

use node_api::ClusterId;
use node_api::containers::{IdMapping, IdMappings};
use node_api::network::Protocol;
use node_api::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};

use super::{CLUSTER, RECORD, record, resources};
use crate::messages::{self as cri, namespace, profile};

/// `cgroup`: of the pod, from the hierarchies' root.
pub(crate) fn sandbox(
    config: &SandboxConfig,
    cluster: ClusterId,
    cgroup: &str,
) -> cri::PodSandboxConfig {
    let pod = &config.pod;
    let mut labels = config.labels.clone();
    labels.extend(
        [
            (CLUSTER, cluster.to_string()),
            ("io.kubernetes.pod.name", pod.name.clone()),
            ("io.kubernetes.pod.namespace", pod.namespace.clone()),
            ("io.kubernetes.pod.uid", pod.uid.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut annotations = config.annotations.clone();
    annotations.insert(RECORD.to_owned(), record(config));
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.to_string(),
            namespace: pod.namespace.clone(),
            attempt: config.attempt,
        }),
        // The host has its name already.
        hostname: match config.network {
            NetworkNamespace::Pod => config.hostname.clone(),
            NetworkNamespace::Host => String::new(),
        },
        log_directory: log_directory(config),
        dns_config: config.dns.as_ref().map(|dns| cri::DnsConfig {
            servers: dns.servers.iter().map(ToString::to_string).collect(),
            searches: dns.searches.clone(),
            options: dns.options.clone(),
        }),
        port_mappings: config.host_ports.iter().map(port).collect(),
        labels,
        annotations,
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: cgroup.to_owned(),
            security_context: Some(cri::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(config)),
                supplemental_groups: Vec::new(),
                privileged: config.privileged,
                seccomp: Some(cri::SecurityProfile {
                    profile_type: profile::RUNTIME_DEFAULT,
                    localhost_ref: String::new(),
                }),
            }),
            sysctls: config.sysctls.clone(),
            overhead: Some(resources(&config.overhead)),
            resources: Some(resources(&config.resources)),
        }),
    }
}

/// CRI's paths of logs are below the sandbox's directory; ours may be anywhere.
pub(super) fn log_directory(config: &SandboxConfig) -> String {
    match config.log_directory.to_string_lossy() {
        it if it.is_empty() => "/".to_owned(),
        it => it.into_owned(),
    }
}

pub(super) fn namespaces(config: &SandboxConfig) -> cri::NamespaceOption {
    cri::NamespaceOption {
        network: match config.network {
            NetworkNamespace::Pod => namespace::POD,
            NetworkNamespace::Host => namespace::NODE,
        },
        pid: match config.pid {
            PidNamespace::Container => namespace::CONTAINER,
            PidNamespace::Pod => namespace::POD,
            PidNamespace::Host => namespace::NODE,
        },
        ipc: match config.ipc {
            IpcNamespace::Pod => namespace::POD,
            IpcNamespace::Host => namespace::NODE,
        },
        target_id: String::new(),
        userns_options: config.user_namespace.as_ref().map(user_namespace),
    }
}

fn user_namespace(mappings: &IdMappings) -> cri::UserNamespace {
    cri::UserNamespace {
        mode: namespace::POD,
        uids: ids(&mappings.uids),
        gids: ids(&mappings.gids),
    }
}

pub(super) fn ids(mappings: &[IdMapping]) -> Vec<cri::IdMapping> {
    let one = |it: &IdMapping| cri::IdMapping {
        host_id: it.host,
        container_id: it.container,
        length: it.length,
    };
    mappings.iter().map(one).collect()
}

fn port(port: &node_api::network::HostPort) -> cri::PortMapping {
    cri::PortMapping {
        protocol: match port.protocol {
            Protocol::Tcp => 0,
            Protocol::Udp => 1,
            Protocol::Sctp => 2,
        },
        container_port: port.container_port.into(),
        host_port: port.host_port.into(),
        host_ip: port.host_address.map(|it| it.to_string()).unwrap_or_default(),
    }
}

/// The runtime's first one first. None with the host's network, whatever it says.
pub(crate) fn addresses(
    config: &SandboxConfig,
    network: Option<&cri::PodSandboxNetworkStatus>,
) -> Vec<IpAddr> {
    let Some(network) = network.filter(|_| config.network == NetworkNamespace::Pod) else {
        return Vec::new();
    };
    let others = network.additional_ips.iter().map(|it| &it.ip);
    std::iter::once(&network.ip).chain(others).filter_map(|it| it.parse().ok()).collect()
}
