//! A namespace whose labels change: they must say something, and who raises what is enforced is
//! told which pods are there that would not be let in any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Stored;
use api::core::{Namespace, Pod};
use apimachinery::{ApiError, FieldErrors, GroupResource};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::checks::Violations;
use super::policy::{Level, PREFIX, Policy, Standard};
use super::{PodSecurity, templates};
use crate::attributes::Operation;
use crate::context::Context;

/// How many pods are looked at, and for how long.
const PODS_MAX: usize = 3_000;
const PATIENCE: SignedDuration = SignedDuration::from_secs(1);

pub(super) fn validate(plugin: &PodSecurity, context: &Context<'_>) -> Result<(), ApiError> {
    let Some(namespace) = context.object_as::<Namespace>() else { return Ok(()) };
    let labels = namespace.metadata.labels.as_ref();
    let (policy, errors) = Policy::of(labels, &plugin.defaults);
    let old = match context.request.operation {
        Operation::Update => context.old_as::<Namespace>(),
        _ => None,
    };
    let before = old.map(|it| Policy::of(it.metadata.labels.as_ref(), &plugin.defaults));
    // What was wrong before may stay as it is.
    let is_known = before.as_ref().is_some_and(|(_, old)| is_same(&errors, old));
    if !errors.is_empty() && !is_known {
        let kind = context.request.kind.names().gvk().group_kind();
        return Err(ApiError::invalid(&kind, context.name(), &errors));
    }
    let is_raised = before.is_none_or(|(before, _)| is_raised(before.enforce, policy.enforce));
    if !is_raised {
        return Ok(());
    }
    if plugin.exemptions.namespaces.contains(context.name()) {
        if let Some(warning) = ignored(context.name(), &policy, plugin, labels) {
            context.warn(&warning);
        }
        return Ok(());
    }
    if old.is_some() {
        let warnings = plugin.existing(context, policy.enforce);
        warnings.iter().for_each(|it| context.warn(it));
    }
    Ok(())
}

fn is_same(one: &FieldErrors, other: &FieldErrors) -> bool {
    one.to_string() == other.to_string()
}

/// Whether pods that were let in may not be any more. Versions cannot be compared.
fn is_raised(before: Standard, now: Standard) -> bool {
    let is_looser = now.version == before.version && now.level <= before.level;
    now != before && now.level != Level::Privileged && !is_looser
}

/// Labels that somebody has set where nothing is enforced.
fn ignored(
    namespace: &str,
    policy: &Policy,
    plugin: &PodSecurity,
    labels: Option<&BTreeMap<String, String>>,
) -> Option<String> {
    if policy.is_privileged() || policy.is_equivalent(&plugin.defaults) {
        return None;
    }
    let has = |label: String| labels.is_some_and(|it| it.contains_key(&label));
    let is_set =
        |mode: &str| has(format!("{PREFIX}{mode}")) || has(format!("{PREFIX}{mode}-version"));
    let set = policy.modes().into_iter().filter(|(mode, it)| !it.is_privileged() && is_set(mode));
    let set: Vec<String> = set.map(|(mode, it)| format!("{mode}={it}")).collect();
    Some(format!(
        "namespace {namespace:?} is exempt from Pod Security, and the policy ({}) will be ignored",
        set.join(", ")
    ))
}

/// Pods that one reason fits: how many, and the first of them by name.
struct Pods {
    first: String,
    count: usize,
}

impl Pods {
    fn shown(&self, reason: &str) -> String {
        let Self { first, count } = self;
        match count {
            1 => format!("{first}: {reason}"),
            2 => format!("{first} (and 1 other pod): {reason}"),
            _ => format!("{first} (and {} other pods): {reason}", count - 1),
        }
    }
}

/// Of each controller one pod comes first: the others are most likely the same.
fn in_order(pods: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
    let mut seen = BTreeSet::new();
    let is_controller = |it: &&OwnerReference| it.controller == Some(true);
    let (mut first, more): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| {
        let controller = pod.meta.owner_references.iter().find(is_controller);
        controller.is_none_or(|it| seen.insert(it.uid.clone()))
    });
    first.extend(more);
    first
}

impl PodSecurity {
    /// What to say of the pods that are there.
    fn existing(&self, context: &Context<'_>, enforce: Standard) -> Vec<String> {
        let namespace = context.name();
        let deadline = self.clock.now() + PATIENCE;
        let pods = context.lookup.list(&GroupResource::new("", "pods"), Some(namespace));
        let pods = in_order(pods);
        let (mut n_pods, mut n_checked) = (pods.len(), 0);
        let mut by_reason: BTreeMap<String, Pods> = BTreeMap::new();
        for stored in &pods {
            if n_checked >= PODS_MAX || n_checked > 0 && self.clock.now() >= deadline {
                break;
            }
            let pod = stored.shared::<Pod>().ok();
            let subject = pod.as_deref().and_then(templates::of_pod);
            let Some(subject) = subject.filter(|it| !self.is_exempt_class(it)) else {
                n_pods -= 1;
                continue;
            };
            n_checked += 1;
            let violations = Violations::of(enforce, &subject);
            if !violations.is_empty() {
                let name = &stored.meta.key.name;
                let fresh = || Pods { first: name.clone(), count: 0 };
                let pods = by_reason.entry(violations.reasons()).or_insert_with(fresh);
                pods.count += 1;
                if *name < pods.first {
                    pods.first.clone_from(name);
                }
            }
        }
        let partly = (n_checked < n_pods).then(|| {
            format!(
                "new PodSecurity enforce level only checked against the first {n_checked} of {n_pods} existing pods"
            )
        });
        let some = (!by_reason.is_empty()).then(|| {
            format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
            )
        });
        let mut shown: Vec<String> = by_reason.iter().map(|(why, pods)| pods.shown(why)).collect();
        shown.sort();
        partly.into_iter().chain(some).chain(shown).collect()
    }
}
