//! What a Job waits for, in words, where its conditions and its pods do not say it. Pure.

use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobSpec;

use super::backoff::Record;
use super::ending::Ending;
use super::plan::Plan;
use super::status::Draft;
use crate::explanations::{Explanation, list};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Pods failed: the next ones are made then.
    Retry { failures: u32, until: Timestamp },
    /// The same, where each index has its own count.
    RetryIndexes { until: Timestamp },
    /// They are replaced when they have ended.
    Replacement { pods: Vec<String> },
    /// What the Job is to become when they have ended.
    End { becomes: &'static str, reason: String, pods: Vec<String> },
}

fn names(pods: &[Arc<PodView>]) -> impl Iterator<Item = String> {
    pods.iter().map(|it| it.key().name)
}

pub(super) fn wait(draft: &Draft<'_>, record: Record) -> Option<Wait> {
    let (census, staffing) = (draft.census, draft.staffing);
    if let Some(ending) = draft.ending {
        let mut pods: Vec<_> = names(&census.active).chain(names(&census.terminating)).collect();
        pods.sort();
        let (becomes, reason) = match ending {
            Ending::Success { reason, .. } => ("Complete", reason.clone()),
            Ending::Failure { reason, .. } => ("Failed", reason.clone()),
        };
        return (!pods.is_empty()).then_some(Wait::End { becomes, reason, pods });
    }
    if let Some(left) = staffing.wait {
        let until = draft.now + left;
        return Some(match draft.terms.backoff_limit_per_index {
            None => Wait::Retry { failures: record.failures(), until },
            Some(_) => Wait::RetryIndexes { until },
        });
    }
    if staffing.waits_for_ends && !draft.is_deleting {
        let mut pods: Vec<_> = names(&census.terminating).collect();
        pods.sort();
        return Some(Wait::Replacement { pods });
    }
    None
}

/// What the Job waits for, if that is why nothing is done: a reason and a sentence.
pub(super) fn explain(plan: &Plan) -> Option<Explanation> {
    Some(match plan.waits_for.as_ref()? {
        Wait::Retry { failures, until } => (
            "BackOff",
            format!("failures in a row: {failures}; the next pods are created at {until:.0}"),
        ),
        Wait::RetryIndexes { until } => {
            ("BackOff", format!("indexes whose pods failed are tried again from {until:.0}"))
        }
        Wait::Replacement { pods } => (
            "PodsTerminating",
            format!("pods are replaced when they have terminated: {}", list(pods)),
        ),
        Wait::End { becomes, reason, pods } => (
            "PodsTerminating",
            format!("the Job is {becomes} ({reason}) when pods have terminated: {}", list(pods)),
        ),
    })
}

/// Of a Job that another controller works on.
pub(super) fn elsewhere(spec: &JobSpec) -> Option<Explanation> {
    let name = spec.managed_by.as_deref()?;
    Some(("ManagedElsewhere", format!("the Job is left to the controller {name}")))
}
