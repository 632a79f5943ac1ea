//! Transactions, which may lie in each other. The answer has the shape of the branches that were
//! taken, so it is rendered along the request.

use kvstore::{Op, OpResult, Revision, TXN_OPS_MAX, Txn, TxnResponse};

use super::write::{deleted, previous, wanted};
use super::{convert, range, unexpected};
use crate::front::{Front, error, number};
use crate::wire::Status;
use crate::wire::messages as pb;

pub(super) fn convert(request: &pb::TxnRequest) -> Result<Txn, Status> {
    convert_txn(request, TXN_OPS_MAX)
}

pub(super) fn response(
    front: &Front,
    request: &pb::TxnRequest,
    response: TxnResponse,
) -> Result<pb::TxnResponse, Status> {
    let after = response.revision;
    let before = if has_written(&response) { Revision(after.0 - 1) } else { after };
    let mut revisions = Revisions { now: before, after };
    let rendered = render(request, response, &mut revisions)?;
    Ok(pb::TxnResponse { header: front.header(after), ..rendered })
}

/// What each operation's header says: where the store was right after it. The first write of a
/// transaction moves it.
struct Revisions {
    now: Revision,
    after: Revision,
}

fn has_written(response: &TxnResponse) -> bool {
    response.results.iter().any(|it| match it {
        OpResult::Put { .. } => true,
        OpResult::Delete { previous } => !previous.is_empty(),
        OpResult::Range(_) => false,
        OpResult::Txn(nested) => has_written(nested),
    })
}

/// What a transaction uses up of its operations, those inside it do not have: so nesting ends.
fn convert_txn(request: &pb::TxnRequest, ops_max: usize) -> Result<Txn, Status> {
    let pb::TxnRequest { compare, success, failure } = request;
    let n_ops = compare.len().max(success.len()).max(failure.len());
    let ops_left = ops_max.checked_sub(n_ops).ok_or_else(error::too_many_ops)?;
    let compares = compare.iter().cloned().map(convert::compare).collect::<Result<_, _>>()?;
    let branch = |ops: &[pb::RequestOp]| {
        ops.iter().map(|it| convert_op(it, ops_left)).collect::<Result<Vec<_>, _>>()
    };
    let (then, otherwise) = (branch(success)?, branch(failure)?);
    let previous = previous(success.iter().chain(failure).any(wants_previous));
    Ok(Txn { compares, then, otherwise, previous, ..Txn::default() })
}

fn wants_previous(op: &pb::RequestOp) -> bool {
    match &op.request {
        Some(pb::RequestOpUnion::Put(request)) => request.prev_kv,
        Some(pb::RequestOpUnion::DeleteRange(request)) => request.prev_kv,
        Some(pb::RequestOpUnion::Txn(request)) => {
            request.success.iter().chain(&request.failure).any(wants_previous)
        }
        Some(pb::RequestOpUnion::Range(_)) | None => false,
    }
}

fn convert_op(op: &pb::RequestOp, ops_left: usize) -> Result<Op, Status> {
    match &op.request {
        Some(pb::RequestOpUnion::Range(request)) => range::convert(request).map(Op::Range),
        Some(pb::RequestOpUnion::Put(request)) => convert::put(request),
        Some(pb::RequestOpUnion::DeleteRange(request)) => convert::delete(request),
        Some(pb::RequestOpUnion::Txn(request)) => convert_txn(request, ops_left).map(Op::Txn),
        None => Err(error::key_not_found()),
    }
}

/// Without its header, which etcd leaves empty in a nested one.
fn render(
    request: &pb::TxnRequest,
    response: TxnResponse,
    revisions: &mut Revisions,
) -> Result<pb::TxnResponse, Status> {
    let ops = if response.succeeded { &request.success } else { &request.failure };
    if ops.len() != response.results.len() {
        return Err(unexpected());
    }
    let responses = ops
        .iter()
        .zip(response.results)
        .map(|(op, result)| render_op(op, result, revisions))
        .collect::<Result<_, _>>()?;
    let header = Some(pb::ResponseHeader::default());
    Ok(pb::TxnResponse { header, succeeded: response.succeeded, responses })
}

fn render_op(
    op: &pb::RequestOp,
    result: OpResult,
    revisions: &mut Revisions,
) -> Result<pb::ResponseOp, Status> {
    let is_write = match &result {
        OpResult::Put { .. } => true,
        OpResult::Delete { previous } => !previous.is_empty(),
        OpResult::Range(_) | OpResult::Txn(_) => false,
    };
    if is_write {
        revisions.now = revisions.after;
    }
    // Inside a transaction etcd's headers have the revision alone.
    let revision = number(revisions.now);
    let header = Some(pb::ResponseHeader { revision, ..pb::ResponseHeader::default() });
    let response = match (&op.request, result) {
        (Some(pb::RequestOpUnion::Range(request)), OpResult::Range(response)) => {
            let response = range::render(request, response);
            pb::ResponseOpUnion::Range(pb::RangeResponse { header, ..response })
        }
        (Some(pb::RequestOpUnion::Put(request)), OpResult::Put { previous }) => {
            let prev_kv = wanted(request.prev_kv, previous);
            pb::ResponseOpUnion::Put(pb::PutResponse { header, prev_kv })
        }
        (Some(pb::RequestOpUnion::DeleteRange(request)), OpResult::Delete { previous }) => {
            let response = deleted(request.prev_kv, previous);
            pb::ResponseOpUnion::DeleteRange(pb::DeleteRangeResponse { header, ..response })
        }
        (Some(pb::RequestOpUnion::Txn(request)), OpResult::Txn(response)) => {
            pb::ResponseOpUnion::Txn(render(request, response, revisions)?)
        }
        _ => return Err(unexpected()),
    };
    Ok(pb::ResponseOp { response: Some(response) })
}
