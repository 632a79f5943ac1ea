//! Jobs count what ended, each pod once, and hold nobody when they are over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::Resource as _;
use client::Client;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::{all, name, phase};
use crate::history::History;

pub(super) async fn violations(admin: &Client, pods: &[Arc<Pod>]) -> Result<Vec<String>> {
    Ok(wrong_jobs(&all(admin).await?, pods))
}

/// A Job that is over has counted everybody and holds nobody.
fn wrong_jobs(jobs: &[Arc<Job>], pods: &[Arc<Pod>]) -> Vec<String> {
    let mut found = Vec::new();
    for job in jobs {
        let status = job.status.clone().unwrap_or_default();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let n_uncounted = uncounted.succeeded.iter().chain(&uncounted.failed).flatten().count();
        let (active, terminating) = (status.active.unwrap_or(0), status.terminating.unwrap_or(0));
        let is_over = api::batch::job::conditions::is_finished(&status);
        if is_over && (n_uncounted > 0 || active > 0 || terminating > 0) {
            let name = name(&job.metadata);
            found.push(format!("Job {name} is over with {active} active, {terminating} terminating, {n_uncounted} uncounted"));
        }
        let is_held = |pod: &&Arc<Pod>| {
            let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
            owners.iter().any(|it| Some(&it.uid) == job.metadata.uid.as_ref())
                && pod.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty())
        };
        for pod in pods.iter().filter(is_held).filter(|_| is_over) {
            found.push(format!("Pod {} is held by a Job that is over", name(&pod.metadata)));
        }
    }
    found
}

/// What became of a pod for as long as its Job could count it: while it was tracked. `at` are places
/// in the history.
#[derive(Debug)]
struct Life {
    index: Option<String>,
    made_at: usize,
    /// It ended, or somebody wanted it to.
    over_at: Option<usize>,
    has_succeeded: bool,
    /// Before it had succeeded: it may count as failed.
    was_deleted: bool,
}

impl Life {
    fn of(pod: &Pod, at: usize) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        let index = annotations.and_then(|it| it.get("batch.kubernetes.io/job-completion-index"));
        let (has_succeeded, was_deleted) = (false, false);
        Self { index: index.cloned(), made_at: at, over_at: None, has_succeeded, was_deleted }
    }

    fn note(&mut self, pod: &Pod, at: usize) {
        if pod.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
            return;
        }
        self.has_succeeded |= phase(pod) == "Succeeded";
        self.was_deleted |= pod.metadata.deletion_timestamp.is_some() && !self.has_succeeded;
        if self.has_succeeded || self.was_deleted || phase(pod) == "Failed" {
            self.over_at.get_or_insert(at);
        }
    }
}

/// By the names of their Jobs.
fn lives(history: &History, namespace: &str) -> Result<BTreeMap<String, Vec<Life>>> {
    let mut jobs: BTreeMap<String, BTreeMap<String, Life>> = BTreeMap::new();
    let within = format!("/pods/{namespace}/");
    for (at, (_, value)) in history.changes(&within).enumerate() {
        let Some(bytes) = value else { continue };
        let pod = Pod::decode(bytes).context("decoding")?;
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let Some(job) = owners.find(|it| it.kind == "Job") else { continue };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let lives = jobs.entry(job.name.clone()).or_default();
        lives.entry(uid).or_insert_with(|| Life::of(&pod, at)).note(&pod, at);
    }
    Ok(jobs.into_iter().map(|(job, lives)| (job, lives.into_values().collect())).collect())
}

/// Jobs of a namespace that count other pods than ended: what each says, beside what was stored of
/// its pods over time. A pod ends, or begins to, while it is tracked.
pub async fn miscounted_jobs(
    admin: &Client,
    history: &History,
    namespace: &str,
) -> Result<Vec<String>> {
    let lives = lives(history, namespace)?;
    let mut found = Vec::new();
    for job in all::<Job>(admin).await? {
        if job.metadata.namespace.as_deref() != Some(namespace) {
            continue;
        }
        let (name, status) = (name(&job.metadata), job.status.clone().unwrap_or_default());
        let mode = job.spec.as_ref().and_then(|it| it.completion_mode.as_deref());
        let of_job = lives.get(name).map(Vec::as_slice).unwrap_or_default();
        let wrong = match mode {
            Some("Indexed") => wrong_indexed(&status, of_job),
            _ => wrong_counts(&status, of_job),
        };
        found.extend(wrong.into_iter().map(|it| format!("Job {name} {it}")));
    }
    Ok(found)
}

fn number(count: Option<i32>) -> usize {
    usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX)
}

