//! metrics.k8s.io: what nodes and pods use now, as their kubelets say. Asked for when a client
//! asks, a few nodes at a time, and for a bounded time: of nodes that do not answer, nothing is
//! shown. Served unless somebody has registered another server for it: requests are then passed on.

mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::core::node::is_simulated;
use api::core::{Node, Pod};
use api::metrics::{self, GROUP, Interval, SIMULATED_USAGE, Usage};
use api::{Lookup, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, Reason};
use bytes::Bytes;
use client::Verb;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Request as HttpRequest, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::time::Instant;

use self::summary::Summary;
use crate::kubelets::Kubelets;
use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{Core, ListAnswer, Outcome, Request, method_not_allowed, select};

/// Nodes that are asked at once.
const AT_ONCE: usize = 16;
/// For one node to answer in, and for all.
const NODE_MAX: Duration = Duration::from_secs(5);
const ALL_MAX: Duration = Duration::from_secs(20);
/// What was said a moment ago is said again: autoscalers ask one after the other.
const FRESH: Duration = Duration::from_secs(3);
/// More than a thousand pods need.
const SUMMARY_MAX: usize = 16 << 20;
/// Over which simulated usage was measured.
const SIMULATED_SECONDS: f64 = 10.0;

/// Of one node, and when it was read.
type Read = (Instant, Arc<Summary>);

pub(crate) struct Usages {
    kubelets: Arc<Kubelets>,
    /// By node; only those that were asked for a moment ago.
    recent: Mutex<BTreeMap<String, Read>>,
}

impl Hooks for Usages {
    fn of(&self) -> &'static [Of] {
        &[(GROUP, "nodes"), (GROUP, "pods")]
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        Box::pin(async move {
            core.cache.wait_current().await?;
            let is_one = match request.call.verb {
                Verb::Get => true,
                Verb::List => false,
                _ => return Err(method_not_allowed()),
            };
            let items = match request.kind.names().plural.as_str() {
                "nodes" => self.nodes(core, request).await?,
                _ => self.pods(core, request).await?,
            };
            if is_one {
                let plural = request.kind.names().plural.clone();
                let missing =
                    || ApiError::not_found(&GroupResource::new(GROUP, &plural), request.name());
                let object = items.into_iter().next().ok_or_else(missing)?;
                return Ok((Outcome::Object(object), 200));
            }
            let answer = ListAnswer {
                items,
                resource_version: 0,
                continue_token: None,
                remaining: None,
                is_served: true,
            };
            Ok((Outcome::List(answer), 200))
        })
    }
}

impl Usages {
    pub(crate) fn new(kubelets: Arc<Kubelets>) -> Self {
        Self { kubelets, recent: Mutex::default() }
    }

    async fn nodes(&self, core: &Core, request: &Request) -> Result<Vec<Arc<Stored>>, ApiError> {
        let selection = select(request)?;
        let lookup: &dyn Lookup = core.cache.as_ref();
        let resource = GroupResource::new("", "nodes");
        let found = lookup.list(&resource, None).into_iter();
        let found = found.filter(|it| selection.matches(&it.meta));
        let nodes: Vec<Arc<Node>> = found.filter_map(|it| it.shared().ok()).collect();
        let read = self.ask(core, &nodes).await;
        let now = core.world.clock.now();
        let has_simulated = nodes.iter().any(|it| is_simulated(it));
        let pods = if has_simulated { lookup.all::<Pod>(None) } else { Vec::new() };
        let simulated = simulated_nodes(&pods);
        let measured = nodes.iter().filter_map(|node| {
            let name = node.metadata.name.as_deref()?;
            let (interval, usage) = if is_simulated(node) {
                (simulated_interval(now), simulated.get(name).copied().unwrap_or_default())
            } else {
                read.get(name)?.node()?
            };
            Some(Arc::new(metrics::node_metrics(&node.metadata, interval, usage)))
        });
        Ok(measured.collect())
    }

    async fn pods(&self, core: &Core, request: &Request) -> Result<Vec<Arc<Stored>>, ApiError> {
        let selection = select(request)?;
        let lookup: &dyn Lookup = core.cache.as_ref();
        let resource = GroupResource::new("", "pods");
        let found = lookup.list(&resource, request.call.namespace.as_deref()).into_iter();
        let found = found.filter(|it| selection.matches(&it.meta));
        let pods: Vec<Arc<Pod>> = found.filter_map(|it| it.shared().ok()).collect();
        let is_running = |it: &&Arc<Pod>| phase(it) == "Running";
        let names: BTreeSet<&str> =
            pods.iter().filter(is_running).filter_map(|it| node_name(it)).collect();
        let node = |name: &&str| lookup.get::<Node>(&ObjectKey::new("", *name));
        let nodes: Vec<Arc<Node>> = names.iter().filter_map(node).collect();
        let read = self.ask(core, &nodes).await;
        let simulated: BTreeSet<&str> = nodes
            .iter()
            .filter(|it| is_simulated(it))
            .filter_map(|it| it.metadata.name.as_deref())
            .collect();
        let now = core.world.clock.now();
        let measured = pods.iter().filter(is_running).filter_map(|pod| {
            let node = node_name(pod)?;
            let (interval, containers) = if simulated.contains(node) {
                (simulated_interval(now), simulated_pod(pod)?)
            } else {
                read.get(node)?.pod(pod.metadata.uid.as_deref()?)?
            };
            Some(Arc::new(metrics::pod_metrics(&pod.metadata, interval, &containers)))
        });
        Ok(measured.collect())
    }

