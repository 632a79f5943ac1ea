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

use crate::data_dir::{DataDir, make_private, write_private};
use crate::joining::{
    Credentials, Facts, JoinToken, Place, Purpose, Refusal, check_name, check_version, discover,
    is_unauthorized,
};
use crate::node;

const AGENT: &str = "xebec/v1.36 (join)";

/// What the cluster gave.
pub(super) struct Entered {
    ca_pem: String,
    kubelet: Identity,
    pub(super) facts: Facts,
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
    let config = Config {
        server: place.url(),
        ca_pem: discovered.ca_pem.clone().into_bytes(),
        user_agent: AGENT.to_owned(),
        ..Config::default()
    };
    let connect = |config: Config| -> Result<Client> {
        Ok(Client::new(Arc::new(Https::new(tasks, world, &config)?), "xebec-join"))
    };
    let bearer = format!("{}.{}", token.bootstrap.id, token.bootstrap.secret);
    let bootstrap = connect(Config { token: Some(bearer), ..config.clone() })?;
    check_version(&bootstrap, place).await?;
    let credentials =
        Credentials { folder: PathBuf::new(), node: name.to_owned(), world: world.clone() };
    let kubelet =
        credentials.ask(&bootstrap, &Purpose::Kubelet).await.map_err(
            |err| match is_unauthorized(&err) {
                true => Refusal::TokenRefused { id: token.bootstrap.id.clone() }.into(),
                false => err,
            },
        )?;
    let shown = Rotating::new(&kubelet).context("using the certificate of this node")?;
    let itself = connect(Config { identity: Some(shown), ..config })?;
    let addresses = match given {
        [] => node::machine_addresses(),
        given => given.to_vec(),
    };
    check_name(&itself, name, &node::machine_id(), &addresses).await?;
    let facts = Facts::read(&itself).await?;
    Ok(Entered { ca_pem: discovered.ca_pem, kubelet, facts })
}

impl Entered {
    pub(super) fn save(&self, data: &DataDir, name: &str) -> Result<()> {
        let folder = data.pki();
        make_private(&folder).with_context(|| format!("making {}", folder.display()))?;
        let path = super::authority(data);
        write_private(&path, self.ca_pem.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
        let credentials = Credentials { folder, node: name.to_owned(), world: World::system() };
        credentials.save(&Purpose::Kubelet, &self.kubelet)
    }
}
