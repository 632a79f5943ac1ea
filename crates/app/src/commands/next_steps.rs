//! What a person can do next: after a start, and after a stop.

use std::path::Path;

use crate::cluster::Cluster;
use crate::progress::say;
use crate::{local_nodes, node};

/// What there is to tell of a cluster that is ready.
pub(super) struct Ready<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) kubeconfig: &'a Path,
    /// The user's own, if the context is in it.
    pub(super) merged: Option<&'a Path>,
    pub(super) has_nodes: bool,
    pub(super) is_detached: bool,
    /// The line with which other machines become nodes, if they can.
    pub(super) join: Option<&'a str>,
}

pub(super) fn render(ready: &Ready<'_>) -> Vec<String> {
    let Ready { cluster, kubeconfig, .. } = ready;
    let context = match ready.merged {
        Some(path) => {
            format!("Context {:?} is in {}.", cluster.name.context(), path.display())
        }
        None => format!("export KUBECONFIG={}", kubeconfig.display()),
    };
    let mut lines =
        vec![String::new(), format!("Your cluster is ready. {context} Try:"), String::new()];
    let tries: &[&str] = if ready.has_nodes {
        &[
            "kubectl get nodes",
            "kubectl create deployment web --image=xebec.local/toolbox --replicas=3",
            "kubectl get pods -o wide",
        ]
    } else {
        &[
            "kubectl get namespaces",
            "kubectl api-resources",
            "(there are no nodes: start without --node none, or with --simulate 3, to see pods run)",
        ]
    };
    lines.extend(tries.iter().map(|it| format!("  {it}")));
    lines.push(String::new());
    if !is_on_path("kubectl") {
        lines.extend(how_to_get_kubectl());
    }
    lines.push(match ready.is_detached {
        true => format!("Stop it with: xebec down --name {}", cluster.name),
        false => "Stop it with Ctrl-C.".to_owned(),
    });
    if let Some(join) = ready.join {
        lines.push(String::new());
        lines.push(
            "Make another machine a node, within a day (whoever sees the line can):".to_owned(),
        );
        lines.push(String::new());
        lines.push(format!("  {join}"));
    }
    lines
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .any(|it| rustix::fs::access(it.join(program), rustix::fs::Access::EXEC_OK).is_ok())
}

fn how_to_get_kubectl() -> [String; 4] {
    let architecture = node::architecture();
    [
        "There is no kubectl on your PATH. Your package manager may have one (https://kubernetes.io/docs/tasks/tools/), or:".to_owned(),
        String::new(),
        format!(
            "  curl -LO https://dl.k8s.io/release/v1.36.0/bin/linux/{architecture}/kubectl && sudo install kubectl /usr/local/bin/"
        ),
        String::new(),
    ]
}

/// Containers are not the cluster's process's: whoever stops that is told that they go on.
pub(super) fn say_farewell(cluster: &Cluster, directory: &Path) {
    let name = &cluster.name;
    let n_containers =
        node::count_containers(cluster) + local_nodes::count_containers(cluster, directory);
    let containers = match n_containers {
        0 => return,
        1 => "1 container goes on running".to_owned(),
        n => format!("{n} containers go on running"),
    };
    say("");
    let command = if cluster.joined.is_some() { "join" } else { "up" };
    say(&format!(
        "{containers}. `xebec {command} --name {name}` takes over, `xebec down --purge --name {name}` ends everything of this cluster."
    ));
}