    /// What each node says that says something, by name. Simulated ones are not asked.
    async fn ask(&self, core: &Core, nodes: &[Arc<Node>]) -> BTreeMap<String, Arc<Summary>> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for node in nodes.iter().filter(|it| !is_simulated(it)) {
            let name = node.metadata.name.clone().unwrap_or_default();
            match self.recent(&name) {
                Some(summary) => drop(found.insert(name, summary)),
                None => missing.push((name, node.clone())),
            }
        }
        let asked = stream::iter(missing).map(|(name, node)| async move {
            let answer = tokio::time::timeout(NODE_MAX, self.ask_one(core, &node)).await;
            let late = |_| ApiError::new(Reason::Timeout, "it did not answer in time");
            (name, answer.map_err(late).flatten())
        });
        let mut asked = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
        let deadline = Instant::now() + ALL_MAX;
        while let Ok(Some((node, answer))) = tokio::time::timeout_at(deadline, asked.next()).await {
            match answer {
                Ok(summary) => {
                    self.remember(&node, &summary);
                    found.insert(node, summary);
                }
                Err(err) => {
                    let error = stdx::error_chain(&err);
                    tracing::debug!(node, error, "a node does not say what it uses");
                }
            }
        }
        found
    }

    fn recent(&self, node: &str) -> Option<Arc<Summary>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, summary) = recent.get(node)?;
        (at.elapsed() < FRESH).then(|| summary.clone())
    }

    fn remember(&self, node: &str, summary: &Arc<Summary>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|_, (at, _)| at.elapsed() < FRESH);
        recent.insert(node.to_owned(), (Instant::now(), summary.clone()));
    }

    /// At its verified address, with this server's identity.
    async fn ask_one(&self, core: &Core, node: &Node) -> Result<Arc<Summary>, ApiError> {
        let failed = |err: hyper::Error| {
            ApiError::internal("a kubelet did not say what its pods use").with_source(err)
        };
        let unreadable = |err: Box<dyn std::error::Error + Send + Sync>| {
            ApiError::internal("what a kubelet said cannot be read").with_source(err)
        };
        let mut request = HttpRequest::new(Empty::<Bytes>::new());
        *request.uri_mut() = http::Uri::from_static("/stats/summary");
        let host = HeaderValue::from_str(node.metadata.name.as_deref().unwrap_or_default());
        let host = host.map_err(|err| unreadable(err.into()))?;
        request.headers_mut().insert(header::HOST, host);
        let connection = TokioIo::new(self.kubelets.dial(node).await?);
        let (mut sender, connection) = http1::handshake(connection).await.map_err(failed)?;
        core.tasks.spawn("kubelet-summary", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                // How it ended is seen by whoever reads the response.
                _ = connection => {}
            }
        });
        let response = sender.send_request(request).await.map_err(failed)?;
        if !response.status().is_success() {
            let why = format!("the kubelet answered {}", response.status());
            return Err(unreadable(why.into()));
        }
        let body = Limited::new(response.into_body(), SUMMARY_MAX).collect().await;
        let body = body.map_err(unreadable)?.to_bytes();
        let summary = Summary::parse(&body).map_err(|err| unreadable(err.into()))?;
        Ok(Arc::new(summary))
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default()
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn simulated_interval(now: Timestamp) -> Interval {
    Interval { end: now, seconds: SIMULATED_SECONDS }
}

/// What its annotation says, if it says something.
fn simulated_pod(pod: &Pod) -> Option<Vec<(String, Usage)>> {
    let text = pod.metadata.annotations.as_ref()?.get(SIMULATED_USAGE)?;
    let usage = Usage::parse(text);
    let containers = pod.spec.as_ref()?.containers.iter();
    Some(containers.map(|it| (it.name.clone(), usage)).collect())
}

/// What the pods of each node use that say it, by node.
fn simulated_nodes(pods: &[Arc<Pod>]) -> BTreeMap<&str, Usage> {
    let mut nodes: BTreeMap<&str, Usage> = BTreeMap::new();
    for pod in pods.iter().filter(|it| phase(it) == "Running") {
        let (Some(node), Some(containers)) = (node_name(pod), simulated_pod(pod)) else { continue };
        let sum = nodes.entry(node).or_default();
        *sum = containers.iter().fold(*sum, |sum, (_, usage)| sum.plus(*usage));
    }
    nodes
}
