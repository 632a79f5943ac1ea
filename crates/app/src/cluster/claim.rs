//! The way from what was asked for to a directory that is ours. Everything is checked before
//! anything is made: what is refused has left nothing behind.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::choice::{Wishes, choose};
use super::neighborhood::Neighborhood;
use super::{Cluster, Registry};
use crate::data_dir::{self, DataDir};

/// A cluster that may start: nobody else has what it has.
pub(crate) struct Claim {
    pub(crate) cluster: Cluster,
    pub(crate) data: DataDir,
    /// Of the API server.
    pub(crate) listener: TcpListener,
}

pub(crate) fn claim(data_dir: &Path, wishes: &Wishes) -> Result<Claim> {
    data_dir::validate(data_dir)?;
    let registry = Registry::of_this_user();
    // Without the lock first: whoever is refused must not even have made the registry.
    plan(&registry, data_dir, wishes)?;
    let locked = registry.lock()?;
    let mut cluster = plan(&registry, data_dir, wishes)?;
    let listener = listen(SocketAddr::new(cluster.bind_address, cluster.https_port))?;
    cluster.https_port = listener.local_addr().context("reading the listening address")?.port();
    let data = DataDir::open(data_dir)?;
    cluster.save(data.path())?;
    locked.put(cluster.id, data.path())?;
    Ok(Claim { cluster, data, listener })
}

/// What [`claim_node`] would give. Nothing is made.
pub(crate) fn plan_node(data_dir: &Path, wishes: &Wishes) -> Result<Cluster> {
    data_dir::validate(data_dir)?;
    plan(&Registry::of_this_user(), data_dir, wishes)
}

/// The same for a machine that becomes a node of a cluster elsewhere: nobody listens here for clients.
pub(crate) fn claim_node(data_dir: &Path, wishes: &Wishes) -> Result<(Cluster, DataDir)> {
    data_dir::validate(data_dir)?;
    let registry = Registry::of_this_user();
    plan(&registry, data_dir, wishes)?;
    let locked = registry.lock()?;
    let cluster = plan(&registry, data_dir, wishes)?;
    let data = DataDir::open(data_dir)?;
    cluster.save(data.path())?;
    locked.put(cluster.id, data.path())?;
    Ok((cluster, data))
}

fn plan(registry: &Registry, data_dir: &Path, wishes: &Wishes) -> Result<Cluster> {
    let kept = Cluster::load(data_dir)?;
    let around = Neighborhood::look(registry, data_dir, kept.as_ref(), wishes.node.is_some())
        .context("looking at what others have")?;
    choose(wishes, kept.as_ref(), &around).or_else(|problems| match problems.as_slice() {
        [problem] => bail!("{problem}"),
        problems => {
            let list: Vec<String> = problems.iter().map(|it| format!("\n  - {it}")).collect();
            bail!("these are in the way:{}", list.concat())
        }
    })
}

pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}: choose another port with --https-port")
    })
}
