//! The methods that are served, each in one line, and what is said to calls of any other.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Request, StatusCode};
use prost::Message;

use super::exchange::{Gone, Inbound, Reply, is_grpc};
use super::peer::Peer;
use super::{Front, cluster, error, kv, lease, maintenance, probe, watch};
use crate::wire::methods;
use crate::wire::{Code, Status};

/// Answers one call. Streams and wide ranges go on in tasks of their own.
pub(super) async fn answer(
    peer: Arc<Peer>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let reply = Reply::new(respond);
    // An answer that cannot be sent has nobody who waits for it.
    let (Ok(()) | Err(Gone)) = if is_grpc(&request) {
        route(peer, request, reply).await
    } else if request.method() == Method::GET {
        let (code, body) = probe::answer(&peer.front, request.uri().path()).await;
        reply.plain(code, body)
    } else {
        reply.plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "{}".to_owned())
    };
}

async fn route(peer: Arc<Peer>, request: Request<RecvStream>, reply: Reply) -> Result<(), Gone> {
    let (head, body) = request.into_parts();
    let call = Call { inbound: Inbound::new(body, peer.clone()), reply, peer };
    match head.uri.path() {
        it if it == methods::PUT.path => call.write(kv::put).await,
        it if it == methods::RANGE.path => kv::range(call).await,
        it if it == methods::TXN.path => call.write(kv::txn).await,
        it if it == methods::DELETE_RANGE.path => call.write(kv::delete_range).await,
        it if it == methods::COMPACT.path => call.unary(kv::compact).await,
        it if it == methods::WATCH.path => call.stream("watch", watch::run),
        it if it == methods::LEASE_GRANT.path => call.unary(lease::grant).await,
        it if it == methods::LEASE_REVOKE.path => call.unary(lease::revoke).await,
        it if it == methods::LEASE_KEEP_ALIVE.path => {
            call.stream("lease-keep-alive", lease::keep_alive)
        }
        it if it == methods::LEASE_TIME_TO_LIVE.path => call.unary(lease::time_to_live).await,
        it if it == methods::LEASE_LEASES.path => call.unary(lease::leases).await,
        it if it == methods::MEMBER_LIST.path => call.unary(cluster::member_list).await,
        it if it == methods::ALARM.path => call.unary(maintenance::alarm).await,
        it if it == methods::STATUS.path => call.unary(maintenance::status).await,
        it if it == methods::DEFRAGMENT.path => call.unary(maintenance::defragment).await,
        it if it == methods::HASH.path => call.unary(maintenance::hash).await,
        it if it == methods::HASH_KV.path => call.unary(maintenance::hash_kv).await,
        it if it == methods::MOVE_LEADER.path => call.unary(maintenance::move_leader).await,
        it if it == methods::SNAPSHOT.path => call.stream("snapshot", maintenance::snapshot),
        it if it == methods::AUTH_STATUS.path => call.unary(cluster::auth_status).await,
        it if it == methods::AUTHENTICATE.path => call.unary(cluster::authenticate).await,
        path => call.reply.refuse(&unknown(path)),
    }
}

fn unknown(path: &str) -> Status {
    let text = match path.split('/').nth(1) {
        Some("etcdserverpb.Cluster") => {
            "etcdserver: the store has one member, and members cannot be changed".to_owned()
        }
        Some("etcdserverpb.Auth") => "etcdserver: users and roles are not supported".to_owned(),
        _ => format!("unknown method {path}"),
    };
    Status::new(Code::Unimplemented, text)
}

/// A call whose method is known.
pub(super) struct Call {
    pub(super) peer: Arc<Peer>,
    pub(super) inbound: Inbound,
    pub(super) reply: Reply,
}

impl Call {
    /// One request, one answer.
    async fn unary<Q, A>(
        mut self,
        method: impl AsyncFnOnce(&Front, Q) -> Result<A, Status>,
    ) -> Result<(), Gone>
    where
        Q: Message + Default,
        A: Message,
    {
        let answer = match self.inbound.only().await {
            Ok((request, _)) => method(&self.peer.front, request).await,
            Err(status) => Err(status),
        };
        self.reply.finish(answer).await
    }

    /// The same for requests that end up in the store, whose size etcd limits.
    async fn write<Q, A>(
        self,
        method: impl AsyncFnOnce(&Front, Q) -> Result<A, Status>,
    ) -> Result<(), Gone>
    where
        Q: Message + Default,
        A: Message,
    {
        let Self { peer, mut inbound, reply } = self;
        let front = &peer.front;
        let answer = match inbound.only().await {
            Ok((_, len)) if len > front.limits.request_bytes => Err(error::request_too_large()),
            Ok((request, _)) => method(front, request).await,
            Err(status) => Err(status),
        };
        reply.finish(answer).await
    }

    /// A call that may last: it has a task of its own.
    fn stream<F>(
        self,
        name: &str,
        method: impl FnOnce(Self, lifecycle::Shutdown) -> F,
    ) -> Result<(), Gone>
    where
        F: Future<Output = Result<(), Gone>> + Send + 'static,
    {
        let peer = self.peer.clone();
        peer.tasks.spawn(name, |shutdown| {
            // Boxed, so that the task has no room for it twice.
            let running = Box::pin(method(self, shutdown));
            async move {
                let (Ok(()) | Err(Gone)) = running.await;
            }
        });
        Ok(())
    }
}
