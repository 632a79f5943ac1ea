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
use network::{Network, Peer};
use reconcile::{EventRecorder, EventType};
use stdx::{Backoff, World, error_chain};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use place::NodePlace;
use plan::{Note, Outcome, Patches, notes, plan};

const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Of a back end without keys.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
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
            told_of: network.changes(),
            renew_at: None,
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
    /// What the network has to say is something else.
    told_of: watch::Receiver<u64>,
    /// When the network is asked for a new key.
    renew_at: Option<Instant>,
    /// As the node.
    node: Client,
    name: String,
    events: EventRecorder,
    /// What Events tell of.
    told: BTreeSet<Note>,
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
                changed = self.told_of.changed() => if changed.is_err() { return },
                () = after(delay) => {}
                () = until(self.renew_at) => {}
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Observes, tells the network, and writes what this Node does not say yet.
    async fn follow(&mut self) -> Result<(), String> {
        self.renew_keys().await;
        let result = self.network.set_peers(self.peers()).await;
        let result = result.map_err(|err| error_chain(&err));
        self.told_of.mark_unchanged();
        let network = self.network.clone();
        let ask = move || {
            let left_out = network.left_out().borrow().clone();
            (network.published(), left_out, network.tried(), network.overlaps())
        };
        let asked = tokio::task::spawn_blocking(ask).await;
        let (published, left_out, tried, overlaps) = asked.map_err(|err| err.to_string())?;
        self.tell(notes(&self.name, &left_out, &tried, &overlaps));
        let outcome = Outcome::of(result.clone(), &tried, &overlaps);
        self.publish(&published, &outcome).await.map_err(|err| err.to_string())?;
        result
    }

    /// A key that cannot be renewed is the old one, and asked for again.
    async fn renew_keys(&mut self) {
        if self.renew_at.is_some_and(|it| it > Instant::now()) {
            return;
        }
        let renewed = self.network.renew_keys(self.world.clock.now().into()).await;
        let due = renewed.unwrap_or_else(|err| {
            tracing::warn!(error = error_chain(&err), "the node's key");
            Some(RETRY_MAX)
        });
        self.renew_at = Some(Instant::now() + due.unwrap_or(NEVER));
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

    /// Once for each, as long as it holds.
    fn tell(&mut self, now: BTreeSet<Note>) {
        for Note { node, reason, message } in now.difference(&self.told) {
            tracing::warn!(node, reason, message, "the ways between nodes");
            let known = self.nodes.indexer().get(&ObjectKey::cluster(&**node));
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.clone()),
                uid: known.map(|it| it.uid.clone()),
                ..ObjectReference::default()
            };
            self.events.event_about(about, EventType::Warning, reason, message.clone());
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

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn after(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}
