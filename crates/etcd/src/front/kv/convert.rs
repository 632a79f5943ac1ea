//! Values of the wire and of the store, one into the other. What is put shares the bytes that were
//! received: the store makes them its own. Ranges, which watches keep, are copied here, else a
//! small key would keep a whole read buffer alive.

use bytes::Bytes;
use kvstore::{
    Compare, KeyRange, KeyValue, LeaseId, Op, Put, PutLease, PutValue, Relation, Revision, Target,
};

use crate::front::{error, number};
use crate::wire::messages as pb;
use crate::wire::{Code, Status};

/// etcd's two fields: no end is the key alone, a zero byte is everything from the key on.
pub(crate) fn key_range(key: &Bytes, end: &Bytes) -> KeyRange {
    let start = Bytes::copy_from_slice(key);
    match &end[..] {
        [] => KeyRange::one(key),
        [0] => KeyRange { start, end: Bytes::new() },
        // An interval with nothing in it, said in the one way that is an interval.
        _ if end <= key => KeyRange { end: start.clone(), start },
        _ => KeyRange { start, end: Bytes::copy_from_slice(end) },
    }
}

pub(crate) fn entry(entry: KeyValue) -> pb::KeyValue {
    pb::KeyValue {
        key: entry.key,
        create_revision: number(entry.create_revision),
        mod_revision: number(entry.mod_revision),
        version: i64::try_from(entry.version).unwrap_or(i64::MAX),
        value: entry.value,
        lease: entry.lease.map_or(0, |it| it.0.get()),
    }
}

pub(super) fn put(request: &pb::PutRequest) -> Result<Op, Status> {
    if request.key.is_empty() {
        return Err(error::empty_key());
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(error::value_provided());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(error::lease_provided());
    }
    let value = match request.ignore_value {
        true => PutValue::Kept,
        false => PutValue::Bytes(request.value.clone()),
    };
    let lease = match (request.ignore_lease, LeaseId::new(request.lease)) {
        (true, _) => PutLease::Kept,
        (false, Some(id)) => PutLease::Bound(id),
        (false, None) => PutLease::None,
    };
    Ok(Op::Put(Put { key: request.key.clone(), value, lease }))
}

pub(super) fn delete(request: &pb::DeleteRangeRequest) -> Result<Op, Status> {
    if request.key.is_empty() {
        return Err(error::empty_key());
    }
    Ok(Op::Delete(key_range(&request.key, &request.range_end)))
}

pub(super) fn compare(compare: pb::Compare) -> Result<Compare, Status> {
    if compare.key.is_empty() {
        return Err(error::empty_key());
    }
    let unknown = |_| Status::new(Code::InvalidArgument, "etcdserver: unknown compare");
    let relation = match pb::CompareResult::try_from(compare.result).map_err(unknown)? {
        pb::CompareResult::Equal => Relation::Equal,
        pb::CompareResult::NotEqual => Relation::NotEqual,
        pb::CompareResult::Less => Relation::Less,
        pb::CompareResult::Greater => Relation::Greater,
    };
    let keys = key_range(&compare.key, &compare.range_end);
    let target = pb::CompareTarget::try_from(compare.target).map_err(unknown)?;
    let (relation, target) = match (target, compare.target_union) {
        (pb::CompareTarget::Value, Some(pb::CompareTargetUnion::Value(value))) => {
            (relation, Target::Value(value))
        }
        (pb::CompareTarget::Value, _) => (relation, Target::Value(Bytes::new())),
        (pb::CompareTarget::Lease, Some(pb::CompareTargetUnion::Lease(id))) => {
            (relation, Target::Lease(LeaseId::new(id)))
        }
        (pb::CompareTarget::Lease, _) => (relation, Target::Lease(None)),
        (pb::CompareTarget::Version, Some(pb::CompareTargetUnion::Version(it))) => {
            unsigned(relation, it, Target::Version)
        }
        (pb::CompareTarget::Version, _) => (relation, Target::Version(0)),
        (pb::CompareTarget::Create, Some(pb::CompareTargetUnion::CreateRevision(it))) => {
            unsigned(relation, it, |it| Target::CreateRevision(Revision(it)))
        }
        (pb::CompareTarget::Create, _) => (relation, Target::CreateRevision(Revision(0))),
        (pb::CompareTarget::Mod, Some(pb::CompareTargetUnion::ModRevision(it))) => {
            unsigned(relation, it, |it| Target::ModRevision(Revision(it)))
        }
        (pb::CompareTarget::Mod, _) => (relation, Target::ModRevision(Revision(0))),
    };
    Ok(Compare { keys, relation, target })
}

/// The store counts from zero; etcd's numbers have a sign. Nothing equals a negative one, and
/// everything is greater.
fn unsigned(
    relation: Relation,
    number: i64,
    target: impl FnOnce(u64) -> Target,
) -> (Relation, Target) {
    match (u64::try_from(number), relation) {
        (Ok(number), relation) => (relation, target(number)),
        (Err(_), Relation::Less) => (Relation::Less, target(0)),
        (Err(_), Relation::Equal) => (Relation::Equal, target(u64::MAX)),
        (Err(_), Relation::NotEqual | Relation::Greater) => (Relation::NotEqual, target(u64::MAX)),
    }
}
