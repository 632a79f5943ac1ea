//! The store's values as etcd's messages, and back.

use std::time::Duration;

use kvstore::{
    Compare, Event, KeyRange, KeyValue, LeaseId, Op, OpResult, Put, PutLease, PutValue,
    RangeRequest, RangeResponse, Relation, Revision, Target, Txn, TxnResponse, Want,
};

use bytes::Bytes;

use crate::wire::messages::{
    self as wire, CompareResult, CompareTarget, CompareTargetUnion, EventType, RequestOpUnion,
    ResponseOpUnion,
};

/// What stands for "from the first key" at the start of a range, and for "to the last" at its end.
const OPEN: Bytes = Bytes::from_static(&[0]);

pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// etcd's revisions are never negative.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn seconds(number: i64) -> Duration {
    Duration::from_secs(count(number))
}

/// Key and range end. A range that can hold nothing stays one that holds nothing: its end is before
/// its start.
pub(super) fn bounds(range: &KeyRange) -> (Bytes, Bytes) {
    if let Some(key) = range.single().filter(|it| !it.is_empty()) {
        return (key.clone(), Bytes::new());
    }
    let start = if range.start.is_empty() { OPEN } else { range.start.clone() };
    let end = if range.end.is_empty() { OPEN } else { range.end.clone() };
    (start, end)
}

pub(super) fn everything() -> (Bytes, Bytes) {
    (OPEN, OPEN)
}

pub(super) fn range(request: &RangeRequest) -> wire::RangeRequest {
    let (key, range_end) = bounds(&request.range);
    wire::RangeRequest {
        key,
        range_end,
        limit: i64::try_from(request.limit).unwrap_or(i64::MAX),
        revision: request.at.map_or(0, number),
        keys_only: request.want == Want::Keys,
        count_only: request.want == Want::Count,
        ..wire::RangeRequest::default()
    }
}

pub(super) fn range_response(
    request: &RangeRequest,
    response: wire::RangeResponse,
    current: Revision,
) -> RangeResponse {
    let read = response.header.map(|it| revision(it.revision)).filter(|it| it.0 > 0);
    let entries: Vec<_> = response.kvs.into_iter().map(key_value).collect();
    let count = count(response.count);
    RangeResponse {
        has_more: response.more
            || (request.want == Want::Count && request.limit > 0 && count > request.limit as u64),
        entries,
        count,
        revision: request.at.or(read).unwrap_or(current),
    }
}

pub(super) fn key_value(it: wire::KeyValue) -> KeyValue {
    KeyValue {
        key: it.key,
        value: it.value,
        create_revision: revision(it.create_revision),
        mod_revision: revision(it.mod_revision),
        version: count(it.version),
        lease: LeaseId::new(it.lease),
    }
}

/// `None` for an event without a key, which etcd does not send.
pub(super) fn event(it: wire::Event) -> Option<Event> {
    let kv = it.kv?;
    let is_delete = it.kind == EventType::Delete as i32;
    let revision = revision(kv.mod_revision);
    let key = kv.key.clone();
    let value = (!is_delete).then(|| key_value(kv));
    Some(Event { key, value, previous: it.prev_kv.map(key_value), revision })
}

pub(super) fn compare(it: &Compare) -> wire::Compare {
    let (key, range_end) = bounds(&it.keys);
    let result = match it.relation {
        Relation::Equal => CompareResult::Equal,
        Relation::NotEqual => CompareResult::NotEqual,
        Relation::Less => CompareResult::Less,
        Relation::Greater => CompareResult::Greater,
    };
    let (target, union) = match &it.target {
        Target::CreateRevision(it) => {
            (CompareTarget::Create, CompareTargetUnion::CreateRevision(number(*it)))
        }
        Target::ModRevision(it) => {
            (CompareTarget::Mod, CompareTargetUnion::ModRevision(number(*it)))
        }
        Target::Version(it) => {
            let version = i64::try_from(*it).unwrap_or(i64::MAX);
            (CompareTarget::Version, CompareTargetUnion::Version(version))
        }
        Target::Value(it) => (CompareTarget::Value, CompareTargetUnion::Value(it.clone())),
        Target::Lease(it) => {
            (CompareTarget::Lease, CompareTargetUnion::Lease(it.map_or(0, |it| it.0.get())))
        }
    };
    wire::Compare {
        result: result as i32,
        target: target as i32,
        key,
        target_union: Some(union),
        range_end,
    }
}

fn put(it: &Put) -> wire::PutRequest {
    let (value, ignore_value) = match &it.value {
        // The revision is not known before it is written, so a stamp cannot be either.
        PutValue::Bytes(bytes) | PutValue::Stamped { bytes, .. } => (bytes.clone(), false),
        PutValue::Kept => (Bytes::new(), true),
    };
    let (lease, ignore_lease) = match it.lease {
        PutLease::None => (0, false),
        PutLease::Bound(id) => (id.0.get(), false),
        PutLease::Kept => (0, true),
    };
    wire::PutRequest {
        key: it.key.clone(),
        value,
        lease,
        prev_kv: true,
        ignore_value,
        ignore_lease,
    }
}

pub(super) fn op(it: &Op) -> wire::RequestOp {
    let request = match it {
        Op::Put(it) => RequestOpUnion::Put(put(it)),
        Op::Delete(it) => {
            let (key, range_end) = bounds(it);
            let request = wire::DeleteRangeRequest { key, range_end, prev_kv: true };
            RequestOpUnion::DeleteRange(request)
        }
        Op::Range(it) => RequestOpUnion::Range(range(it)),
        Op::Txn(it) => RequestOpUnion::Txn(txn(it)),
    };
    wire::RequestOp { request: Some(request) }
}

pub(super) fn txn(it: &Txn) -> wire::TxnRequest {
    wire::TxnRequest {
        compare: it.compares.iter().map(compare).collect(),
        success: it.then.iter().map(op).collect(),
        failure: it.otherwise.iter().map(op).collect(),
    }
}

/// The answer to `txn`. `None` when it does not fit what was asked.
pub(super) fn txn_response(
    txn: &Txn,
    response: wire::TxnResponse,
    current: Revision,
) -> Option<TxnResponse> {
    let told = response.header.map(|it| revision(it.revision)).filter(|it| it.0 > 0);
    let revision = told.unwrap_or(current);
    let branch = if response.succeeded { &txn.then } else { &txn.otherwise };
    if branch.len() != response.responses.len() {
        return None;
    }
    let results = branch
        .iter()
        .zip(response.responses)
        .map(|(op, it)| op_result(op, it, revision))
        .collect::<Option<_>>()?;
    Some(TxnResponse { revision, succeeded: response.succeeded, results })
}

fn op_result(op: &Op, response: wire::ResponseOp, current: Revision) -> Option<OpResult> {
    Some(match (op, response.response?) {
        (Op::Put(_), ResponseOpUnion::Put(it)) => {
            OpResult::Put { previous: it.prev_kv.map(key_value) }
        }
        (Op::Delete(_), ResponseOpUnion::DeleteRange(it)) => {
            OpResult::Delete { previous: it.prev_kvs.into_iter().map(key_value).collect() }
        }
        (Op::Range(request), ResponseOpUnion::Range(it)) => {
            OpResult::Range(range_response(request, it, current))
        }
        (Op::Txn(txn), ResponseOpUnion::Txn(it)) => OpResult::Txn(txn_response(txn, it, current)?),
        _ => return None,
    })
}
