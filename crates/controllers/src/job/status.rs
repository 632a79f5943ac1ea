//! The status of a Job as it is after a plan, and what is told of it as events. Pure.

use api::batch::job::conditions::{
    COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED,
};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::counting::{Census, Count};
use super::ending::Ending;
use super::staffing::Staffing;
use super::terms::Terms;
use crate::conditions;

/// Said once the status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Suspended,
    Resumed,
    Completed { reason: String, has_too_many: bool },
    Failed { reason: String, message: String },
}

pub(super) struct Draft<'a> {
    pub terms: &'a Terms<'a>,
    pub census: &'a Census,
    pub staffing: &'a Staffing,
    pub ending: Option<&'a Ending>,
    /// Nobody runs, is being deleted or waits to be counted.
    pub is_over: bool,
    pub is_deleting: bool,
    pub now: Timestamp,
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> JobCondition {
    let time = Some(conditions::time(now));
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: time.clone(),
        last_transition_time: time,
    }
}

pub(super) fn draft(
    draft: &Draft<'_>,
    stored: &JobStatus,
    count: &Count,
) -> (JobStatus, Vec<Note>) {
    let Draft { terms, census, staffing, .. } = draft;
    let mut status = stored.clone();
    let left = &staffing.let_go;
    let n_active = census.active.len() + staffing.create.len() - left.len();
    let is_ready = |pods: &[std::sync::Arc<api::core::pod::PodView>]| {
        pods.iter().filter(|it| it.is_ready).count()
    };
    status.active = Some(number(n_active)).filter(|it| *it > 0);
    status.ready = Some(number(is_ready(&census.active) - is_ready(left)));
    status.terminating = Some(number(census.terminating.len() + left.len()));
    status.succeeded = Some(count.succeeded).filter(|it| *it > 0);
    status.failed = Some(count.failed).filter(|it| *it > 0);
    status.uncounted_terminated_pods = Some(count.uncounted.clone());
    if terms.is_indexed {
        let completed = census.completed_indexes.to_string();
        status.completed_indexes = Some(completed).filter(|it| !it.is_empty());
        status.failed_indexes = census.failed_indexes.as_ref().map(ToString::to_string);
    }
    if status.start_time.is_none() && !terms.is_suspended {
        status.start_time = Some(conditions::time(draft.now));
    }
    let mut notes = Vec::new();
    match draft.ending {
        Some(ending) => end(draft, ending, &mut status, &mut notes),
        None if !draft.is_deleting => suspend_or_resume(draft, &mut status, &mut notes),
        None => {}
    }
    (status, notes)
}

/// First what will be, so that it stays decided; when nobody is left, what is.
fn end(draft: &Draft<'_>, ending: &Ending, status: &mut JobStatus, notes: &mut Vec<Note>) {
    let (interim, last, reason, message) = match ending {
        Ending::Success { reason, message } => (SUCCESS_CRITERIA_MET, COMPLETE, reason, message),
        Ending::Failure { reason, message } => (FAILURE_TARGET, FAILED, reason, message),
    };
    let stored = status.conditions.get_or_insert_default();
    let mut set = |type_| {
        if !stored.iter().any(|it| it.type_ == type_ && it.status == "True") {
            conditions::remove(stored, type_);
            stored.push(condition(type_, "True", reason, message, draft.now));
        }
    };
    set(interim);
    let is_counted = status
        .uncounted_terminated_pods
        .as_ref()
        .is_none_or(|it| it.succeeded.is_none() && it.failed.is_none());
    if !draft.is_over || !is_counted {
        return;
    }
    set(last);
    let never_starts = draft.terms.is_suspended && draft.terms.completions == Some(0);
    if status.start_time.is_none() && !never_starts {
        status.start_time = Some(conditions::time(draft.now));
    }
    notes.push(match ending {
        Ending::Success { reason, .. } => {
            // A clock that went back must not end it before it began.
            let now = conditions::time(draft.now);
            let started = status.start_time.clone().filter(|it| it.0 > now.0);
            status.completion_time = Some(started.unwrap_or(now));
            let wanted = draft.terms.completions;
            let has_too_many = wanted.is_some_and(|it| status.succeeded.unwrap_or(0) > it);
            Note::Completed { reason: reason.clone(), has_too_many }
        }
        Ending::Failure { reason, message } => {
            Note::Failed { reason: reason.clone(), message: message.clone() }
        }
    });
}

fn suspend_or_resume(draft: &Draft<'_>, status: &mut JobStatus, notes: &mut Vec<Note>) {
    let stored = status.conditions.as_deref().unwrap_or_default();
    let was = conditions::find(stored, SUSPENDED).map(|it| it.status == "True");
    let (condition, note, start) = match (draft.terms.is_suspended, was) {
        (true, None | Some(false)) => {
            let suspended =
                condition(SUSPENDED, "True", "JobSuspended", "Job suspended", draft.now);
            (suspended, Note::Suspended, None)
        }
        // The time that it may be active for begins anew.
        (false, Some(true)) => {
            let resumed = condition(SUSPENDED, "False", "JobResumed", "Job resumed", draft.now);
            (resumed, Note::Resumed, Some(conditions::time(draft.now)))
        }
        _ => return,
    };
    conditions::set(status.conditions.get_or_insert_default(), condition);
    status.start_time = start;
    notes.push(note);
}
