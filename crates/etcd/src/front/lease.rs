//! Leases.

use std::time::Duration;

use kvstore::{Error, LeaseId};
use lifecycle::Shutdown;

use super::exchange::Gone;
use super::routes::Call;
use super::{Front, error};
use crate::wire::Status;
use crate::wire::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};

/// What etcd raises shorter ones to: one and a half election timeouts, in whole seconds.
const TTL_MIN: u64 = 2;
/// As in etcd.
const TTL_MAX: i64 = 9_000_000_000;

pub(super) async fn grant(
    front: &Front,
    request: LeaseGrantRequest,
) -> Result<LeaseGrantResponse, Status> {
    if request.ttl > TTL_MAX {
        return Err(error::lease_ttl_too_large());
    }
    let ttl = u64::try_from(request.ttl).unwrap_or(0).max(TTL_MIN);
    let granted = front.store.lease_grant(LeaseId::new(request.id), Duration::from_secs(ttl)).await;
    let id = granted.map_err(|err| error::status(&err))?;
    Ok(LeaseGrantResponse {
        header: front.header(front.store.revision()),
        id: id.0.get(),
        ttl: i64::try_from(ttl).unwrap_or(TTL_MAX),
        error: String::new(),
    })
}

pub(super) async fn revoke(
    front: &Front,
    request: LeaseRevokeRequest,
) -> Result<LeaseRevokeResponse, Status> {
    let id = LeaseId::new(request.id).ok_or_else(error::lease_not_found)?;
    let revision = front.store.lease_revoke(id).await.map_err(|err| error::status(&err))?;
    Ok(LeaseRevokeResponse { header: front.header(revision) })
}

/// A lease that is gone is answered with no time left, and the stream goes on.
async fn renew(front: &Front, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    let ttl = match LeaseId::new(id) {
        Some(id) => front.store.lease_keep_alive(id).await,
        None => Ok(Duration::ZERO),
    };
    let ttl = match ttl {
        Ok(ttl) => seconds(ttl),
        Err(Error::LeaseNotFound { .. }) => 0,
        Err(err) => return Err(error::status(&err)),
    };
    Ok(LeaseKeepAliveResponse { header: front.header(front.store.revision()), id, ttl })
}

pub(super) async fn keep_alive(call: Call, shutdown: Shutdown) -> Result<(), Gone> {
    let Call { peer, mut inbound, reply } = call;
    let mut outbound = reply.open()?;
    loop {
        let request = tokio::select! {
            biased;
            () = shutdown.cancelled() => return outbound.finish(Err(error::stopped())),
            request = inbound.next::<LeaseKeepAliveRequest>() => request,
        };
        let id = match request {
            Ok(Some(request)) => request.id,
            Ok(None) => return outbound.finish(Ok(())),
            Err(status) => return outbound.finish(Err(status)),
        };
        match renew(&peer.front, id).await {
            Ok(response) => outbound.send_streamed(&response).await?,
            Err(status) => return outbound.finish(Err(status)),
        }
    }
}

pub(super) async fn time_to_live(
    front: &Front,
    request: LeaseTimeToLiveRequest,
) -> Result<LeaseTimeToLiveResponse, Status> {
    let status = match LeaseId::new(request.id) {
        Some(id) => front.store.lease(id).await,
        None => return Ok(gone(front, request.id)),
    };
    match status {
        Ok(status) => Ok(LeaseTimeToLiveResponse {
            header: front.header(front.store.revision()),
            id: request.id,
            ttl: seconds(status.remaining),
            granted_ttl: seconds(status.granted),
            keys: if request.keys { status.keys } else { Vec::new() },
        }),
        Err(Error::LeaseNotFound { .. }) => Ok(gone(front, request.id)),
        Err(err) => Err(error::status(&err)),
    }
}

fn gone(front: &Front, id: i64) -> LeaseTimeToLiveResponse {
    let header = front.header(front.store.revision());
    LeaseTimeToLiveResponse { header, id, ttl: -1, ..LeaseTimeToLiveResponse::default() }
}

pub(super) async fn leases(
    front: &Front,
    _request: LeaseLeasesRequest,
) -> Result<LeaseLeasesResponse, Status> {
    let leases = front.store.leases().await.map_err(|err| error::status(&err))?;
    let leases = leases.into_iter().map(|it| LeaseStatus { id: it.0.get() }).collect();
    Ok(LeaseLeasesResponse { header: front.header(front.store.revision()), leases })
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
