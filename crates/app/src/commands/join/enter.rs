//! From a token to a certificate of the node's own. Nothing is made on this machine.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::{Identity, Rotating};
use client::Client;
use client::https::{Config, Https};
use lifecycle::Tasks;
use stdx::World;

use crate::cluster::{Cluster, node_addresses};
use crate::data_dir::{DataDir, make_private, write_private};
use crate::joining::{
    Credentials, Facts, JoinToken, Place, Purpose, Refusal, check_name, check_reach, check_version,
    discover, is_unauthorized,
};
use crate::node;

const AGENT: &str = "xebec/v1.36 (join)";

/// What the cluster gave.
pub(super) struct Entered {
    place: Place,
    ca_pem: String,
    kubelet: Identity,
    pub(super) facts: Facts,
}

/// To one server, whose authority is known.
fn config(place: &Place, ca_pem: &str) -> Config {
    Config {
        server: place.url(),
        ca_pem: ca_pem.as_bytes().to_vec(),
        user_agent: AGENT.to_owned(),
        ..Config::default()
    }
}

fn connect(config: &Config, world: &World, tasks: &Tasks) -> Result<Client> {
    Ok(Client::new(Arc::new(Https::new(tasks, world, config)?), "xebec-join"))
}

fn connect_as(
    identity: &Identity,
    (place, ca_pem): (&Place, &str),
    world: &World,
    tasks: &Tasks,
) -> Result<Client> {
    let shown = Rotating::new(identity).context("using the certificate of this node")?;
    connect(&Config { identity: Some(shown), ..config(place, ca_pem) }, world, tasks)
}

/// Whether the cluster says that it does not know the node that this machine has the certificate
/// of. One that cannot be asked says nothing.
pub(super) async fn is_shut_out(
    identity: &Identity,
    (place, ca_pem): (&Place, &str),
    world: &World,
    tasks: &Tasks,
) -> Result<bool> {
    let client = connect_as(identity, (place, ca_pem), world, tasks)?;
    Ok(client.get_path("/version").await.is_err_and(|err| err.code() == 401))
}

pub(super) async fn enter(
    place: &Place,
    token: &JoinToken,
    name: &str,
    given: &[IpAddr],
    world: &World,
    tasks: &Tasks,
) -> Result<Entered> {
    let discovered = discover(place, token, world).await?;
    let ca_pem = discovered.ca_pem;
    let bearer = format!("{}.{}", token.bootstrap.id, token.bootstrap.secret);
    let as_bearer = Config { token: Some(bearer), ..config(place, &ca_pem) };
    let bootstrap = connect(&as_bearer, world, tasks)?;
    check_version(&bootstrap, place).await?;
    let credentials = Credentials::new(PathBuf::new(), name, world);
    let kubelet =
        credentials.ask(&bootstrap, &Purpose::Kubelet).await.map_err(
            |err| match is_unauthorized(&err) {
                true => Refusal::TokenRefused { id: token.bootstrap.id.clone() }.into(),
                false => err,
            },
        )?;
    let itself = connect_as(&kubelet, (place, &ca_pem), world, tasks)?;
    let addresses = match given {
        [] => node::machine_addresses(),
        given => given.to_vec(),
    };
    check_name(&itself, name, &node::machine_id(), &addresses).await?;
    let facts = Facts::read(&itself).await?;
    Ok(Entered { place: place.clone(), ca_pem, kubelet, facts })
}

impl Entered {
    /// Whether the server gets through to the node as it is planned.
    pub(super) async fn check_reach(
        &self,
        planned: &Cluster,
        world: &World,
        tasks: &Tasks,
    ) -> Result<()> {
        let node = planned.node.as_ref().context("a machine that joins has a node")?;
        let itself = connect_as(&self.kubelet, (&self.place, &self.ca_pem), world, tasks)?;
        let ranges: Vec<IpAddr> =
            self.facts.pod_cidrs.all().iter().map(|it| it.network()).collect();
        let addresses = node_addresses(&node.ips, &node::machine_addresses(), &ranges);
        check_reach(&itself, &self.place, (&addresses, node.kubelet_port)).await
    }

    pub(super) fn save(&self, data: &DataDir, name: &str) -> Result<()> {
        let folder = data.pki();
        make_private(&folder).with_context(|| format!("making {}", folder.display()))?;
        let path = super::authority(data);
        write_private(&path, self.ca_pem.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
        let credentials = Credentials::new(folder, name, &World::system());
        // Those of a node that was here before are not this one's.
        for component in &Purpose::COMPONENTS {
            credentials.forget(component)?;
        }
        credentials.save(&Purpose::Kubelet, &self.kubelet)
    }
}
