//! The ways to other nodes, as the API tells of them: Nodes are followed, the pod network is told
//! of its peers, and this Node says what others need to know of it.

mod place;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::core::node::Node;
use apimachinery::{ApiError, ObjectKey};
use client::{Client, PatchKind};
use informer::{EventHandler, Factory, SharedInformer};
use k8s_openapi::api::core::v1::ObjectReference;
use lifecycle::Tasks;
use network::{LeftOut, Network, Peer};
use reconcile::{EventRecorder, EventType};
use stdx::{Backoff, World, error_chain};
use tokio::sync::{Notify, watch};

use place::NodePlace;
use plan::{Outcome, Patches, plan};

const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Nodes change in bursts, and their heartbeats say nothing that matters here.
const SETTLE: Duration = Duration::from_millis(50);

/// Who follows the Nodes, and who writes this one.
pub(crate) struct Identities<'a> {
    pub(crate) network: &'a Client,
    pub(crate) node: &'a Client,
}

/// Returns at once. A network that has no way to other nodes needs none of it.
pub(crate) fn spawn(
    network: &Arc<Network>,
    node_name: &str,
    clients: &Identities<'_>,
    tasks: &Tasks,
    world: &World,
) {
    if !network.has_peers() {
        return;
    }
    let factory = Factory::new(clients.network.clone(), world.clone(), tasks);
    let nodes = factory.informer::<NodePlace>();
    let changed = Arc::new(Notify::new());
    nodes.add_event_handler(Arc::new(Changes(changed.clone())));
    let events = EventRecorder::on_host(
        tasks,
        clients.node.clone(),
        world.clone(),
        "xebec-network",
        node_name,
    );
    let (network, node) = (network.clone(), clients.node.clone());
    let (name, world) = (node_name.to_owned(), world.clone());
    tasks.spawn_restarting("peers", move |shutdown| {
        let follower = Follower {
            network: network.clone(),
            nodes: nodes.clone(),
            changed: changed.clone(),
            left_out: network.left_out(),
            node: node.clone(),
            name: name.clone(),
            events: events.clone(),
            told: BTreeSet::new(),
            world: world.clone(),
        };
        async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = follower.run() => {}
            }
        }
    });
    factory.start();
}

/// Tells when a Node came, went, or says something else that matters.
struct Changes(Arc<Notify>);

impl EventHandler<NodePlace> for Changes {
    fn on_add(&self, _node: &Arc<NodePlace>, _is_initial: bool) {
        self.0.notify_one();
    }

    fn on_update(&self, old: &Arc<NodePlace>, new: &Arc<NodePlace>) {
        if old != new {
            self.0.notify_one();
        }
    }

    fn on_delete(&self, _last: &Arc<NodePlace>) {
        self.0.notify_one();
    }
}

struct Follower {
    network: Arc<Network>,
    nodes: Arc<SharedInformer<NodePlace>>,
    changed: Arc<Notify>,
    left_out: watch::Receiver<Vec<LeftOut>>,
    /// As the node.
    node: Client,
    name: String,
    events: EventRecorder,
    /// Whom an Event tells of, and with which words.
    told: BTreeSet<(String, String)>,
    world: World,
}

impl Follower {
    /// Ends never.
    async fn run(mut self) {
        self.nodes.wait_for_sync().await;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            let delay = match self.follow().await {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(err) => {
                    let delay = backoff.step();
                    tracing::warn!(error = %err, ?delay, "the ways to other nodes");
                    Some(delay)
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                changed = self.left_out.changed() => if changed.is_err() { return },
                () = after(delay) => {}
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Observes, tells the network, and writes what this Node does not say yet.
    async fn follow(&mut self) -> Result<(), String> {
        let result = self.network.set_peers(self.peers()).await;
        let outcome = match &result {
            Ok(()) => Outcome::Whole,
            Err(err) => Outcome::Broken(error_chain(err)),
        };
        let left_out = self.left_out.borrow_and_update().clone();
        self.tell(left_out);
        let network = self.network.clone();
        let published = tokio::task::spawn_blocking(move || network.published()).await;
        let published = published.map_err(|err| err.to_string())?;
        self.publish(&published, &outcome).await.map_err(|err| err.to_string())?;
        match outcome {
            Outcome::Whole => Ok(()),
            Outcome::Broken(why) => Err(why),
        }
    }

    /// The oldest first: of two that want the same, it has it.
    fn peers(&self) -> Vec<Peer> {
        let mut nodes = self.nodes.indexer().list();
        nodes.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        nodes.iter().map(|it| it.as_peer()).collect()
    }

    /// A Node that is not there yet is written when it comes.
    async fn publish(
        &self,
        published: &BTreeMap<String, String>,
        outcome: &Outcome,
    ) -> Result<(), ApiError> {
        let key = ObjectKey::cluster(&*self.name);
        let Some(own) = self.nodes.indexer().get(&key) else { return Ok(()) };
        let now = self.world.clock.now();
        let Patches { annotations, status } = plan(&own, published, outcome, now);
        let api = self.node.api::<Node>();
        if let Some(patch) = annotations {
            let body = patch.to_string().into();
            unless_gone(api.patch("", &self.name, PatchKind::Merge, body).await)?;
        }
        if let Some(patch) = status {
            let body = patch.to_string().into();
            unless_gone(api.patch_status("", &self.name, PatchKind::Strategic, body).await)?;
        }
        Ok(())
    }

    /// Once for each reason, as long as it holds.
    fn tell(&mut self, left_out: Vec<LeftOut>) {
        let grave = left_out.into_iter().filter(|it| !it.is_early);
        let now: BTreeSet<_> = grave.map(|it| (it.node, it.why)).collect();
        for (node, why) in now.difference(&self.told) {
            tracing::warn!(node, why, "pods of a node cannot be reached");
            let known = self.nodes.indexer().get(&ObjectKey::cluster(&**node));
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.clone()),
                uid: known.map(|it| it.uid.clone()),
                ..ObjectReference::default()
            };
            let message = format!("node {} does not reach its pods: {why}", self.name);
            self.events.event_about(about, EventType::Warning, "PeerLeftOut", message);
        }
        self.told = now;
    }
}

fn unless_gone<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Err(err) if !err.is_not_found() => Err(err),
        _ => Ok(()),
    }
}

async fn after(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}
