//! What a Job's status may become. Clients rely on it that a finished Job stays finished and that
//! what was counted stays counted, whichever controller writes it (`managedBy`).
//!
//! Most rules hold for what a write changes: what was wrong before does not stand in the way of
//! other changes, nor does a status that the controller has not yet brought in line with the spec.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::super::conditions::{
    self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED,
};
use super::super::{indexes, is_indexed};
use crate::check::{self, text};
use crate::{codec, semantic};

/// One write of a status.
struct Write<'a> {
    spec: &'a JobSpec,
    new: JobStatus,
    old: JobStatus,
    path: Path,
}

pub(super) fn validate(job: &Job, stored: &Job, spec: &JobSpec, errors: &mut FieldErrors) {
    let write = Write {
        spec,
        new: job.status.clone().unwrap_or_default(),
        old: stored.status.clone().unwrap_or_default(),
        path: Path::new("status"),
    };
    write.validate_counts(errors);
    write.validate_uncounted(errors);
    write.validate_conditions(errors);
    write.validate_times(errors);
    write.validate_finished(errors);
    write.validate_indexes(errors);
    write.validate_what_stays(errors);
}

impl Write<'_> {
    fn is(&self, condition: &str) -> bool {
        conditions::is_true(&self.new, condition)
    }

    fn was(&self, condition: &str) -> bool {
        conditions::is_true(&self.old, condition)
    }

    fn turns(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn is_finished(&self) -> bool {
        conditions::is_finished(&self.new)
    }

    fn ends(&self) -> bool {
        self.is_finished() != conditions::is_finished(&self.old)
    }

    fn changes<T: PartialEq>(&self, of: impl Fn(&JobStatus) -> T) -> bool {
        of(&self.new) != of(&self.old)
    }

    fn path(&self, field: &str) -> Path {
        self.path.child(field)
    }

    fn validate_counts(&self, errors: &mut FieldErrors) {
        let new = &self.new;
        let active = new.active.unwrap_or(0);
        for (field, count) in [
            ("active", active),
            ("succeeded", new.succeeded.unwrap_or(0)),
            ("failed", new.failed.unwrap_or(0)),
            ("ready", new.ready.unwrap_or(0)),
            ("terminating", new.terminating.unwrap_or(0)),
        ] {
            check::non_negative(count, &self.path(field), errors);
        }
        let changes = self.changes(|it| it.ready) || self.changes(|it| it.active.unwrap_or(0));
        if let Some(ready) = new.ready.filter(|it| changes && *it > active) {
            errors.invalid(&self.path("ready"), ready, "cannot set more ready pods than active");
        }
    }

    /// Each pod is there once.
    fn validate_uncounted(&self, errors: &mut FieldErrors) {
        let Some(pods) = &self.new.uncounted_terminated_pods else { return };
        let path = self.path("uncountedTerminatedPods");
        let mut seen = BTreeSet::new();
        for (field, uids) in [("succeeded", &pods.succeeded), ("failed", &pods.failed)] {
            for (index, uid) in uids.iter().flatten().enumerate() {
                let path = path.child(field).index(index);
                if uid.is_empty() {
                    errors.invalid(&path, "", "must not be empty");
                } else if !seen.insert(uid) {
                    errors.duplicate(&path, uid.as_str());
                }
            }
        }
    }

    /// A Job either succeeds or fails, and says so before its last pods are gone.
    fn validate_conditions(&self, errors: &mut FieldErrors) {
        let path = self.path("conditions");
        let (is_met, fails) = (self.is(SUCCESS_CRITERIA_MET), self.is(FAILURE_TARGET));
        let (is_complete, is_failed) = (self.is(COMPLETE), self.is(FAILED));
        let has_other_failures = self.turns(FAILED) || self.changes(|it| it.failed_indexes.clone());
        for (is_wrong, detail) in [
            (
                is_complete && is_failed && (self.turns(COMPLETE) || self.turns(FAILED)),
                "cannot set Complete=True and Failed=true conditions",
            ),
            (
                is_complete && fails && (self.turns(COMPLETE) || self.turns(FAILURE_TARGET)),
                "cannot set Complete=True and FailureTarget=true conditions",
            ),
            (
                is_failed && !fails && has_other_failures,
                "cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            (
                is_complete
                    && !is_met
                    && (self.turns(COMPLETE) || self.turns(SUCCESS_CRITERIA_MET)),
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
            (is_met && is_failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            (
                is_met && fails,
                "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ),
            (
                self.spec.success_policy.is_some() && !is_met && is_complete,
                "cannot set Complete=True for Job with SuccessPolicy unless \
                 SuccessCriteriaMet=True",
            ),
        ] {
            if is_wrong {
                errors.invalid_unshown(&path, detail);
            }
        }
    }

    fn validate_times(&self, errors: &mut FieldErrors) {
        let path = self.path("completionTime");
        let (start, end) = (&self.new.start_time, &self.new.completion_time);
        let end_changes = self.changes(|it| it.completion_time.clone());
        let start_changes = self.changes(|it| it.start_time.clone());
        let is_complete = self.is(COMPLETE);
        if self.turns(COMPLETE) || end_changes {
            if let Some(end) = end.as_ref().filter(|_| !is_complete) {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(&path, codec::tree(end), detail);
            } else if end.is_none() && is_complete {
                errors.required(&path, "completionTime is required for Complete jobs");
            }
        }
        if let (Some(start), Some(end)) = (start, end)
            && (start_changes || end_changes)
            && end.0 < start.0
        {
            errors.invalid(&path, codec::tree(end), "must be equal to or after `startTime`");
        }
        if end_changes && end.is_some() && self.old.completion_time.is_some() {
            errors.invalid(&path, codec::tree(end), "field is immutable");
        }
        let resumes = self.was(SUSPENDED) && conditions::has(&self.new, SUSPENDED, "False");
        let may_start_again = resumes || self.spec.suspend == Some(true);
        if start_changes && self.old.start_time.is_some() && !may_start_again {
            let detail = "field is immutable for unsuspended job once set";
            errors.invalid(&self.path("startTime"), codec::tree(start), detail);
        }
    }

    /// Nothing is left to do.
    fn validate_finished(&self, errors: &mut FieldErrors) {
        if !self.is_finished() {
            return;
        }
        let new = &self.new;
        let ends = self.ends();
        if let Some(active @ 1..) = new.active
            && (ends || self.changes(|it| it.active.unwrap_or(0)))
        {
            errors.invalid(&self.path("active"), active, "active>0 is invalid for finished job");
        }
        let never_starts = self.spec.suspend == Some(true) && self.spec.completions == Some(0);
        if new.start_time.is_none()
            && (ends || self.changes(|it| it.start_time.clone()))
            && !never_starts
        {
            errors.required(&self.path("startTime"), "startTime is required for finished job");
        }
        if let Some(pods) = &new.uncounted_terminated_pods {
            let n_pods =
                pods.failed.iter().flatten().count() + pods.succeeded.iter().flatten().count();
            let old = &self.old.uncounted_terminated_pods;
            if n_pods > 0 && (ends || !semantic::equal(&new.uncounted_terminated_pods, old)) {
                let path = self.path("uncountedTerminatedPods");
                errors.invalid(&path, codec::tree(pods), "must be empty for finished job");
            }
        }
        if let Some(terminating @ 1..) = new.terminating
            && (ends || self.changes(|it| it.terminating))
        {
            let detail = "terminating>0 is invalid for finished job";
            errors.invalid(&self.path("terminating"), terminating, detail);
        }
    }

    fn validate_indexes(&self, errors: &mut FieldErrors) {
        let completed = text(self.new.completed_indexes.as_ref());
        let failed = self.new.failed_indexes.as_deref();
        let (path_completed, path_failed) =
            (self.path("completedIndexes"), self.path("failedIndexes"));
        let completed_change = completed != text(self.old.completed_indexes.as_ref());
        let failed_change = self.changes(|it| it.failed_indexes.clone());
        let has_limit = self.spec.backoff_limit_per_index.is_some();
        if let Some(completions) = self.spec.completions {
            if completed_change && let Err(problem) = indexes::count(completed, completions) {
                let detail = format!("error parsing completedIndexes: {problem}");
                errors.invalid(&path_completed, completed, &detail);
            }
            if let Some(failed) = failed.filter(|_| failed_change && has_limit)
                && let Err(problem) = indexes::count(failed, completions)
            {
                let detail = format!("error parsing failedIndexes: {problem}");
                errors.invalid(&path_failed, failed, &detail);
            }
        }
        if completed_change && !completed.is_empty() && !is_indexed(self.spec) {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(&path_completed, completed, detail);
        }
        let Some(failed) = failed else { return };
        if failed_change && !has_limit {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&path_failed, failed, detail);
        }
        if (completed_change || failed_change)
            && let Some(completions) = self.spec.completions
            && let Some(index) = indexes::overlap(completed, failed, completions)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid(&path_failed, failed, &detail);
        }
    }

    fn validate_what_stays(&self, errors: &mut FieldErrors) {
        let path = self.path("conditions");
        for condition in [FAILED, COMPLETE, FAILURE_TARGET] {
            if self.was(condition) && !self.is(condition) {
                let detail = format!("cannot disable the terminal {condition}=True condition");
                errors.invalid_unshown(&path, &detail);
            }
        }
        // Completions of an indexed Job with a worker for each can be scaled down.
        let is_elastic = is_indexed(self.spec) && self.spec.completions == self.spec.parallelism;
        for (field, new, old, may_shrink) in [
            ("failed", self.new.failed, self.old.failed, false),
            ("succeeded", self.new.succeeded, self.old.succeeded, is_elastic),
        ] {
            let new = new.unwrap_or(0);
            if new < old.unwrap_or(0) && !may_shrink {
                let detail = format!("cannot decrease the {field} counter");
                errors.invalid(&self.path(field), new, &detail);
            }
        }
        if self.was(SUCCESS_CRITERIA_MET) && !self.is(SUCCESS_CRITERIA_MET) {
            let detail = "cannot disable the SuccessCriteriaMet=True condition";
            errors.invalid_unshown(&path, detail);
        }
        let is_late = self.was(COMPLETE) && !self.was(SUCCESS_CRITERIA_MET);
        if is_late && self.is(SUCCESS_CRITERIA_MET) {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true \
                          conditions";
            errors.invalid_unshown(&path, detail);
        }
    }
}