/// Each pod that ended is in one of both counts. One that succeeded after somebody had deleted it
/// is in either.
fn wrong_counts(status: &JobStatus, lives: &[Life]) -> Option<String> {
    let over = lives.iter().filter(|it| it.over_at.is_some()).count();
    let succeeded = lives.iter().filter(|it| it.has_succeeded);
    let most = succeeded.clone().count();
    let least = succeeded.filter(|it| !it.was_deleted).count();
    let (succeeded, failed) = (number(status.succeeded), number(status.failed));
    let is_right = succeeded + failed == over && (least..=most).contains(&succeeded);
    (!is_right).then(|| {
        format!(
            "counts {succeeded} and {failed}: {over} pods ended, {least} to {most} of them well"
        )
    })
}

/// Each index that succeeded counts once. Of the pods that failed only those may be left out that
/// had nothing to add: there was another one of their index when they ended, which succeeded.
fn wrong_indexed(status: &JobStatus, lives: &[Life]) -> Option<String> {
    let over = || lives.iter().filter(|it| it.over_at.is_some());
    let indexes = |is_meant: &dyn Fn(&Life) -> bool| {
        let meant = over().filter(|it| it.has_succeeded && is_meant(it));
        meant.filter_map(|it| it.index.as_deref()).collect::<BTreeSet<_>>().len()
    };
    let (least, most) = (indexes(&|it| !it.was_deleted), indexes(&|_| true));
    let is_needless = |life: &Life| {
        let same = lives.iter().filter(|it| it.index == life.index && it.has_succeeded);
        same.into_iter().any(|it| !std::ptr::eq(it, life) && Some(it.made_at) < life.over_at)
    };
    let may_fail = over().filter(|it| !it.has_succeeded || it.was_deleted).count();
    let must_fail = over().filter(|it| !it.has_succeeded && !is_needless(it)).count();
    let (succeeded, failed) = (number(status.succeeded), number(status.failed));
    let is_right = (least..=most).contains(&succeeded) && (must_fail..=may_fail).contains(&failed);
    (!is_right).then(|| {
        format!(
            "counts {succeeded} and {failed}: {least} to {most} indexes succeeded, \
             {must_fail} to {may_fail} pods failed"
        )
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::JobStatus;

    use super::{Life, wrong_counts, wrong_indexed};

    /// `index made over`, then any of `well` and `deleted`; over `-`: it runs.
    fn life(text: &str) -> Life {
        let words: Vec<&str> = text.split(' ').collect();
        Life {
            index: Some(words[0].to_owned()),
            made_at: words[1].parse().unwrap(),
            over_at: words[2].parse().ok(),
            has_succeeded: words.contains(&"well"),
            was_deleted: words.contains(&"deleted"),
        }
    }

    fn check(is_wrong: bool, (succeeded, failed): (i32, i32), is_indexed: bool, lives: &[&str]) {
        let lives: Vec<Life> = lives.iter().map(|it| life(it)).collect();
        let counts = (Some(succeeded), Some(failed));
        let status = JobStatus { succeeded: counts.0, failed: counts.1, ..JobStatus::default() };
        let said = match is_indexed {
            true => wrong_indexed(&status, &lives),
            false => wrong_counts(&status, &lives),
        };
        assert_eq!(said.is_some(), is_wrong, "{said:?}");
    }

    #[test]
    fn every_pod_that_ended_is_counted_as_what_it_was() {
        let lives = ["0 1 5 well", "0 2 6", "0 3 7 deleted", "0 4 -"];
        check(false, (1, 2), false, &lives);
        check(true, (1, 1), false, &lives);
        check(true, (1, 3), false, &lives);
        check(true, (2, 1), false, &lives);
        for counts in [(1, 0), (0, 1)] {
            check(false, counts, false, &["0 1 5 well deleted"]);
        }
    }

    #[test]
    fn of_an_index_only_pods_beside_the_one_that_succeeded_may_be_left_out() {
        // One that failed before the other was made counts.
        check(false, (1, 1), true, &["0 1 5", "0 6 9 well"]);
        check(true, (1, 0), true, &["0 1 5", "0 6 9 well"]);
        // One beside it may.
        for failed in [0, 1] {
            check(false, (1, failed), true, &["0 1 5", "0 2 9 well"]);
        }
        check(true, (1, 2), true, &["0 1 5", "0 2 9 well"]);
        // Two that succeeded are one.
        check(false, (1, 0), true, &["0 1 5 well", "0 2 9 well"]);
        check(true, (2, 0), true, &["0 1 5 well", "0 2 9 well"]);
        // Two that failed are two, whether or not they met.
        check(true, (1, 1), true, &["0 1 5", "0 2 6", "0 7 9 well"]);
        check(false, (1, 2), true, &["0 1 5", "0 2 6", "0 7 9 well"]);
        check(true, (0, 0), true, &["0 1 5", "1 2 -"]);
    }
}
