//! Ports of the containers of a pod that are in each other's way.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

use apimachinery::field::Path;

use crate::check::text;
use crate::core::pod_spec::validation::annotations;

pub(super) fn of(spec: &PodSpec, path: &Path) -> Vec<String> {
    let mut ports: Vec<(ContainerPort, Path)> = Vec::new();
    for (container, path) in annotations::containers(spec, path) {
        let path = path.child("ports");
        let with_path = |(index, port)| (port, path.index(index));
        ports.extend(container.ports.into_iter().flatten().enumerate().map(with_path));
    }
    let mut warnings = Vec::new();
    for (index, (port, path)) in ports.iter().enumerate() {
        if !text(port.host_ip.as_ref()).is_empty() && host_port(port) == 0 {
            warnings.push(format!("{path}: hostIP set without hostPort: {}", render(port)));
        }
        let is_same = |it: &&(ContainerPort, Path)| {
            (it.0.container_port, &it.0.protocol) == (port.container_port, &port.protocol)
        };
        for (other, path_other) in ports[..index].iter().filter(is_same) {
            if let Some(what) = conflict(port, other) {
                warnings.push(format!("{path}: {what} port definition with {path_other}"));
            }
        }
    }
    warnings.extend(of_names(&ports));
    warnings
}

fn host_port(port: &ContainerPort) -> i32 {
    port.host_port.unwrap_or(0)
}

/// Of two ports that are the same in the pod.
fn conflict(port: &ContainerPort, other: &ContainerPort) -> Option<&'static str> {
    let (ip, other_ip) = (text(port.host_ip.as_ref()), text(other.host_ip.as_ref()));
    let is_same_port = host_port(port) == host_port(other);
    if ip == other_ip && is_same_port {
        Some("duplicate")
    } else if host_port(port) == 0 || host_port(other) == 0 {
        Some("overlapping")
    } else if is_same_port && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn of_names(ports: &[(ContainerPort, Path)]) -> Vec<String> {
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    let mut warnings = Vec::new();
    for (port, path) in ports {
        let name = text(port.name.as_ref());
        if name.is_empty() {
            continue;
        }
        match names.get(name) {
            Some(first) => warnings.push(format!(
                "{path}: duplicate port name {name:?} with {first}, services and probes that \
                 select ports by name will use {first}"
            )),
            None => {
                names.insert(name, path);
            }
        }
    }
    warnings
}

/// As Go prints it.
fn render(port: &ContainerPort) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        text(port.name.as_ref()),
        host_port(port),
        port.container_port,
        text(port.protocol.as_ref()),
        text(port.host_ip.as_ref())
    )
}
