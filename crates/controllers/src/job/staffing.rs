//! Which pods a Job makes, and which of those that run it lets go of. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use jiff::Timestamp;

use super::backoff::{self, Record};
use super::counting::Census;
use super::indexes::Indexes;
use super::policies::judge;
use super::terms::{Terms, is_tracked};

/// Pods made or let go of by one reconcile, at most; the next one goes on.
pub(super) const BURST: usize = 500;

/// Either creations or deletions; deletions come first.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Staffing {
    pub create: Vec<Creation>,
    /// Not needed any more: deleted, and counted as nothing.
    pub let_go: Vec<Arc<PodView>>,
    /// Until pods may be made that failures delay.
    pub wait: Option<Duration>,
    /// Whether pods are missing that are made when those that are being deleted have ended.
    pub waits_for_ends: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Creation {
    pub index: Option<i32>,
    pub failures: Option<IndexFailures>,
}

/// Pods of an index that failed, where each index has its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexFailures {
    pub counted: i32,
    pub ignored: i32,
}

pub(super) fn plan(
    terms: &Terms<'_>,
    census: &Census,
    kept: &BTreeMap<i32, Arc<PodView>>,
    record: Record,
    now: Timestamp,
) -> Staffing {
    let n_active = i64::try_from(census.active.len()).unwrap_or(i64::MAX);
    let wanted = wanted(terms, census, n_active);
    let mut let_go = surplus(terms, census, usize::try_from(n_active - wanted).unwrap_or(0));
    if !let_go.is_empty() {
        let_go.truncate(BURST);
        return Staffing { let_go, ..Staffing::default() };
    }
    let leaving = if terms.waits_for_ends { census.terminating.len() } else { 0 };
    let lacking = usize::try_from(wanted - n_active).unwrap_or(0);
    let missing = lacking.saturating_sub(leaving);
    if missing == 0 {
        return Staffing { waits_for_ends: lacking > 0, ..Staffing::default() };
    }
    if terms.backoff_limit_per_index.is_none() {
        let left = record.left(now);
        if !left.is_zero() {
            return Staffing { wait: Some(left), ..Staffing::default() };
        }
    }
    let missing = missing.min(BURST);
    if !terms.is_indexed {
        return Staffing { create: vec![Creation::default(); missing], ..Staffing::default() };
    }
    by_index(terms, kept, &pending(terms, census, missing), now)
}

/// How many are to run.
fn wanted(terms: &Terms<'_>, census: &Census, n_active: i64) -> i64 {
    let parallelism = i64::from(terms.parallelism);
    match terms.completions {
        _ if terms.is_suspended => 0,
        Some(completions) => (i64::from(completions) - census.succeeded).clamp(0, parallelism),
        // One has succeeded: the others end by themselves.
        None if census.succeeded > 0 => n_active,
        None => parallelism,
    }
}

/// Those that cannot count, and as many more as are too many: what does the least work goes first.
fn surplus(terms: &Terms<'_>, census: &Census, too_many: usize) -> Vec<Arc<PodView>> {
    let mut ranked = census.active.clone();
    ranked.sort_by_cached_key(|it| rank(it));
    // Those that have done the most are asked first whether they may stay.
    let mut seen = BTreeSet::new();
    let mut stays = |pod: &PodView| match terms.index(pod) {
        // We were interrupted between its finalizer and its deletion, or somebody took that away.
        _ if !is_tracked(pod) => false,
        Some(index) => !terms.is_indexed || seen.insert(index),
        None => !terms.is_indexed,
    };
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for pod in ranked.into_iter().rev() {
        if stays(&pod) { stay.push(pod) } else { go.push(pod) }
    }
    let more = too_many.saturating_sub(go.len());
    go.extend(stay.into_iter().rev().take(more));
    go
}

type Rank = (
    bool,
    u8,
    bool,
    bool,
    Reverse<Option<Timestamp>>,
    Reverse<i32>,
    Reverse<Option<Timestamp>>,
    String,
);

/// Sorts pods by who goes first.
fn rank(pod: &PodView) -> Rank {
    let phase = match pod.phase.as_str() {
        "" | "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    (
        pod.node().is_some(),
        phase,
        pod.is_ready,
        pod.ready_since.is_some(),
        Reverse(pod.ready_since),
        Reverse(pod.restarts),
        Reverse(pod.created),
        pod.uid().to_owned(),
    )
}

/// The first indexes that nobody works on and that are not over.
fn pending(terms: &Terms<'_>, census: &Census, count: usize) -> Vec<i32> {
    let indexes = |pods: &[Arc<PodView>]| -> Indexes {
        pods.iter().filter_map(|it| terms.index(it)).collect()
    };
    let mut taken = census.completed_indexes.union(&indexes(&census.active));
    if terms.waits_for_ends {
        taken = taken.union(&indexes(&census.terminating));
    }
    if let Some(failed) = &census.failed_indexes {
        taken = taken.union(failed);
    }
    taken.first_missing(count, terms.completions.unwrap_or(0))
}

fn by_index(
    terms: &Terms<'_>,
    kept: &BTreeMap<i32, Arc<PodView>>,
    indexes: &[i32],
    now: Timestamp,
) -> Staffing {
    let mut staffing = Staffing::default();
    for index in indexes {
        let before = kept.get(index);
        let left = before.map_or(Duration::ZERO, |it| {
            let failures = u32::try_from(failures(it)).unwrap_or(u32::MAX).saturating_add(1);
            backoff::left(failures, backoff::ended(it), now)
        });
        if left.is_zero() {
            let failures = terms.backoff_limit_per_index.map(|_| failures_with(terms, before));
            staffing.create.push(Creation { index: Some(*index), failures });
        } else {
            staffing.wait = Some(staffing.wait.map_or(left, |it| it.min(left)));
        }
    }
    staffing
}

/// Of the index of a pod, before it.
fn failures(pod: &PodView) -> i32 {
    let job = pod.job.as_ref();
    job.map_or(0, |it| it.index_failures.saturating_add(it.index_ignored_failures))
}

/// Of an index whose last pod was this.
fn failures_with(terms: &Terms<'_>, last: Option<&Arc<PodView>>) -> IndexFailures {
    let Some(last) = last else { return IndexFailures::default() };
    let job = last.job.as_ref();
    let (mut counted, mut ignored) =
        job.map_or((0, 0), |it| (it.index_failures, it.index_ignored_failures));
    if judge(terms.spec, last).counts() {
        counted = counted.saturating_add(1);
    } else {
        ignored = ignored.saturating_add(1);
    }
    IndexFailures { counted, ignored }
}

/// The last failed pod of each index that will be tried again. They are kept: only they know how
/// often their index failed, until the next pod does.
pub(super) fn kept(terms: &Terms<'_>, census: &Census) -> BTreeMap<i32, Arc<PodView>> {
    let (Some(_), Some(over)) = (terms.backoff_limit_per_index, &census.failed_indexes) else {
        return BTreeMap::new();
    };
    let active: BTreeSet<i32> = census.active.iter().filter_map(|it| terms.index(it)).collect();
    let mut kept: BTreeMap<i32, Arc<PodView>> = BTreeMap::new();
    let failed = census.pods.iter().filter(|it| is_tracked(it) && terms.has_failed(it));
    for pod in failed {
        let Some(index) = terms.index(pod) else { continue };
        if census.completed_indexes.has(index) || over.has(index) || active.contains(&index) {
            continue;
        }
        let order = |it: &PodView| (failures(it), backoff::ended(it));
        if kept.get(&index).is_none_or(|it| order(it) <= order(pod)) {
            kept.insert(index, pod.clone());
        }
    }
    kept
}
