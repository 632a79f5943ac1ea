//! Services to kernel rules: ClusterIP, NodePort, external addresses, for TCP, UDP and SCTP.
//!
//! `task` follows the API and tells a back end ([`backends::Backend`]). Stopping leaves the rules in place, so that connections go on.

pub mod backends;
mod health_check;
pub mod service_port;
mod task;

use std::sync::Arc;

use informer::Factory;
use lifecycle::Tasks;
use node_api::ClusterId;
use stdx::{Cidr, World};

use self::backends::{Error, Mode, Networks};

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose Services they are: the table has its name.
    pub cluster: ClusterId,
    pub node_name: String,
    pub mode: &'static Mode,
    /// All pods of the cluster, one range for each family: traffic to Services from elsewhere is
    /// masqueraded.
    pub pod_cidrs: Vec<Cidr>,
    /// The ranges of ClusterIPs: these families are served.
    pub service_cidrs: Vec<Cidr>,
    /// Addresses of the node on which node ports are served; `None`: all.
    pub node_port_addresses: Option<Vec<Cidr>>,
    /// Where the process is that carries connections, if the mode has one.
    pub worker: Option<packets::Place>,
    /// Below which the pods of this node are.
    pub pods_cgroup: String,
}

impl Config {
    fn networks(&self) -> Networks {
        Networks {
            cluster: self.pod_cidrs.clone(),
            services: self.service_cidrs.clone(),
            node_ports: self.node_port_addresses.clone(),
            worker: self.worker.clone(),
        }
    }
}

/// Starts following Services and EndpointSlices; returns at once. The factory's client is
/// `system:kube-proxy`.
pub fn start(config: Config, tasks: &Tasks, _world: &World, factory: &Arc<Factory>) {
    task::spawn(config, tasks, factory);
}

/// Removes what any mode has left in the kernel for the cluster. Needs nothing running.
pub fn purge(cluster: ClusterId) -> Result<(), Error> {
    let purged: Vec<_> = backends::ALL.iter().map(|it| (it.purge)(cluster)).collect();
    purged.into_iter().collect()
}
