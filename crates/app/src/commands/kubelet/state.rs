//! What a kubelet that runs alone has in the kernel, kept in its directory: so a restart finds it
//! again, and `--cleanup` removes it.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use features::Gates;
use linux::netlink::route::RouteSocket;
use node_api::ClusterId;
use serde::{Deserialize, Serialize};
use service_proxy::backends;
use stdx::Cidr;

use crate::commands::network::{Cidrs, parse_pod_cidrs};
use crate::data_dir::write_private;
use crate::node::Settings;

const FILE: &str = "kubelet.json";
const BRIDGES_TRIED: u32 = 1000;
/// Of nobody (RFC 5737): what is removed is found by its cluster's id.
const NO_RANGE: &str = "192.0.2.0/24";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    /// Eight digits.
    id: String,
    pub(super) node_name: String,
    pub(super) bridge: String,
    pub(super) cgroup_root: String,
    /// Empty until they are known.
    #[serde(default)]
    pub(super) pod_cidrs: Vec<Cidr>,
    /// The socket of another runtime than ours.
    #[serde(default)]
    pub(super) container_runtime: Option<PathBuf>,
}

impl State {
    pub(super) fn load(data_dir: &Path) -> Result<Option<Self>> {
        let path = data_dir.join(FILE);
        let doing = || format!("reading {}", path.display());
        match std::fs::read(&path) {
            Ok(json) => {
                let state: Self = serde_json::from_slice(&json).with_context(doing)?;
                state.id.parse::<ClusterId>().with_context(doing)?;
                Ok(Some(state))
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err).with_context(doing),
        }
    }

    pub(super) fn save(&self, data_dir: &Path) -> Result<()> {
        let path = data_dir.join(FILE);
        let json = serde_json::to_vec_pretty(self).context("encoding what the node has")?;
        write_private(&path, &json).with_context(|| format!("writing {}", path.display()))
    }

    /// Of a node that was never started here.
    pub(super) fn new(id: ClusterId, node_name: &str) -> Result<Self> {
        let mut socket = RouteSocket::open().context("looking at links")?;
        let links = socket.links().context("looking at links")?;
        let is_free =
            |name: &String| links.iter().all(|it| it.name != *name || it.group == id.link_group());
        let bridge = (0..BRIDGES_TRIED).map(|it| format!("xebec{it}")).find(is_free);
        Ok(Self {
            id: id.to_string(),
            node_name: node_name.to_owned(),
            bridge: bridge.context("all names of links for the pod network are taken")?,
            cgroup_root: id.cgroup(),
            pod_cidrs: Vec::new(),
            container_runtime: None,
        })
    }

    /// As it was loaded or made.
    pub(super) fn id(&self) -> Result<ClusterId> {
        self.id.parse().with_context(|| format!("{FILE}: id"))
    }

    /// With the range of this node's pods, and of all.
    pub(super) fn settings(&self, cluster_cidr: Option<&str>) -> Result<Settings> {
        let of_node = Cidrs::new(self.pod_cidrs.clone());
        let of_node =
            of_node.context("spec.podCIDRs of the Node: no range, or two of one family")?;
        let of_all = match cluster_cidr {
            Some(text) => parse_pod_cidrs(text).map_err(|err| anyhow!("--cluster-cidr: {err}"))?,
            None => of_node.clone(),
        };
        ensure!(
            of_all.families() == of_node.families(),
            "--cluster-cidr {of_all} has other families than spec.podCIDRs of the Node, {of_node}"
        );
        self.settings_of(of_node.all().to_vec(), of_all)
    }

    pub(super) fn settings_to_purge(&self) -> Result<Settings> {
        let known = self.settings(None);
        known.or_else(|_| {
            let nobodys = Cidrs::new(vec![NO_RANGE.parse()?]).context(NO_RANGE)?;
            self.settings_of(nobodys.all().to_vec(), nobodys)
        })
    }

    fn settings_of(&self, node_cidrs: Vec<Cidr>, pod_cidrs: Cidrs) -> Result<Settings> {
        Ok(Settings {
            cluster: self.id()?,
            node_name: self.node_name.clone(),
            node_ips: Vec::new(),
            bridge: self.bridge.clone(),
            node_cidrs,
            // Services are the proxy's.
            service_cidrs: pod_cidrs.clone(),
            pod_cidrs,
            proxy_mode: backends::DEFAULT,
            network: network::NONE,
            has_direct_routes: false,
            bgp: network::Bgp::default(),
            cgroup_root: self.cgroup_root.clone(),
            kubelet_port: 0,
            container_runtime: self.container_runtime.clone(),
            allowed_unsafe_sysctls: Vec::new(),
            gates: Gates::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn what_is_kept_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(State::load(directory.path()).unwrap(), None);
        let text = r#"{"id":"00c0ffee","nodeName":"a","bridge":"xebec1","cgroupRoot":"/x"}"#;
        std::fs::write(directory.path().join("kubelet.json"), text).unwrap();
        let mut state = State::load(directory.path()).unwrap().unwrap();
        assert_eq!(state.pod_cidrs, []);
        assert!(state.settings(None).is_err());
        assert_eq!(state.settings_to_purge().unwrap().cluster.to_string(), "00c0ffee");
        state.pod_cidrs = vec!["10.244.3.0/24".parse().unwrap()];
        state.save(directory.path()).unwrap();
        assert_eq!(State::load(directory.path()).unwrap().as_ref(), Some(&state));
        let settings = state.settings(Some("10.244.0.0/16")).unwrap();
        assert_eq!(settings.node_cidrs, ["10.244.3.0/24".parse().unwrap()]);
        assert_eq!(settings.pod_cidrs.to_string(), "10.244.0.0/16");
        let other = state.settings(Some("fd00::/56")).unwrap_err().to_string();
        assert!(other.contains("has other families"), "{other}");
    }
}
