//! Cluster DNS: names of Services and pods from the caches, everything else forwarded and cached. UDP and TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

#[derive(Clone, Debug)]
pub struct Config {
    /// UDP and TCP.
    pub listen: SocketAddr,
    /// Such as `cluster.local`.
    pub domain: String,
    /// Where other names are asked; none: they are refused.
    pub upstreams: Vec<SocketAddr>,
}

/// Listens, then follows Services, EndpointSlices, Namespaces and Pods. An error when the address cannot be had.
pub async fn start(
    _config: Config,
    _tasks: &Tasks,
    _world: &World,
    _factory: &Arc<Factory>,
) -> std::io::Result<SocketAddr> {
    todo!()
}
