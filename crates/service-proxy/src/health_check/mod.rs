//! `healthCheckNodePort`: tells a load balancer over HTTP whether this node has endpoints of a
//! Service whose external traffic stays on the node (KEP-1669, upstream's `pkg/proxy/healthcheck`).
//!
//! One listener for each such Service, on every address of the node. Whoever asks is answered and
//! let go.

mod answer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use api::core::service::Service;
use api::discovery::EndpointSlice;
use api::object::key_of;
use apimachinery::ObjectKey;
use lifecycle::{Shutdown, Tasks};
use serving::{Limits, Room, Stream, Timeouts};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::answer::Health;
use crate::service_port::{health_check_node_port, n_ready_local};

/// Balancers ask every few seconds; a connection above these takes the place of one that has waited
/// longest.
const CONNECTIONS_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// The port on which to answer for the Service, and what.
fn plan(
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    node_name: &str,
) -> Option<(u16, Health)> {
    let spec = service.spec.as_ref()?;
    let port = health_check_node_port(spec)?;
    let n_endpoints = n_ready_local(slices, node_name);
    Some((port, Health { service: key_of(&service.metadata), n_endpoints }))
}

/// The listeners. Owned by the task that follows the Services.
pub(crate) struct HealthChecks {
    tasks: Tasks,
    listeners: BTreeMap<ObjectKey, Listener>,
}

struct Listener {
    port: u16,
    health: watch::Sender<Health>,
    tasks: Tasks,
}

impl HealthChecks {
    pub(crate) fn new(tasks: &Tasks) -> Self {
        Self { tasks: tasks.child("health-checks"), listeners: BTreeMap::new() }
    }

    /// The Services for which somebody listens.
    pub(crate) fn services(&self) -> Vec<ObjectKey> {
        self.listeners.keys().cloned().collect()
    }

    /// `service` is `None` if it is gone.
    pub(crate) async fn set(
        &mut self,
        key: &ObjectKey,
        service: Option<&Service>,
        slices: &[Arc<EndpointSlice>],
        node_name: &str,
    ) {
        let planned = service.and_then(|it| plan(it, slices, node_name));
        let port = planned.as_ref().map(|(port, _)| *port);
        if self.listeners.get(key).is_some_and(|it| Some(it.port) != port)
            && let Some(listener) = self.listeners.remove(key)
        {
            listener.tasks.cancel();
        }
        let Some((port, health)) = planned else { return };
        match self.listeners.get(key) {
            Some(listener) => {
                listener.health.send_replace(health);
            }
            None => self.listen(key, port, health).await,
        }
    }

    /// A port that is taken is told of; the next change of the Service tries again.
    async fn listen(&mut self, key: &ObjectKey, port: u16, health: Health) {
        let listener = match bind(port).await {
            Ok(listener) => listener,
            Err(err) => {
                tracing::error!(service = %key, port, error = %err, "cannot listen on healthCheckNodePort");
                return;
            }
        };
        let (health, seen) = watch::channel(health);
        let tasks = self.tasks.child(&key.to_string());
        let connections = tasks.clone();
        tasks.spawn("listen", |shutdown| accept(listener, seen, connections, shutdown));
        self.listeners.insert(key.clone(), Listener { port, health, tasks });
    }
}

/// On all addresses of both families, or of IPv4 where the kernel has no other.
async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(err) if err.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        result => result,
    }
}

async fn accept(
    listener: TcpListener,
    health: watch::Receiver<Health>,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let limits = Limits {
        connections: CONNECTIONS_MAX,
        per_client: CONNECTIONS_MAX / 2,
        timeouts: Timeouts::HTTPS,
    };
    serving::accept(&listener, &Room::new(limits), &tasks, &shutdown, |guest, shutdown| {
        let health = health.clone();
        async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = tokio::time::timeout(PATIENCE, serve(guest.stream, health)) => {}
            }
        }
    })
    .await;
}

/// A client that breaks off is no concern of ours.
async fn serve(stream: Stream, health: watch::Receiver<Health>) {
    let _ = answer::over(stream, || health.borrow().clone()).await;
}
