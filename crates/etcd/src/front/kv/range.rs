//! Ranges. What the store does not do itself (sorting by anything but the key, filters by revision)
//! is done here on its answer.

use kvstore::{KeyValue, RangeRequest, RangeResponse, Revision, Want};

use super::convert::{entry, key_range};
use crate::front::exchange::{Gone, Reply};
use crate::front::peer::UnderWay;
use crate::front::{Front, error};
use crate::wire::Status;
use crate::wire::messages as pb;

/// A range that may be larger than this leaves the connection's task.
const INLINE_MAX: i64 = 100;

pub(crate) fn is_wide(request: &pb::RangeRequest) -> bool {
    !request.range_end.is_empty()
        && !request.count_only
        && !(1..=INLINE_MAX).contains(&request.limit)
}

/// Answers a wide range in a task of its own.
pub(crate) fn range_apart(request: pb::RangeRequest, reply: Reply, under_way: UnderWay) {
    let peer = reply.peer().clone();
    let tasks = peer.tasks.clone();
    tasks.spawn("range", |_| async move {
        let _under_way = under_way;
        // Held until the answer has been taken: a client that does not read its ranges gets no more
        // of them.
        let _permit = peer.ranges.acquire().await;
        let answer = range(&peer.front, request).await;
        // Whoever is gone needs no answer.
        let (Ok(()) | Err(Gone)) = reply.finish(answer).await;
    });
}

pub(crate) async fn range(
    front: &Front,
    request: pb::RangeRequest,
) -> Result<pb::RangeResponse, Status> {
    let range = convert(&request)?;
    let is_past = range.at.is_some();
    let response = front.store.range(range).await.map_err(|err| error::status(&err))?;
    // The header tells where the store is, not what was read.
    let revision = match is_past {
        true => front.store.revision().max(response.revision),
        false => response.revision,
    };
    Ok(pb::RangeResponse { header: front.header(revision), ..render(&request, response) })
}

pub(super) fn convert(request: &pb::RangeRequest) -> Result<RangeRequest, Status> {
    if request.key.is_empty() {
        return Err(error::empty_key());
    }
    if pb::SortOrder::try_from(request.sort_order).is_err()
        || pb::SortTarget::try_from(request.sort_target).is_err()
    {
        return Err(error::invalid_sort());
    }
    let at = match u64::try_from(request.revision) {
        Ok(0) => None,
        Ok(revision) => Some(Revision(revision)),
        // etcd reads the latest revision for a negative one.
        Err(_) => None,
    };
    let needs_all =
        request.sort_order() != pb::SortOrder::None && !is_by_key(request) || has_filters(request);
    let limit = if needs_all { 0 } else { usize::try_from(request.limit).unwrap_or(0) };
    let want = match (request.count_only, request.keys_only) {
        (true, _) => Want::Count,
        (false, true) if request.sort_target() != pb::SortTarget::Value => Want::Keys,
        (false, _) => Want::Entries,
    };
    Ok(RangeRequest { range: key_range(&request.key, &request.range_end), at, limit, want })
}

/// The order that the store answers in.
fn is_by_key(request: &pb::RangeRequest) -> bool {
    request.sort_target() == pb::SortTarget::Key && request.sort_order() != pb::SortOrder::Descend
}

fn has_filters(request: &pb::RangeRequest) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

/// Without its header.
pub(super) fn render(request: &pb::RangeRequest, response: RangeResponse) -> pb::RangeResponse {
    let RangeResponse { mut entries, has_more, count, .. } = response;
    if has_filters(request) {
        entries.retain(|it| passes(request, it));
    }
    if !is_by_key(request) {
        sort(request, &mut entries);
    }
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let is_cut = limit > 0 && entries.len() > limit;
    if is_cut {
        entries.truncate(limit);
    }
    let strip = |mut it: pb::KeyValue| {
        if request.keys_only {
            it.value.clear();
        }
        it
    };
    pb::RangeResponse {
        header: None,
        kvs: entries.into_iter().map(entry).map(strip).collect(),
        more: has_more || is_cut,
        count: i64::try_from(count).unwrap_or(i64::MAX),
    }
}

fn passes(request: &pb::RangeRequest, entry: &KeyValue) -> bool {
    let within = |revision: Revision, min: i64, max: i64| {
        let revision = crate::front::number(revision);
        (min == 0 || revision >= min) && (max == 0 || revision <= max)
    };
    within(entry.mod_revision, request.min_mod_revision, request.max_mod_revision)
        && within(entry.create_revision, request.min_create_revision, request.max_create_revision)
}

/// Equal ones stay in the order of their keys, whichever way it goes.
fn sort(request: &pb::RangeRequest, entries: &mut [KeyValue]) {
    let compare = |a: &KeyValue, b: &KeyValue| match request.sort_target() {
        pb::SortTarget::Key => a.key.cmp(&b.key),
        pb::SortTarget::Version => a.version.cmp(&b.version),
        pb::SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        pb::SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        pb::SortTarget::Value => a.value.cmp(&b.value),
    };
    match request.sort_order() {
        pb::SortOrder::Descend => entries.sort_by(|a, b| compare(b, a)),
        pb::SortOrder::None | pb::SortOrder::Ascend => entries.sort_by(compare),
    }
}
