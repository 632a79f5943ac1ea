//! Registration and lease renewal for the whole fleet: one task sleeps until the next node is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiError, ObjectKey};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use lifecycle::Shutdown;
use tokio::time::Instant;

use crate::fleet::{Member, Members};
use crate::node::{self, LEASE_NAMESPACE};

const RENEW: Duration = Duration::from_secs(10);
/// After a renewal that failed: four in a row would make a living node look dead.
const RETRY: Duration = Duration::from_secs(2);
/// Nodes whose turn comes within this are renewed together: a group of small writes wakes everybody
/// once.
const TOGETHER: Duration = Duration::from_millis(250);
/// Renewals under way at once.
const IN_FLIGHT_MAX: usize = 64;

/// Renews every living node's lease when it is due; a node without a Node object registers first.
pub(crate) async fn run(members: Arc<Members>, shutdown: Shutdown) {
    let mut due: BTreeSet<(Instant, usize)> = BTreeSet::new();
    let start = Instant::now();
    // Everybody registers at once; renewals are then spread over the period.
    due.extend((0..members.len()).map(|index| (start, index)));
    let mut under_way = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        while under_way.len() < IN_FLIGHT_MAX && due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, index)) = due.pop_first() {
                under_way.push(renew(members.clone(), index, at, at == start));
            }
        }
        let wake = due.first().map(|(at, _)| *at).filter(|_| under_way.len() < IN_FLIGHT_MAX);
        let sleep = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            Some((index, at, is_renewed)) = under_way.next(), if !under_way.is_empty() => {
                let offset = if at == start { turn(index, members.len()) } else { Duration::ZERO };
                let next = if is_renewed { at + RENEW + offset } else { Instant::now() + RETRY };
                due.insert((next, index));
            }
            () = sleep => {}
        }
    }
}

/// When in each period it is a node's turn.
fn turn(index: usize, n_members: usize) -> Duration {
    let n_turns = (RENEW.as_millis() / TOGETHER.as_millis()) as usize;
    TOGETHER * (index * n_turns / n_members.max(1)) as u32
}

/// Whether the next renewal is due after the usual time.
async fn renew(
    members: Arc<Members>,
    index: usize,
    at: Instant,
    is_first: bool,
) -> (usize, Instant, bool) {
    let Some(member) = members.alive(&node::name(index)) else { return (index, at, true) };
    let outcome = renew_once(&members, &member, is_first).await;
    if let Err(err) = &outcome {
        tracing::warn!(node = %member.name, error = %err, "lease not renewed");
    }
    (index, at, outcome.is_ok())
}

/// The first time the node registers, whether or not an earlier process left a lease: its status
/// may be stale.
async fn renew_once(members: &Members, member: &Member, is_first: bool) -> Result<(), ApiError> {
    let registered = if is_first { Some(register(members, member).await?) } else { None };
    let leases = member.client.api::<Lease>();
    let (mut lease, renewed) = match current(members, member).await? {
        Some(mut lease) => {
            let now = members.world.clock.now();
            lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
            (lease.clone(), leases.update(lease).await?)
        }
        None => {
            let uid = match registered {
                Some(uid) => uid,
                None => register(members, member).await?,
            };
            let lease = node::lease(&member.name, uid, members.world.clock.now());
            (lease.clone(), leases.create(lease).await?)
        }
    };
    lease.metadata.resource_version = Some(renewed.meta().resource_version.to_string());
    members.leases().insert(member.index, lease);
    correct_status(members, member).await
}

/// The lease as this node last wrote it, without asking; the server is asked after a write that
/// failed.
async fn current(members: &Members, member: &Member) -> Result<Option<Lease>, ApiError> {
    let known = members.leases().remove(&member.index);
    if known.is_some() {
        return Ok(known);
    }
    match member.client.api::<Lease>().get(LEASE_NAMESPACE, &member.name).await {
        Ok(lease) => Ok(Some(Arc::unwrap_or_clone(lease))),
        Err(err) if err.is_not_found() => Ok(None),
        Err(err) => Err(err),
    }
}

/// A living node that others hold for dead says that it is not: a lease alone changes no condition.
async fn correct_status(members: &Members, member: &Member) -> Result<(), ApiError> {
    match members.nodes.get(&ObjectKey::cluster(&member.name)) {
        Some(known) if !known.is_ready() => post_status(members, member).await.map(|_| ()),
        _ => Ok(()),
    }
}

/// Creates the Node, or brings the status of an existing one up to date, as a kubelet does when it
/// starts. Its uid.
async fn register(members: &Members, member: &Member) -> Result<String, ApiError> {
    let nodes = member.client.api::<Node>();
    let now = members.world.clock.now();
    match nodes.create(node::registration(member.index, &members.version, now)).await {
        Err(err) if err.is_already_exists() => post_status(members, member).await,
        created => Ok(created?.meta().uid.clone()),
    }
}

/// Says again how the node is: after it came back from the dead, its conditions are stale. Its uid.
pub(crate) async fn post_status(members: &Members, member: &Member) -> Result<String, ApiError> {
    let nodes = member.client.api::<Node>();
    let existing = nodes.get("", &member.name).await?;
    let mut existing = Arc::unwrap_or_clone(existing);
    existing.status = Some(node::status(member.index, &members.version, members.world.clock.now()));
    Ok(nodes.update_status(existing).await?.meta().uid.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{RENEW, turn};

    #[test]
    fn turns_are_spread_over_the_period_and_shared() {
        for n_members in [1, 3, 1_000, 5_000] {
            let mut turns = BTreeMap::new();
            for index in 0..n_members {
                *turns.entry(turn(index, n_members)).or_insert(0) += 1;
            }
            assert!(turns.keys().all(|it| *it < RENEW));
            assert_eq!(turns.len(), n_members.min(40));
            assert!(turns.values().all(|it| *it <= n_members.div_ceil(40)), "{turns:?}");
        }
    }
}
