//! What a terminating namespace still holds, said as conditions; and whether it may go. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Stored;
use api::core::namespace::Namespace;
use apimachinery::{GroupVersionResource, Scope};
use client::Discovered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;

use crate::explanations::{Explanation, list};
use crate::{conditions, owners};

const FINALIZER: &str = "kubernetes";

/// Whether there is anything to do: it is being deleted, and we have not let it go yet.
pub(crate) fn is_ending(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|it| it.finalizers.as_ref());
    owners::is_deleting(&namespace.metadata)
        && finalizers.into_iter().flatten().any(|it| it == FINALIZER)
}

/// The namespace without what holds it.
pub(crate) fn finalized(namespace: &Namespace) -> Namespace {
    let mut finalized = namespace.clone();
    let finalizers = finalized.spec.get_or_insert_default().finalizers.get_or_insert_default();
    finalizers.retain(|it| it != FINALIZER);
    finalized
}

/// What is to be emptied, in steps: the next is for when the last has left nothing. Pods first and
/// alone: what they depend on (secrets, claims, policies) outlives them.
pub(crate) fn steps(mut served: Vec<Discovered>) -> [Vec<Discovered>; 2] {
    let can = |it: &Discovered, verb: &str| it.verbs.iter().any(|it| it == verb);
    served.retain(|it| it.scope == Scope::Namespaced && can(it, "list") && can(it, "delete"));
    served.sort_by(|one, two| one.resource.cmp(&two.resource));
    let pods = GroupVersionResource::new("", "v1", "pods");
    let (pods, rest) = served.into_iter().partition(|it| it.resource == pods);
    [pods, rest]
}

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

/// What becomes of the namespace after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    LetGo,
    /// What remains ends by itself; an event tells.
    Wait,
    /// Try again: something could not be deleted, and this is why.
    Retry(String),
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.discovery_failure.is_none()
            && self.content_failures.is_empty()
            && self.remaining.is_empty()
    }

    /// What is left of a resource after its objects were deleted.
    pub(crate) fn note(&mut self, resource: &GroupVersionResource, left: &[Arc<Stored>]) {
        if !left.is_empty() {
            let name = format!("{}.{}", resource.resource, resource.group);
            self.remaining.insert(name, left.len());
        }
        for finalizer in left.iter().flat_map(|it| &it.meta.finalizers) {
            *self.finalizers.entry(finalizer.clone()).or_insert(0) += 1;
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.is_empty() {
            return Verdict::LetGo;
        }
        let failures: Vec<&str> = self
            .discovery_failure
            .iter()
            .chain(&self.content_failures)
            .map(String::as_str)
            .collect();
        match failures.as_slice() {
            [] => Verdict::Wait,
            failures => Verdict::Retry(failures.join("; ")),
        }
    }
}

/// Reason and message.
type Trouble = (&'static str, String);

/// Who else holds it: it stays though we let it go, and who looks at it then is to see that we are
/// done, and for whom it waits.
pub(crate) fn other_holders(namespace: &Namespace) -> Vec<String> {
    let finalizers = namespace.spec.as_ref().and_then(|it| it.finalizers.as_ref());
    let others = finalizers.into_iter().flatten().filter(|it| *it != FINALIZER);
    others.chain(namespace.metadata.finalizers.iter().flatten()).cloned().collect()
}

/// What the namespace itself waits for: its content is told of by upstream's conditions.
fn explain(found: &Found, holders: &[String]) -> Option<Explanation> {
    let message = format!(
        "all content is removed; waiting for the finalizers of the namespace itself: {}",
        list(holders)
    );
    (found.is_empty() && !holders.is_empty()).then_some(("NamespaceHasFinalizers", message))
}

/// The conditions to write, if any: a namespace that goes at once needs no story.
pub(crate) fn plan(
    stored: &[NamespaceCondition],
    found: &Found,
    holders: &[String],
    now: Timestamp,
) -> Option<Vec<NamespaceCondition>> {
    if found.is_empty() && stored.is_empty() && holders.is_empty() {
        return None;
    }
    let conditions = conditions(stored, found, now);
    let said = explain(found, holders);
    conditions::waiting(Some(conditions), said, now).filter(|it| it != stored)
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
    let mut list: Vec<String> = failures.to_vec();
    list.sort();
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
