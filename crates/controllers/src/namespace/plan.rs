//! What a terminating namespace still holds, said as conditions; and whether it may go. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use std::collections::BTreeMap;

use crate::conditions;

/// What one attempt to empty a namespace found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Why resources could not be listed at all.
    pub discovery_failure: Option<String>,
    /// Why objects could not be deleted.
    pub content_failures: Vec<String>,
    /// Objects that are still there, by resource.
    pub remaining: BTreeMap<String, usize>,
    /// Finalizers on those objects, with how many objects have each.
    pub finalizers: BTreeMap<String, usize>,
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.discovery_failure.is_none()
            && self.content_failures.is_empty()
            && self.remaining.is_empty()
    }
}

/// Reason and message.
type Trouble = (&'static str, String);

/// The conditions to write, if any: a namespace that empties at once needs no story.
pub(crate) fn plan(
    stored: &[NamespaceCondition],
    found: &Found,
    now: Timestamp,
) -> Option<Vec<NamespaceCondition>> {
    if found.is_empty() && stored.is_empty() {
        return None;
    }
    Some(conditions(stored, found, now)).filter(|it| it != stored)
}

/// The five conditions of a namespace that is being deleted, in upstream's words.
pub(crate) fn conditions(
    stored: &[NamespaceCondition],
    found: &Found,
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let mut conditions = stored.to_vec();
    let discovery = found.discovery_failure.as_ref().map(|it| ("DiscoveryFailed", it.clone()));
    let content = (!found.content_failures.is_empty())
        .then(|| ("ContentDeletionFailed", content_text(&found.content_failures)));
    let remaining = (!found.remaining.is_empty())
        .then(|| ("SomeResourcesRemain", remaining_text(&found.remaining)));
    let finalizers = (!found.finalizers.is_empty())
        .then(|| ("SomeFinalizersRemain", finalizers_text(&found.finalizers)));
    let all: [(&str, Option<Trouble>, (&str, &str)); 5] = [
        (
            "NamespaceDeletionDiscoveryFailure",
            discovery,
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            content,
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            remaining,
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers,
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    for (kind, trouble, (well, well_text)) in all {
        let (status, reason, message) = match trouble {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", well, well_text.to_owned()),
        };
        set(
            &mut conditions,
            NamespaceCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(conditions::time(now)),
            },
        );
    }
    conditions
}

/// As `conditions::set`, but a new message alone is a change too: it says what remains.
fn set(conditions: &mut Vec<NamespaceCondition>, mut condition: NamespaceCondition) {
    let Some(stored) = conditions.iter_mut().find(|it| it.type_ == condition.type_) else {
        conditions.push(condition);
        return;
    };
    if stored.status == condition.status {
        condition.last_transition_time = stored.last_transition_time.clone();
    }
    *stored = condition;
}

fn content_text(failures: &[String]) -> String {
    let list: Vec<String> = failures.to_vec();
    format!("Failed to delete all resource types, {} remaining: {}", list.len(), list.join(", "))
}

fn remaining_text(remaining: &BTreeMap<String, usize>) -> String {
    let list: Vec<String> =
        remaining.iter().map(|(name, n)| format!("{name} has {n} resource instances")).collect();
    format!("Some resources are remaining: {}", list.join(", "))
}

fn finalizers_text(finalizers: &BTreeMap<String, usize>) -> String {
    let list: Vec<String> =
        finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
    format!("Some content in the namespace has finalizers remaining: {}", list.join(", "))
}
