//! Reading and writing keys: etcd's requests as the store's, and back.

mod convert;
mod range;
mod txn;

use kvstore::{KeyValue, OpResult, Previous, Revision, Txn, TxnResponse};

use super::{Front, error};
use crate::wire::messages as pb;
use crate::wire::{Code, Status};

pub(super) use convert::{entry, key_range};
pub(super) use range::{is_wide, range, range_apart};
pub(super) use txn::txn;

pub(super) async fn put(front: &Front, request: pb::PutRequest) -> Result<pb::PutResponse, Status> {
    let op = convert::put(&request)?;
    let (revision, result) = run_one(front, op, previous(request.prev_kv)).await?;
    let OpResult::Put { previous } = result else {
        return Err(unexpected());
    };
    Ok(pb::PutResponse {
        header: front.header(revision),
        prev_kv: wanted(request.prev_kv, previous),
    })
}

pub(super) async fn delete_range(
    front: &Front,
    request: pb::DeleteRangeRequest,
) -> Result<pb::DeleteRangeResponse, Status> {
    let op = convert::delete(&request)?;
    let (revision, result) = run_one(front, op, previous(request.prev_kv)).await?;
    let OpResult::Delete { previous } = result else {
        return Err(unexpected());
    };
    let response = deleted(request.prev_kv, previous);
    Ok(pb::DeleteRangeResponse { header: front.header(revision), ..response })
}

pub(super) async fn compact(
    front: &Front,
    request: pb::CompactionRequest,
) -> Result<pb::CompactionResponse, Status> {
    let through = u64::try_from(request.revision).map_err(|_| error::compacted())?;
    let oldest = front.store.oldest();
    if oldest > Revision(1) && Revision(through) <= oldest {
        return Err(error::compacted());
    }
    // Revision 1 is the empty store: nothing lies before it.
    let through = through.max(1);
    front.store.compact(Revision(through)).await.map_err(|err| error::status(&err))?;
    Ok(pb::CompactionResponse { header: front.header(front.store.revision()) })
}

async fn run_one(
    front: &Front,
    op: kvstore::Op,
    previous: Previous,
) -> Result<(Revision, OpResult), Status> {
    let done = front.store.txn(Txn { previous, ..Txn::of(vec![op]) }).await;
    let TxnResponse { revision, mut results, .. } = done.map_err(|err| error::status(&err))?;
    Ok((revision, results.pop().ok_or_else(unexpected)?))
}

fn previous(is_wanted: bool) -> Previous {
    if is_wanted { Previous::Entries } else { Previous::Keys }
}

fn wanted(is_wanted: bool, previous: Option<KeyValue>) -> Option<pb::KeyValue> {
    previous.filter(|_| is_wanted).map(entry)
}

/// Without its header.
fn deleted(is_wanted: bool, previous: Vec<KeyValue>) -> pb::DeleteRangeResponse {
    let deleted = i64::try_from(previous.len()).unwrap_or(i64::MAX);
    let previous = if is_wanted { previous } else { Vec::new() };
    let prev_kvs = previous.into_iter().map(entry).collect();
    pb::DeleteRangeResponse { header: None, deleted, prev_kvs }
}

fn unexpected() -> Status {
    Status::new(Code::Internal, "etcdserver: the store answered another question")
}
