//! `xebec status`: how a cluster is, as its own API and store say it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::Resource;
use client::https::Https;
use client::{Client, ListOptions};
use k8s_openapi::api::core::v1::{Node, Pod};
use lifecycle::Tasks;
use stdx::World;

use crate::cluster::{Cluster, Selection};
use crate::datastore::amounts::render_size;
use crate::datastore::socket::{self, Answer, Request};
use crate::local_nodes;
use crate::progress::{align, say};
use crate::{data_dir, kubeconfig_file, node};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
}

/// A server that does not answer by then is said not to.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends with 1 when the cluster does not run or does not answer.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let path = flags.selection.find()?;
    let pid = data_dir::running(&path)?;
    let cluster = Cluster::load(&path)?;
    let mut lines = Lines(Vec::new());
    if let Some(cluster) = &cluster {
        lines.add("name", &cluster.name.to_string());
        lines.add("id", &cluster.id.to_string());
    }
    lines.add("data directory", &path.display().to_string());
    let joined = cluster.as_ref().and_then(|it| it.joined.as_ref());
    if let Some(joined) = joined {
        lines.add("node of", &format!("the cluster at {}", joined.server));
    }
    let command = if joined.is_some() { "join" } else { "up" };
    let Some(pid) = pid else {
        let n_containers = cluster
            .as_ref()
            .map_or(0, |it| node::count_containers(it) + local_nodes::count_containers(it, &path));
        lines.add("state", "stopped");
        lines.add_local_nodes(cluster.as_ref(), &path)?;
        lines.add("containers", &n_containers.to_string());
        lines.say();
        bail!("it does not run: start it with `xebec {command} --data-dir {}`", path.display());
    };
    lines.add("state", &format!("running (process {})", pid.as_raw_nonzero()));
    if let Some(cluster) = cluster.as_ref().filter(|it| it.joined.is_some()) {
        // What there is to know of a node, its cluster says.
        lines.add("containers", &node::count_containers(cluster).to_string());
        lines.say();
        return Ok(());
    }
    lines.add_local_nodes(cluster.as_ref(), &path)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the tokio runtime")?;
    let asked = runtime.block_on(async {
        let tasks = Tasks::new();
        let outcome = tokio::time::timeout(PATIENCE, ask(&path, &tasks, &mut lines)).await;
        tasks.cancel();
        outcome.with_context(|| format!("the API server has not answered for {PATIENCE:?}"))?
    });
    lines.add("store", &store(&path));
    lines.say();
    asked
}

struct Lines(Vec<[String; 2]>);

impl Lines {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push([name.to_owned(), value.to_owned()]);
    }

    /// Those beside the one that is `up` itself.
    fn add_local_nodes(&mut self, cluster: Option<&Cluster>, path: &Path) -> Result<()> {
        let nodes = cluster.map_or_else(Vec::new, |it| local_nodes::Node::all(it, path));
        let mut shown = Vec::new();
        for node in &nodes {
            shown.push(format!("{} ({})", node.place.name, node.observe()?.state()));
        }
        if !shown.is_empty() {
            self.add("further nodes", &shown.join(", "));
        }
        Ok(())
    }

    fn say(&self) {
        align(&self.0).iter().for_each(|it| say(it));
    }
}

async fn ask(path: &Path, tasks: &Tasks, lines: &mut Lines) -> Result<()> {
    let agent = concat!("xebec/", env!("CARGO_PKG_VERSION"));
    let config = kubeconfig_file::load(&path.join("kubeconfig"), agent)?;
    let client =
        Client::new(Arc::new(Https::new(tasks, &World::system(), &config)?), "xebec-status");
    let ready = client.get_path("/readyz").await;
    let ready = ready.as_deref().map_or_else(|_| "not ready", |_| "ready");
    lines.add("API server", &format!("{} ({ready})", config.server));
    let version = client.get_path("/version").await.context("asking the API server")?;
    let version: serde_json::Value =
        serde_json::from_slice(&version).context("reading the API server's version")?;
    lines.add("version", version["gitVersion"].as_str().unwrap_or("unknown"));
    let nodes = all::<Node>(&client).await?;
    let n_ready = nodes.iter().filter(|it| is_ready(it)).count();
    lines.add("nodes", &format!("{n_ready} of {} ready", nodes.len()));
    lines.add("pods", &phases(&all::<Pod>(&client).await?));
    Ok(())
}

async fn all<T: Resource>(client: &Client) -> Result<Vec<Arc<T>>> {
    let list = client.api::<T>().list("", ListOptions::default()).await;
    let items = list.with_context(|| format!("listing {}", T::FACTS.plural))?.items;
    items.iter().map(|it| it.shared::<T>().context("decoding")).collect()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// `3 (1 Pending, 2 Running)`
fn phases(pods: &[Arc<Pod>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        *counts.entry(phase.unwrap_or("Unknown")).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
    match counts.as_slice() {
        [] => "0".to_owned(),
        counts => format!("{} ({})", pods.len(), counts.join(", ")),
    }
}

fn store(path: &Path) -> String {
    match socket::ask(path, &Request::Status) {
        Ok(Answer::Status(status)) => {
            let condition = match &status.read_only {
                None => "writable".to_owned(),
                Some(why) => format!("read-only: {why}"),
            };
            let size = render_size(status.bytes);
            format!("revision {}, {} keys, {size}, {condition}", status.revision, status.keys)
        }
        Ok(_) => "unknown".to_owned(),
        // The reason is that there is no embedded store.
        Err(_) => "not in the data directory".to_owned(),
    }
}
