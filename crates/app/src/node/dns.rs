//! The cluster's DNS on this node: it listens on the addresses by which this node's pods reach it.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, Result};
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use stdx::World;

use super::{CLUSTER_DOMAIN, machine};

pub(super) const PORT: u16 = 53;

/// `cluster_ips` are of the Service; DNS answers in their families. Returns when it listens.
pub(super) async fn start(
    client: &Client,
    gateways: &[IpAddr],
    cluster_ips: &[IpAddr],
    tasks: &Tasks,
    world: &World,
) -> Result<()> {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let mut listen: Vec<_> = gateways.iter().map(|it| SocketAddr::new(*it, PORT)).collect();
    listen.retain(|it| cluster_ips.iter().any(|address| address.is_ipv4() == it.is_ipv4()));
    let config = ::dns::Config {
        listen: listen.clone(),
        domain: CLUSTER_DOMAIN.to_owned(),
        upstreams: machine::name_servers(),
    };
    ::dns::start(config, tasks, world, &factory).await.with_context(|| {
        format!(
            "DNS cannot listen on {listen:?}: does another name server listen on every address?"
        )
    })?;
    factory.start();
    Ok(())
}
