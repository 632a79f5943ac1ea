//! Requests that write: what they ask of the store, and how its answer is said. Those that arrive
//! together are asked together.

use std::sync::Arc;

use kvstore::{Error, KeyValue, Op, OpResult, Previous, Revision, Txn, TxnResponse};

use super::{convert, entry, txn, unexpected};
use crate::front::peer::{Peer, UnderWay};
use crate::front::routes::Answered;
use crate::front::{Front, error};
use crate::wire::Status;
use crate::wire::messages as pb;

pub(in crate::front) struct Write {
    txn: Txn,
    asked: Asked,
}

enum Asked {
    Put { prev_kv: bool },
    Delete { prev_kv: bool },
    Txn(Box<pb::TxnRequest>),
}

/// A write, and the call that it is.
pub(in crate::front) struct WriteCall {
    pub(in crate::front) stream: u32,
    pub(in crate::front) write: Write,
    pub(in crate::front) under_way: UnderWay,
}

pub(in crate::front) fn put(request: &pb::PutRequest) -> Result<Write, Status> {
    let prev_kv = request.prev_kv;
    Ok(Write { txn: one(convert::put(request)?, prev_kv), asked: Asked::Put { prev_kv } })
}

pub(in crate::front) fn delete_range(request: &pb::DeleteRangeRequest) -> Result<Write, Status> {
    let prev_kv = request.prev_kv;
    Ok(Write { txn: one(convert::delete(request)?, prev_kv), asked: Asked::Delete { prev_kv } })
}

pub(in crate::front) fn txn(request: pb::TxnRequest) -> Result<Write, Status> {
    Ok(Write { txn: txn::convert(&request)?, asked: Asked::Txn(Box::new(request)) })
}

/// Carries it out before it returns, if the store can; else it is given back.
pub(in crate::front) fn run_here(
    peer: &Peer,
    call: WriteCall,
) -> Result<(u32, Answered), WriteCall> {
    let WriteCall { stream, write: Write { txn, asked }, under_way } = call;
    match peer.front.store.txn_here(txn) {
        Ok(done) => Ok((stream, asked.answered(&peer.front, done))),
        Err(txn) => Err(WriteCall { stream, write: Write { txn, asked }, under_way }),
    }
}

/// Asks for all of them; each is answered on its own.
pub(in crate::front) async fn run(peer: Arc<Peer>, calls: Vec<WriteCall>) -> Vec<(u32, Answered)> {
    let (mut txns, mut rest) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
    for WriteCall { stream, write: Write { txn, asked }, under_way } in calls {
        txns.push(txn);
        rest.push((stream, asked, under_way));
    }
    let front = &peer.front;
    let done = front.store.txns(txns).await;
    let answers = rest
        .into_iter()
        .zip(done)
        .map(|((stream, asked, _under_way), done)| (stream, asked.answered(front, done)));
    answers.collect()
}

impl Asked {
    fn answered(self, front: &Front, done: Result<TxnResponse, Error>) -> Answered {
        let response = match done {
            Ok(response) => response,
            Err(err) => return Answered::Refused(error::status(&err)),
        };
        match self {
            Self::Put { prev_kv } => put_response(front, prev_kv, response).into(),
            Self::Delete { prev_kv } => delete_response(front, prev_kv, response).into(),
            Self::Txn(request) => txn::response(front, &request, response).into(),
        }
    }
}

fn put_response(
    front: &Front,
    prev_kv: bool,
    response: TxnResponse,
) -> Result<pb::PutResponse, Status> {
    let (revision, OpResult::Put { previous }) = only(response)? else {
        return Err(unexpected());
    };
    Ok(pb::PutResponse { header: front.header(revision), prev_kv: wanted(prev_kv, previous) })
}

fn delete_response(
    front: &Front,
    prev_kv: bool,
    response: TxnResponse,
) -> Result<pb::DeleteRangeResponse, Status> {
    let (revision, OpResult::Delete { previous }) = only(response)? else {
        return Err(unexpected());
    };
    let response = deleted(prev_kv, previous);
    Ok(pb::DeleteRangeResponse { header: front.header(revision), ..response })
}

fn one(op: Op, prev_kv: bool) -> Txn {
    Txn { previous: previous(prev_kv), ..Txn::of(vec![op]) }
}

fn only(response: TxnResponse) -> Result<(Revision, OpResult), Status> {
    let TxnResponse { revision, mut results, .. } = response;
    Ok((revision, results.pop().ok_or_else(unexpected)?))
}

pub(super) fn previous(is_wanted: bool) -> Previous {
    if is_wanted { Previous::Entries } else { Previous::Keys }
}

pub(super) fn wanted(is_wanted: bool, previous: Option<KeyValue>) -> Option<pb::KeyValue> {
    previous.filter(|_| is_wanted).map(entry)
}

/// Without its header.
pub(super) fn deleted(is_wanted: bool, previous: Vec<KeyValue>) -> pb::DeleteRangeResponse {
    let deleted = i64::try_from(previous.len()).unwrap_or(i64::MAX);
    let previous = if is_wanted { previous } else { Vec::new() };
    let prev_kvs = previous.into_iter().map(entry).collect();
    pb::DeleteRangeResponse { header: None, deleted, prev_kvs }
}
