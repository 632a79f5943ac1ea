//! `xebec join`: this machine becomes a node of a cluster elsewhere, and is one from then on: without a
//! token at later starts.

mod enter;
mod flags;
mod record;
mod start;

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use node_api::ClusterId;
use stdx::World;

use super::access::block_on;
use super::next_steps;
use crate::cluster::{Cluster, Joined, NodeWishes, Registry, Wishes, claim_node, plan_node};
use crate::data_dir::{self, DataDir};
use crate::detach::{self, Parent};
use crate::joining::{Credentials, Purpose};
use crate::{node, serve};

use enter::Entered;
pub(crate) use flags::Flags;

pub(crate) fn run(flags: Flags) -> Result<()> {
    if flags.detach && !flags.detached_child {
        let stdin = if flags.reads_stdin() { Stdio::inherit() } else { Stdio::null() };
        return detach::start_with(stdin);
    }
    let (cluster, data) = prepare(&flags)?;
    let parent = flags.detached_child.then(|| Parent::leave(data.path())).transpose()?;
    flags.component.start_logging(flags.verbosity);
    let parent = Mutex::new(parent);
    let take_parent = || parent.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (started, directory) = (cluster.clone(), data.path().to_owned());
    let outcome = serve::run_and_then(
        |tasks| async move {
            let kept = start::start(&flags, started, data, &tasks).await?;
            take_parent().map_or(Ok(()), Parent::ready)?;
            Ok(kept)
        },
        |_| next_steps::say_farewell(&cluster, &directory),
    );
    if let (Err(err), Some(parent)) = (&outcome, take_parent()) {
        parent.fail(err);
    }
    outcome
}

/// All that can be refused is refused here, before anything is made: by this machine, and by the
/// cluster.
fn prepare(flags: &Flags) -> Result<(Cluster, DataDir)> {
    let registry = Registry::of_this_user();
    let directory = registry.place(flags.data_dir.as_deref(), flags.name.as_ref())?;
    data_dir::validate(&directory)?;
    flags.ways.validate()?;
    node::check_requirements()?;
    let given = flags.node_ip.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    ensure!(
        !given.is_empty() || !node::machine_addresses().is_empty(),
        "this machine has no way to the world, and so no address that others reach it at: give --node-ip"
    );
    let kept = Cluster::load(&directory)?;
    let is_in = |it: &&Cluster| it.joined.is_some() && is_in(flags, &directory, it);
    if let Some(kept) = kept.as_ref().filter(is_in) {
        let mut joins = kept.joined.clone();
        if let (Some(joined), Some(target)) = (&mut joins, &flags.target) {
            joined.server = target.place.to_string();
        }
        return claim_node(&directory, &wishes(flags, joins, None));
    }
    if kept.as_ref().is_some_and(|it| it.joined.is_none()) {
        // Says why.
        return claim_node(&directory, &wishes(flags, Some(Joined::at("")), None));
    }
    let Some(target) = &flags.target else {
        bail!("{}", flags::how_to_join(kept.as_ref()));
    };
    let token = flags.token(target)?;
    let name = flags.node_name.clone().or_else(|| Some(kept.as_ref()?.node.as_ref()?.name.clone()));
    let name = name.unwrap_or_else(node::node_name);
    let entered = block_on(async |tasks| {
        enter::enter(&target.place, &token, &name, &given, &World::system(), tasks).await
    })?;
    let joins = Some(Joined::at(&target.place.to_string()));
    let wishes = wishes(flags, joins, Some(&entered));
    let planned = plan_node(&directory, &wishes)?;
    block_on(async |tasks| entered.check_reach(&planned, &World::system(), tasks).await)?;
    let (cluster, data) = claim_node(&directory, &wishes)?;
    entered.save(&data, &name)?;
    Ok((cluster, data))
}

/// Whether this machine is a node already, by what it has: with a token that is not needed, the cluster
/// is asked, which may have deleted the Node.
fn is_in(flags: &Flags, directory: &Path, cluster: &Cluster) -> bool {
    let Some(node) = &cluster.node else { return false };
    let (folder, world) = (directory.join("pki"), World::system());
    let credentials = Credentials { folder, node: node.name.clone(), world: world.clone() };
    let Ok(Some(identity)) = credentials.load(&Purpose::Kubelet) else { return false };
    let Some(target) = flags.target.as_ref().filter(|it| flags.has_token(it)) else { return true };
    let Ok(ca_pem) = read(&directory.join("pki").join(AUTHORITY)) else { return true };
    let asked = block_on(async |tasks| {
        enter::is_shut_out(&identity, (&target.place, &ca_pem), &world, tasks).await
    });
    !asked.unwrap_or(false)
}

fn wishes(flags: &Flags, joins: Option<Joined>, entered: Option<&Entered>) -> Wishes {
    let node = NodeWishes {
        name: flags.node_name.clone(),
        default_name: node::node_name(),
        ips: flags.node_ip.clone().map(|it| it.0).unwrap_or_default(),
        default_ips: node::machine_addresses(),
        kubelet_port: flags.kubelet_port,
        cgroup_root: flags.cgroup_root.clone(),
        container_runtime: flags.container_runtime_endpoint.clone(),
    };
    let random = World::system().random.next_u64() as u32;
    Wishes {
        name: flags.name.clone(),
        bind_address: Ipv4Addr::UNSPECIFIED.into(),
        https_port: None,
        service_cidrs: entered.map(|it| it.facts.service_cidrs.clone()),
        pod_cidrs: entered.map(|it| it.facts.pod_cidrs.clone()),
        node_ports: None,
        node: Some(node),
        nodes: None,
        node_cidrs: None,
        joins,
        fresh_id: ClusterId::new(NonZeroU32::MIN.saturating_add(random)),
    }
}

/// Whom the machine has joined, below `pki`.
const AUTHORITY: &str = "ca.crt";

fn authority(data: &DataDir) -> PathBuf {
    data.pki().join(AUTHORITY)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
