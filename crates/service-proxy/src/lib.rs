//! Services to kernel rules: ClusterIP, NodePort, external addresses, for TCP, UDP and SCTP.
//!
//! A back end renders what the kernel should hold, purely; one diff turns it into the smallest
//! transaction. Stopping leaves the rules in place, so that connections go on.

pub mod backends;
mod health_check;
pub mod service_port;
mod strangers;
mod task;

use std::net::Ipv4Addr;
use std::sync::Arc;

use informer::Factory;
use lifecycle::Tasks;
use node_api::ClusterId;
use stdx::World;

use self::backends::nftables::{Backend, Networks};
use self::service_port::Network;

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose Services they are: the table has its name.
    pub cluster: ClusterId,
    pub node_name: String,
    /// All pods of the cluster: traffic to Services from elsewhere is masqueraded.
    pub cluster_network: Ipv4Addr,
    pub cluster_prefix_length: u8,
    pub service_network: Ipv4Addr,
    pub service_prefix_length: u8,
}

impl Config {
    fn networks(&self) -> Networks {
        let network = |address, prefix_length| Network { address, prefix_length };
        Networks {
            cluster: network(self.cluster_network, self.cluster_prefix_length),
            services: network(self.service_network, self.service_prefix_length),
        }
    }
}

/// Starts following Services and EndpointSlices; returns at once. The factory's client is
/// `system:kube-proxy`.
pub fn start(config: Config, tasks: &Tasks, _world: &World, factory: &Arc<Factory>) {
    task::spawn(config, tasks, factory);
}

/// Removes the cluster's table. Needs nothing running.
pub fn purge(cluster: ClusterId) -> Result<(), linux::netlink::Error> {
    Backend::purge(cluster)
}
