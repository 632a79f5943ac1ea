//! How many pods succeeded and failed: each is counted once, whenever this program is killed. Pure.
//!
//! A pod that ended keeps its finalizer, so that it cannot vanish, until the status has its uid
//! (`uncountedTerminatedPods`) or its index. Then the finalizer goes, and when the pod is seen
//! without it, the uid becomes a number:
//!
//! ```text
//! pod a ended, has finalizer    status: succeeded 4                    -> write uncounted [a]
//! pod a ended, has finalizer    status: succeeded 4, uncounted [a]     -> take the finalizer off
//! pod a has none, or is gone    status: succeeded 4, uncounted [a]     -> write succeeded 5
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};

use super::ending::Ending;
use super::indexes::Indexes;
use super::policies::{Verdict, judge};
use super::terms::{Terms, has_succeeded, is_tracked};

/// Pods that one status names, at most, so that it stays small.
const UNCOUNTED_MAX: usize = 500;

/// The pods of a Job, by what they are to it.
pub(super) struct Census {
    /// All of them; those of an indexed Job in the order of their indexes.
    pub pods: Vec<Arc<PodView>>,
    pub active: Vec<Arc<PodView>>,
    pub terminating: Vec<Arc<PodView>>,
    /// What ended and is not in the status yet.
    pub newly_succeeded: Vec<Arc<PodView>>,
    pub newly_failed: Vec<Arc<PodView>>,
    /// With what is not in the status yet.
    pub succeeded: i64,
    pub failed: i64,
    pub completed_indexes: Indexes,
    pub failed_indexes: Option<Indexes>,
}

/// The uids that a status names.
struct Uncounted<'a> {
    succeeded: BTreeSet<&'a str>,
    failed: BTreeSet<&'a str>,
}

impl<'a> Uncounted<'a> {
    fn of(status: &'a JobStatus) -> Self {
        let pods = status.uncounted_terminated_pods.as_ref();
        let set = |uids: Option<&'a Vec<String>>| {
            uids.into_iter().flatten().map(String::as_str).collect()
        };
        Self {
            succeeded: set(pods.and_then(|it| it.succeeded.as_ref())),
            failed: set(pods.and_then(|it| it.failed.as_ref())),
        }
    }

    fn has(&self, pod: &PodView) -> bool {
        self.succeeded.contains(pod.uid()) || self.failed.contains(pod.uid())
    }
}

impl Census {
    pub(super) fn take(terms: &Terms<'_>, status: &JobStatus, mut pods: Vec<Arc<PodView>>) -> Self {
        if terms.is_indexed {
            pods.sort_by_key(|it| (terms.index(it), it.key()));
        }
        let uncounted = Uncounted::of(status);
        let is_new =
            |it: &&Arc<PodView>| is_tracked(it) && terms.is_valid(it) && !uncounted.has(it);
        let select = |is_wanted: &dyn Fn(&PodView) -> bool| -> Vec<Arc<PodView>> {
            pods.iter().filter(is_new).filter(|it| is_wanted(it)).cloned().collect()
        };
        let newly_succeeded = select(&has_succeeded);
        let newly_failed = select(&|it| terms.has_failed(it));
        let counted = |stored: Option<i32>, named: usize, new: usize| {
            i64::from(stored.unwrap_or(0)) + (named + new) as i64
        };
        let (completed_indexes, failed_indexes) =
            indexes(terms, status, &newly_succeeded, &newly_failed);
        let n_failed = newly_failed.iter().filter(|it| judge(terms.spec, it).counts()).count();
        Self {
            active: pods.iter().filter(|it| it.is_active()).cloned().collect(),
            terminating: pods.iter().filter(|it| is_terminating(it)).cloned().collect(),
            succeeded: if terms.is_indexed {
                completed_indexes.len()
            } else {
                counted(status.succeeded, uncounted.succeeded.len(), newly_succeeded.len())
            },
            failed: counted(status.failed, uncounted.failed.len(), n_failed),
            newly_succeeded,
            newly_failed,
            completed_indexes,
            failed_indexes,
            pods,
        }
    }
}

fn is_terminating(pod: &PodView) -> bool {
    pod.meta.is_deleting && !pod.is_terminal()
}

