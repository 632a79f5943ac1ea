//! How many containers of a cluster run, whether or not the cluster does: by their cgroups, which
//! the kernel keeps.

use std::sync::Arc;

use linux::cgroups::{Error, Hierarchies};

use crate::cluster::Cluster;

/// Where a kubelet has the cgroups of pods, below the root of the node.
const CLASSES: &[&str] = &["kubepods", "kubepods/burstable", "kubepods/besteffort"];

/// 0 where it cannot be seen.
pub(crate) fn count(cluster: &Cluster) -> usize {
    let Some(node) = &cluster.node else { return 0 };
    count_below(node.cgroup_root.trim_matches('/'))
}

/// The same of a node whose cgroups are below this one.
pub(crate) fn count_below(root: &str) -> usize {
    let count_all = |hierarchies: Arc<Hierarchies>| {
        CLASSES.iter().map(|it| count_in(&hierarchies, &format!("{root}/{it}"))).sum()
    };
    Hierarchies::detect().and_then(count_all).unwrap_or(0)
}

/// Below a class there are pods, and below these the containers.
fn count_in(hierarchies: &Arc<Hierarchies>, class: &str) -> Result<usize, Error> {
    let mut n_running = 0;
    for pod in hierarchies.cgroup(class)?.children()?.iter().filter(|it| it.starts_with("pod")) {
        let pod = format!("{class}/{pod}");
        for container in hierarchies.cgroup(&pod)?.children()? {
            let cgroup = hierarchies.cgroup(&format!("{pod}/{container}"))?;
            n_running += usize::from(!cgroup.processes()?.is_empty());
        }
    }
    Ok(n_running)
}
