//! The methods that are served, each in one line, and what is said to calls of any other.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lifecycle::Shutdown;
use prost::Message;

use super::exchange::{Gone, Inbound, Reply};
use super::kv::write::{self, Write};
use super::peer::{Peer, UnderWay};
use super::{cluster, kv, lease, maintenance, watch};
use crate::wire::messages::RangeRequest;
use crate::wire::{Code, Status, frame, methods};

/// What a short call comes to.
pub(super) enum Answered {
    /// A message, with success.
    Message(Bytes),
    Refused(Status),
    /// Not by gRPC: a code of HTTP and a body.
    Plain(u16, String),
}

impl<A: Message> From<Result<A, Status>> for Answered {
    fn from(answer: Result<A, Status>) -> Self {
        match answer {
            Ok(answer) => Self::Message(frame::encode(&answer)),
            Err(status) => Self::Refused(status),
        }
    }
}

/// How a method is called.
#[derive(Clone, Copy)]
pub(super) enum Route {
    /// A transaction. Those that arrive together are asked for together.
    Write(fn(Bytes) -> Result<Write, Status>),
    /// One request, one answer. The connection's own task waits for it.
    Unary(fn(Arc<Peer>, Bytes) -> BoxFuture<'static, Answered>),
    /// The same, in a task of its own if the answer may be large.
    Range,
    /// It may last, so it has a task of its own.
    Stream(&'static str, fn(Call, Shutdown) -> BoxFuture<'static, Result<(), Gone>>),
}

macro_rules! unary {
    ($method:path) => {
        Route::Unary(|peer, bytes| {
            Box::pin(async move {
                match frame::decode(bytes) {
                    Ok(request) => $method(&peer.front, request).await.into(),
                    Err(status) => Answered::Refused(status),
                }
            })
        })
    };
}

macro_rules! stream {
    ($name:literal, $method:path) => {
        Route::Stream($name, |call, shutdown| Box::pin($method(call, shutdown)))
    };
}

impl Route {
    pub(super) fn find(path: &str) -> Result<Self, Status> {
        Ok(match path {
            it if it == methods::PUT.path => {
                Self::Write(|bytes| write::put(&frame::decode(bytes)?))
            }
            it if it == methods::TXN.path => Self::Write(|bytes| write::txn(frame::decode(bytes)?)),
            it if it == methods::RANGE.path => Self::Range,
            it if it == methods::DELETE_RANGE.path => {
                Self::Write(|bytes| write::delete_range(&frame::decode(bytes)?))
            }
            it if it == methods::COMPACT.path => unary!(kv::compact),
            it if it == methods::WATCH.path => stream!("watch", watch::run),
            it if it == methods::LEASE_GRANT.path => unary!(lease::grant),
            it if it == methods::LEASE_REVOKE.path => unary!(lease::revoke),
            it if it == methods::LEASE_KEEP_ALIVE.path => {
                stream!("lease-keep-alive", lease::keep_alive)
            }
            it if it == methods::LEASE_TIME_TO_LIVE.path => unary!(lease::time_to_live),
            it if it == methods::LEASE_LEASES.path => unary!(lease::leases),
            it if it == methods::MEMBER_LIST.path => unary!(cluster::member_list),
            it if it == methods::ALARM.path => unary!(maintenance::alarm),
            it if it == methods::STATUS.path => unary!(maintenance::status),
            it if it == methods::DEFRAGMENT.path => unary!(maintenance::defragment),
            it if it == methods::HASH.path => unary!(maintenance::hash),
            it if it == methods::HASH_KV.path => unary!(maintenance::hash_kv),
            it if it == methods::MOVE_LEADER.path => unary!(maintenance::move_leader),
            it if it == methods::SNAPSHOT.path => stream!("snapshot", maintenance::snapshot),
            it if it == methods::AUTH_STATUS.path => unary!(cluster::auth_status),
            it if it == methods::AUTHENTICATE.path => unary!(cluster::authenticate),
            path => return Err(unknown(path)),
        })
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

/// The call of a method that may last.
pub(super) struct Call {
    pub(super) peer: Arc<Peer>,
    pub(super) inbound: Inbound,
    pub(super) reply: Reply,
}

/// Runs one in its own task.
pub(super) fn spawn(
    name: &str,
    method: fn(Call, Shutdown) -> BoxFuture<'static, Result<(), Gone>>,
    call: Call,
    under_way: UnderWay,
) {
    let tasks = call.peer.tasks.clone();
    tasks.spawn(name, |shutdown| {
        let running = method(call, shutdown);
        async move {
            let _under_way = under_way;
            let (Ok(()) | Err(Gone)) = running.await;
        }
    });
}

/// A range whose answer is small.
pub(super) fn range(peer: Arc<Peer>, request: RangeRequest) -> BoxFuture<'static, Answered> {
    Box::pin(async move { kv::range(&peer.front, request).await.into() })
}
