//! Programs of other Kubernetes that run now.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::Error;

/// As the kernel calls them: fifteen characters at the most.
const NAMES: [&str; 15] = [
    "antrea-agent",
    "calico-node",
    "cilium-agent",
    "flanneld",
    "k0s",
    "k3s",
    "k3s-agent",
    "k3s-server",
    "kindnetd",
    "kube-proxy",
    "kube-router",
    "kubelet",
    "kubelite",
    "rke2",
    "weaver",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: u32,
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// One that ends meanwhile is not there.
pub(super) fn find() -> Result<Vec<Owner>, Error> {
    const OWN: &str = "/proc/thread-self/ns/net";
    let own = fs::metadata(OWN).map_err(|err| Error::Look(OWN.into(), err))?.ino();
    let processes = fs::read_dir("/proc").map_err(|err| Error::Look("/proc".into(), err))?;
    let mut found = Vec::new();
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let name = name.trim_end();
        let is_here = || fs::metadata(entry.path().join("ns/net")).is_ok_and(|it| it.ino() == own);
        if NAMES.contains(&name) && is_here() {
            found.push(Owner { pid, name: name.to_owned() });
        }
    }
    Ok(found)
}
