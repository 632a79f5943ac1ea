//! What a Job does next: whose pods are its own, what it makes, lets go of and stops, what its
//! status says, and which pods are counted. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::batch::job::Job;
use api::core::pod::PodView;
use apimachinery::selector::Labels;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};

use super::backoff::Record;
use super::counting::{self, Census};
use super::ending::{self, Ending};
use super::explain::{self, Wait};
use super::staffing::{self, BURST, Creation, Staffing};
use super::status::{self, Draft, Note};
use super::terms::Terms;
use crate::claims::Claimant;
use crate::owners;

pub(super) struct Observed {
    pub job: Arc<Job>,
    pub selector: Labels,
    /// The pods that the Job controls, and those of its namespace that nobody controls.
    pub candidates: Vec<Arc<PodView>>,
    pub record: Record,
    pub now: Timestamp,
}

/// Carried out from top to bottom. Whatever is cut off after any line is taken up by the next plan.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub adopt: Vec<Arc<PodView>>,
    pub release: Vec<Arc<PodView>>,
    pub create: Vec<Creation>,
    /// Lose their finalizers and are deleted: nobody counts them.
    pub let_go: Vec<Arc<PodView>>,
    /// As it will be when all above went well; absent when whose pods are whose must settle first.
    pub status: Option<JobStatus>,
    pub notes: Vec<Note>,
    /// Deleted: the Job is over.
    pub stop: Vec<Arc<PodView>>,
    /// The status has them.
    pub untrack: Vec<Arc<PodView>>,
    pub record: Record,
    /// What rules said of pods that failed.
    pub actions: BTreeMap<&'static str, u64>,
    pub wait: Option<Duration>,
    /// What it waits for, where that is not its pods' work.
    pub waits_for: Option<Wait>,
    pub has_failures: bool,
    pub has_terminating: bool,
}

pub(super) fn plan(observed: &Observed) -> Plan {
    let is_deleting = owners::is_deleting(&observed.job.metadata);
    let uid = observed.job.metadata.uid.as_deref().unwrap_or_default();
    let claimant = Claimant { uid, selector: &observed.selector, is_deleting };
    let claims = claimant.claim(&observed.candidates);
    let Some(spec) = &observed.job.spec else { return Plan::default() };
    if !claims.adopt.is_empty() || !claims.release.is_empty() {
        let (adopt, release) = (claims.adopt, claims.release);
        return Plan { adopt, release, record: observed.record, ..Plan::default() };
    }
    let stored = observed.job.status.clone().unwrap_or_default();
    let mut pods = claims.owned;
    pods.sort_by_key(|it| it.key());
    settle(observed, spec, &stored, pods, is_deleting)
}

fn settle(
    observed: &Observed,
    spec: &JobSpec,
    stored: &JobStatus,
    pods: Vec<Arc<PodView>>,
    is_deleting: bool,
) -> Plan {
    let now = observed.now;
    let terms = Terms::of(spec);
    let census = Census::take(&terms, stored, pods);
    let record = observed.record.with(&census.newly_succeeded, &census.newly_failed);
    let kept = staffing::kept(&terms, &census);
    let started = stored.start_time.as_ref().map_or(now, |it| it.0);
    let deadline = ending::deadline_left(&terms, Some(started), now);
    let declared = ending::declared(stored);
    let mut ending = declared.clone().or_else(|| ending::decide(&terms, &census, deadline));
    let staffing = match &ending {
        None if !is_deleting => staffing::plan(&terms, &census, &kept, record, now),
        _ => Staffing::default(),
    };
    if ending.is_none() && is_complete(&terms, &census, &staffing) {
        ending = Some(Ending::completions());
    }
    let count = counting::count(&terms, &census, stored, ending.as_ref(), &kept, is_deleting);
    let mut stop = if ending.is_some() { census.active.clone() } else { Vec::new() };
    let is_last = census.active.is_empty() && census.terminating.is_empty();
    let draft = Draft {
        terms: &terms,
        census: &census,
        staffing: &staffing,
        ending: ending.as_ref(),
        is_over: is_last && count.untrack.is_empty(),
        is_deleting,
        now,
    };
    let (status, notes) = status::draft(&draft, stored, &count);
    stop.truncate(BURST);
    let waits_for = explain::wait(&draft, record);
    Plan {
        status: Some(status),
        notes,
        stop,
        record,
        actions: count.actions,
        untrack: count.untrack,
        wait: [staffing.wait, deadline.filter(|_| ending.is_none())].into_iter().flatten().min(),
        create: staffing.create,
        let_go: staffing.let_go,
        waits_for,
        has_failures: census.failed > 0,
        has_terminating: !census.terminating.is_empty(),
        ..Plan::default()
    }
}

/// Enough have succeeded, and nobody runs any more.
fn is_complete(terms: &Terms<'_>, census: &Census, staffing: &Staffing) -> bool {
    let is_enough = match terms.completions {
        Some(completions) => census.succeeded >= i64::from(completions),
        None => census.succeeded > 0,
    };
    is_enough && census.active.is_empty() && staffing.create.is_empty()
}
