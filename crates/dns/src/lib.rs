//! Cluster DNS: names of Services and pods from the caches, everything else forwarded and cached.
//! UDP and TCP.
//!
//! Follows the specification "Kubernetes DNS-Based Service Discovery" 1.1.0. Answers for the
//! cluster's names come from memory at once; a name that is not there is said not to be.

mod answer;
mod cache;
mod caches;
mod forward;
pub mod garbage;
mod server;
#[cfg(test)]
mod tests;
mod wire;
mod zone;

use std::net::SocketAddr;
use std::sync::Arc;

use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

#[derive(Clone, Debug)]
pub struct Config {
    /// UDP and TCP: one address, or one of each family.
    pub listen: Vec<SocketAddr>,
    /// Such as `cluster.local`.
    pub domain: String,
    /// Where other names are asked; none: they are refused.
    pub upstreams: Vec<SocketAddr>,
}

/// Listens, then follows Services, EndpointSlices and Namespaces. Returns where it listens; an error
/// when one of the addresses cannot be had.
pub async fn start(
    config: Config,
    tasks: &Tasks,
    world: &World,
    factory: &Arc<Factory>,
) -> std::io::Result<Vec<SocketAddr>> {
    let caches = Arc::new(caches::Caches::new(factory));
    let zone = zone::Zone::new(&config.domain);
    let forwarder = forward::Forwarder::new(config.upstreams, world.random.clone());
    let answerer = answer::Answerer::new(zone, caches, forwarder, world.random.clone());
    server::start(&config.listen, tasks, Arc::new(answerer)).await
}
