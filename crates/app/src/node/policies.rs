//! The network policies of this node, as the user `xebec:network`.

use anyhow::{Context as _, Result};
use apimachinery::User;
use informer::Factory;

use super::{Neighbors, Settings};

/// From now on no pod is connected before the kernel knows what policies say of it.
pub(super) fn start(settings: &Settings, neighbors: &Neighbors<'_>) -> Result<()> {
    let tasks = neighbors.tasks.child("network-policies");
    let client = neighbors.api.server.client(User::new("xebec:network", &[]), "network");
    let factory = Factory::new(client, neighbors.world.clone(), &tasks);
    let config = network::policy::Config {
        cluster: settings.cluster,
        node_name: settings.node_name.clone(),
        families: settings.node_cidrs.iter().map(|it| it.family()).collect(),
    };
    let policies = network::policy::start(config, &tasks, &factory);
    let policies = policies.context("following the network policies")?;
    factory.start();
    neighbors.network.guard(policies).context("guarding the pod network by network policies")
}