/// What is stored, and what ended since. An index is in one of the two sets, at most: the first
/// that it came into.
fn indexes(
    terms: &Terms<'_>,
    status: &JobStatus,
    succeeded: &[Arc<PodView>],
    failed: &[Arc<PodView>],
) -> (Indexes, Option<Indexes>) {
    if !terms.is_indexed {
        return (Indexes::default(), None);
    }
    let parse = |text: Option<&String>| {
        Indexes::parse(text.map_or("", |it| it), terms.completions.unwrap_or(0))
    };
    let stored_failed = parse(status.failed_indexes.as_ref());
    let new = succeeded.iter().filter_map(|it| terms.index(it));
    let new: Indexes = new.filter(|it| !stored_failed.has(*it)).collect();
    let completed = parse(status.completed_indexes.as_ref()).union(&new);
    let failed = terms.backoff_limit_per_index.map(|limit| {
        let given_up = failed.iter().filter(|it| is_index_over(terms, it, limit));
        let new = given_up.filter_map(|it| terms.index(it));
        stored_failed.union(&new.filter(|it| !completed.has(*it)).collect())
    });
    (completed, failed)
}

/// Whether the index of a failed pod is not tried again.
fn is_index_over(terms: &Terms<'_>, pod: &PodView, limit: i32) -> bool {
    let failures = pod.job.as_ref().map_or(0, |it| it.index_failures);
    match judge(terms.spec, pod) {
        Verdict::FailIndex => true,
        verdict => verdict.counts() && failures >= limit,
    }
}

/// What the status says of pods that ended, and whose finalizers go once it is written.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub succeeded: i32,
    pub failed: i32,
    pub uncounted: UncountedTerminatedPods,
    pub untrack: Vec<Arc<PodView>>,
    /// What rules said of those that are counted now.
    pub actions: BTreeMap<&'static str, u64>,
}

/// `kept` are failed pods that the next pod of their index learns from.
pub(super) fn count(
    terms: &Terms<'_>,
    census: &Census,
    stored: &JobStatus,
    ending: Option<&Ending>,
    kept: &BTreeMap<i32, Arc<PodView>>,
    is_job_deleting: bool,
) -> Count {
    let before = Uncounted::of(stored);
    let tracked: BTreeSet<&str> =
        census.pods.iter().filter(|it| is_tracked(it)).map(|it| it.uid()).collect();
    let split = |uids: &BTreeSet<&str>| -> (Vec<String>, i32) {
        let still: Vec<String> =
            uids.iter().filter(|it| tracked.contains(**it)).map(|it| (*it).to_owned()).collect();
        let gone = i32::try_from(uids.len() - still.len()).unwrap_or(i32::MAX);
        (still, gone)
    };
    let (mut succeeded, n_succeeded) = split(&before.succeeded);
    let (mut failed, n_failed) = split(&before.failed);
    let mut count = Count {
        succeeded: stored.succeeded.unwrap_or(0).saturating_add(n_succeeded),
        failed: stored.failed.unwrap_or(0).saturating_add(n_failed),
        ..Count::default()
    };
    let mut n_indexes = 0;
    for pod in census.pods.iter().filter(|it| is_tracked(it)) {
        if succeeded.len() + failed.len() + n_indexes >= UNCOUNTED_MAX {
            break;
        }
        let is_kept =
            terms.index(pod).and_then(|it| kept.get(&it)).is_some_and(|it| it.uid() == pod.uid());
        let is_over = has_succeeded(pod) || (terms.has_failed(pod) && !is_kept);
        if !is_over && !is_job_deleting && !ending.is_some_and(Ending::stops_pods) {
            continue;
        }
        count.untrack.push(pod.clone());
        if before.has(pod) || !terms.is_valid(pod) {
            continue;
        }
        if has_succeeded(pod) {
            if terms.is_indexed {
                n_indexes += 1;
            } else {
                succeeded.push(pod.uid().to_owned());
            }
        } else if counts_as_failed(terms, pod, ending) {
            let verdict = judge(terms.spec, pod);
            if let Some(action) = verdict.action() {
                *count.actions.entry(action).or_default() += 1;
            }
            if verdict.counts() {
                failed.push(pod.uid().to_owned());
            }
        }
    }
    if terms.is_indexed {
        count.succeeded = i32::try_from(census.completed_indexes.len()).unwrap_or(i32::MAX);
    }
    count.uncounted = UncountedTerminatedPods {
        succeeded: Some(succeeded).filter(|it| !it.is_empty()),
        failed: Some(failed).filter(|it| !it.is_empty()),
    };
    count
}

/// A Job that fails stops its pods, and each of those counts; one that has enough by its policy
/// stops those that it does not need, and they do not.
fn counts_as_failed(terms: &Terms<'_>, pod: &PodView, ending: Option<&Ending>) -> bool {
    match ending {
        Some(Ending::Failure { .. }) => true,
        Some(success) if success.stops_pods() => pod.is_terminal(),
        _ => terms.has_failed(pod),
    }
}
