//! Whether a Job is over, and why. What was once said stays; then failures come before successes.
//! Pure.

use std::time::Duration;

use api::batch::job::conditions::{FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::counting::Census;
use super::policies::{self, Verdict};
use super::terms::Terms;
use crate::{conditions, pods};

const SUCCESS_POLICY: &str = "SuccessPolicy";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Success { reason: String, message: String },
    Failure { reason: String, message: String },
}

impl Ending {
    fn success(reason: &str, message: impl Into<String>) -> Self {
        Self::Success { reason: reason.to_owned(), message: message.into() }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self::Failure { reason: reason.to_owned(), message: message.into() }
    }

    /// Whether pods that run are stopped for it. A Job that has as many successes as it asked for
    /// has none that run, and those that are being deleted may end.
    pub(super) fn stops_pods(&self) -> bool {
        match self {
            Self::Success { reason, .. } => reason == SUCCESS_POLICY,
            Self::Failure { .. } => true,
        }
    }

    /// It has as many successes as it asked for.
    pub(super) fn completions() -> Self {
        Self::success("CompletionsReached", "Reached expected number of succeeded pods")
    }
}

/// What the status said before.
pub(super) fn declared(status: &JobStatus) -> Option<Ending> {
    let stored = status.conditions.as_deref().unwrap_or_default();
    let find = |kind| conditions::find(stored, kind).filter(|it| it.status == "True");
    let reason = |it: &JobCondition| it.reason.clone().unwrap_or_default();
    let message = |it: &JobCondition| it.message.clone().unwrap_or_default();
    let success = find(SUCCESS_CRITERIA_MET)
        .map(|it| Ending::Success { reason: reason(it), message: message(it) });
    let failure =
        find(FAILURE_TARGET).map(|it| Ending::Failure { reason: reason(it), message: message(it) });
    success.or(failure)
}

/// Why it is over, if its pods or the time say so. That it has enough successes is not decided
/// here: first those that run end.
pub(super) fn decide(
    terms: &Terms<'_>,
    census: &Census,
    deadline_left: Option<Duration>,
) -> Option<Ending> {
    if let Some(message) = fatal(terms, census) {
        return Some(Ending::failure("PodFailurePolicy", message));
    }
    let limit = i64::from(terms.backoff_limit);
    if census.failed > limit || has_too_many_restarts(terms, census) {
        let message = "Job has reached the specified backoff limit";
        return Some(Ending::failure("BackoffLimitExceeded", message));
    }
    if deadline_left == Some(Duration::ZERO) {
        let message = "Job was active longer than specified deadline";
        return Some(Ending::failure("DeadlineExceeded", message));
    }
    let completions = terms.completions.filter(|_| terms.is_indexed)?;
    if let Some(failed) = &census.failed_indexes {
        if terms.spec.max_failed_indexes.is_some_and(|it| failed.len() > i64::from(it)) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Ending::failure("MaxFailedIndexesExceeded", message));
        }
        let n_over = failed.len() + census.completed_indexes.len();
        if !failed.is_empty() && n_over >= i64::from(completions) {
            return Some(Ending::failure("FailedIndexes", "Job has failed indexes"));
        }
    }
    let message = policies::success(terms.spec, completions, &census.completed_indexes)?;
    Some(Ending::success(SUCCESS_POLICY, message))
}

/// What the first pod says that a rule fails the Job for.
fn fatal(terms: &Terms<'_>, census: &Census) -> Option<String> {
    terms.spec.pod_failure_policy.as_ref()?;
    let failed = census.pods.iter().filter(|it| terms.has_failed(it));
    failed.map(|it| policies::judge(terms.spec, it)).find_map(|it| match it {
        Verdict::FailJob(message) => Some(message),
        _ => None,
    })
}

/// Where containers are restarted in their pods, that is what counts.
fn has_too_many_restarts(terms: &Terms<'_>, census: &Census) -> bool {
    let pod = terms.spec.template.spec.as_ref();
    if pod.and_then(|it| it.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let running = census.pods.iter().filter(|it| !it.is_terminal());
    let restarts = running.filter_map(|it| it.job.as_ref()).map(|it| i64::from(it.restarts));
    restarts.sum::<i64>() >= i64::from(terms.backoff_limit.max(1))
}

/// What is left of the time that a Job may be active for; absent: it has no end.
pub(super) fn deadline_left(
    terms: &Terms<'_>,
    started: Option<Timestamp>,
    now: Timestamp,
) -> Option<Duration> {
    let seconds = terms.spec.active_deadline_seconds.filter(|_| !terms.is_suspended)?;
    let period = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Some(pods::remaining(started?, period, now))
}
