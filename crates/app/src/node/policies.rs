//! The network policies of this node, as the user `xebec:network`.

use anyhow::{Context as _, Result};
use informer::Factory;
use network::Network;

use super::{Settings, Wiring};

/// From now on no pod is connected before the kernel knows what policies say of it.
pub(super) fn start(settings: &Settings, wiring: &Wiring<'_>, network: &Network) -> Result<()> {
    let tasks = wiring.tasks.child("network-policies");
    let factory = Factory::new(wiring.clients.network.clone(), wiring.world.clone(), &tasks);
    let config = network::policy::Config {
        cluster: settings.cluster,
        node_name: settings.node_name.clone(),
        families: settings.pod_cidrs.families(),
    };
    let policies = network::policy::start(config, &tasks, &factory);
    let policies = policies.context("following the network policies")?;
    factory.start();
    network.guard(policies).context("guarding the pod network by network policies")
}
