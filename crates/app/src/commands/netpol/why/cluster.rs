//! What of the cluster concerns the two: they, their namespaces, the policies there, and their
//! nodes.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use api::View;
use api::core::node::NodeView;
use api::discovery::EndpointSlice;
use apimachinery::{ApiError, GroupVersionResource};
use client::https::Config;
use client::{Client, ListOptions};
use lifecycle::Tasks;
use network::policy::cluster::ClusterPolicyView;
use network::policy::views::{NamespaceView, PodView, PolicyView, addresses_of, name_servers};
use network::policy::why::Objects;

use super::super::super::access::connect;
use super::question::Question;

pub(super) async fn read(config: &Config, tasks: &Tasks, question: &Question) -> Result<Objects> {
    let cluster = Cluster(Client::new(connect(config, tasks)?, "xebec-netpol"));
    let mut objects = Objects::default();
    for key in question.pods() {
        let view: PodView = cluster.get(&key.namespace, &key.name).await?;
        objects.pods.insert(key.clone(), view.pod);
    }
    let namespaces: BTreeSet<&str> = question.pods().map(|it| &*it.namespace).collect();
    for namespace in namespaces {
        let view: NamespaceView = cluster.get("", namespace).await?;
        objects.namespaces.insert(namespace.to_owned(), view.meta.labels.clone());
        for policy in cluster.list::<PolicyView>(namespace).await? {
            objects.policies.insert(policy.key, policy.policy);
        }
    }
    for policy in cluster.list_if_served::<ClusterPolicyView>().await? {
        objects.cluster_policies.insert(policy.key.name, policy.policy);
    }
    let nodes = objects.pods.values().map(|it| it.node.as_str().to_owned());
    let nodes: BTreeSet<String> = nodes.filter(|it| !it.is_empty()).collect();
    for name in nodes {
        let view: NodeView = cluster.get("", &name).await?;
        objects.nodes.insert(name, addresses_of(&view));
    }
    let slices = cluster.list::<EndpointSlice>("kube-system").await?;
    objects.name_servers = name_servers(slices.iter());
    Ok(objects)
}

struct Cluster(Client);

impl Cluster {
    async fn get<V: View>(&self, namespace: &str, name: &str) -> Result<V> {
        let resource = V::resource();
        let doing = || doing(&resource, namespace, name);
        let stored = self.0.dynamic(resource.clone()).get(namespace, name).await;
        let stored = stored.with_context(doing)?;
        V::read(&stored).with_context(doing)
    }

    async fn list<V: View>(&self, namespace: &str) -> Result<Vec<V>> {
        let resource = V::resource();
        let doing = || format!("listing {} of {namespace}", resource.resource);
        let list = self.0.dynamic(resource.clone()).list(namespace, ListOptions::default()).await;
        let list = list.with_context(doing)?;
        list.items.iter().map(|it| V::read(it).with_context(doing)).collect()
    }

    /// None where the kind is not there.
    async fn list_if_served<V: View>(&self) -> Result<Vec<V>> {
        match self.list("").await {
            Err(err) if err.downcast_ref::<ApiError>().is_some_and(ApiError::is_not_found) => {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }
}

fn doing(resource: &GroupVersionResource, namespace: &str, name: &str) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("reading {place}{name} of {}", resource.resource)
}
