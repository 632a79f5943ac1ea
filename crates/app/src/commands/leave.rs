//! `xebec leave`: a machine that joined is a node no more. Its pods are evicted, its Node is deleted,
//! and nothing of it stays here. A node may not delete itself, so it takes somebody's rights.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::core::pod::mirror;
use api::policy::Eviction;
use apimachinery::Reason;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::{access, down};
use crate::cluster::{Cluster, Selection};
use crate::datastore::parse_duration;
use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Kubeconfig of somebody who may evict pods and delete nodes; else KUBECONFIG, else
    /// ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How long pods may take to go, where disruption budgets hold them
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    selection: Selection,
}

/// Between looks at pods that are going, and at budgets that forbid it.
const STEP: Duration = Duration::from_secs(1);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let directory = flags.selection.find()?;
    let cluster = Cluster::load(&directory)?.filter(|it| it.joined.is_some());
    let node = cluster.as_ref().and_then(|it| it.node.as_ref());
    let Some(node) = node else {
        bail!("{} is not that of a node that joined: see `xebec list`", directory.display());
    };
    let access = access::Flags::of_kubeconfig(flags.kubeconfig.clone()).load()?;
    access::block_on(async |tasks| {
        let client = Client::new(access::connect(&access.config, tasks)?, "xebec-leave");
        let leaving = Leaving { client, node: &node.name };
        leaving.drain(Instant::now() + flags.timeout).await?;
        leaving.delete().await
    })?;
    down::end(&directory, true)
}

struct Leaving<'a> {
    client: Client,
    node: &'a str,
}

impl Leaving<'_> {
    async fn drain(&self, deadline: Instant) -> Result<()> {
        let cordon = serde_json::json!({"spec": {"unschedulable": true}}).to_string();
        let nodes = self.client.api::<Node>();
        match nodes.patch("", self.node, PatchKind::Merge, cordon.into()).await {
            Err(err) if err.is_not_found() => return Ok(()),
            cordoned => drop(cordoned.with_context(|| format!("cordoning {}", self.node))?),
        }
        loop {
            let pods = self.pods().await?;
            if pods.is_empty() {
                return Ok(());
            }
            for pod in pods.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
                self.evict(pod).await?;
            }
            if Instant::now() >= deadline {
                let names: Vec<&str> =
                    pods.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
                bail!(
                    "these pods have not gone: {}; the node is cordoned (`kubectl uncordon {}`)",
                    names.join(", "),
                    self.node
                );
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Those that would run elsewhere: not the node's own, nor one of each node.
    async fn pods(&self) -> Result<Vec<Arc<Pod>>> {
        let options = ListOptions {
            field_selector: Some(format!("spec.nodeName={}", self.node)),
            ..ListOptions::default()
        };
        let listed = self.client.api::<Pod>().list("", options).await;
        let listed = listed.with_context(|| format!("listing the pods of {}", self.node))?;
        let pods: Result<Vec<Arc<Pod>>, _> =
            listed.items.iter().map(|it| it.shared::<Pod>()).collect();
        let pods = pods.context("decoding")?.into_iter();
        Ok(pods.filter(|it| is_to_go(it)).collect())
    }

    /// Budgets may say not now.
    async fn evict(&self, pod: &Pod) -> Result<()> {
        let ObjectMeta { namespace, name, .. } = &pod.metadata;
        let namespace = namespace.clone().unwrap_or_default();
        let name = name.clone().unwrap_or_default();
        let eviction = Eviction {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            ..Eviction::default()
        };
        let pods = self.client.api::<Pod>();
        match pods.create_subresource(&namespace, &name, "eviction", eviction).await {
            Err(err) if err.is_not_found() || err.reason() == Reason::TooManyRequests => Ok(()),
            evicted => evicted.with_context(|| format!("evicting the pod {namespace}/{name}")),
        }
    }

    async fn delete(&self) -> Result<()> {
        let nodes = self.client.api::<Node>();
        match nodes.delete("", self.node, DeleteOptions::default()).await {
            Err(err) if !err.is_not_found() => {
                Err(err).with_context(|| format!("deleting the Node {}", self.node))
            }
            _ => {
                say(&format!("the Node {} is deleted", self.node));
                Ok(())
            }
        }
    }
}

fn is_to_go(pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_of_each_node = owners.any(|it| it.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    !is_of_each_node && !is_over && !mirror::is_mirror(pod)
}
