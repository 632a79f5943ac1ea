//! What a budget's status should say. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use api::policy::PodDisruptionBudget;
use api::policy::pod_disruption_budget as budgets;
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use reconcile::EventType;

use crate::explanations::{Explanation, list};
use crate::{conditions, owners, pods};

/// How long an eviction that was allowed may take to delete its pod.
pub(super) const DELETION_TIMEOUT: Duration = Duration::from_secs(2 * 60);

pub(super) struct Observed<'a> {
    pub budget: &'a PodDisruptionBudget,
    /// Those that it selects, or why it selects none.
    pub pods: Result<&'a [Arc<PodView>], &'a str>,
    /// Of whoever controls them, each once, where the budget needs it; or why that is not known.
    pub owners: Result<&'a [Scale], &'a str>,
    pub now: Timestamp,
}

/// How many pods somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub uid: String,
    pub replicas: i32,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub events: Vec<Event>,
    /// The budget with the status that it lacks.
    pub write: Option<Box<PodDisruptionBudget>>,
    /// When a pod that should be gone is no longer taken for gone.
    pub look_again: Option<Duration>,
    /// Why no pod may be evicted.
    pub refuses: Option<Refusal>,
}

/// What a budget that allows nothing has counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    expected: i32,
    desired: i32,
    counted: Counted,
}

/// The pods that a budget counts, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    healthy: Vec<String>,
    /// Each with why.
    unhealthy: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub about: About,
    pub kind: EventType,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum About {
    Budget,
    Pod(Arc<PodView>),
}

/// Whether nothing has changed that a budget counts.
pub(super) fn is_same(before: &PodView, after: &PodView) -> bool {
    let controller = |it: &PodView| it.controller().map(|it| it.uid.clone());
    before.is_ready == after.is_ready
        && before.uid() == after.uid()
        && before.is_deleting() == after.is_deleting()
        && before.meta.labels == after.meta.labels
        && controller(before) == controller(after)
}

/// Whether it is a share of what the owners of its pods want, and not of the pods that are there.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    let pods = match observed.pods {
        Ok(pods) => pods,
        Err(why) => {
            plan.warn("NoPods", format!("Failed to get pods: {why}"));
            return plan.fail(observed, why);
        }
    };
    if pods.is_empty() {
        let message = "No matching pods found".to_owned();
        plan.say(EventType::Normal, "NoPods", message);
    }
    let Counts { expected, desired } = match counts(observed, pods) {
        Ok(counts) => counts,
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            plan.warn("CalculateExpectedPodCountFailed", message);
            return plan.fail(observed, why);
        }
    };
    if needs_scale(observed.budget) && pods.iter().any(|it| it.controller().is_none()) {
        plan.warn("UnmanagedPods", unmanaged(observed.budget.spec.as_ref()));
    }
    let disrupted = plan.still_disrupted(observed, pods);
    let healthy = pods.iter().filter(|it| ailment(it, &disrupted).is_none()).count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    // Without any pod nothing is allowed: the first ones may appear before the next look.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    plan.refuses = (allowed == 0 && expected > 0).then(|| {
        let counted = Counted::of(pods, &disrupted);
        Refusal { expected, desired, counted }
    });
    let conditions = observed.budget.status.as_ref().and_then(|it| it.conditions.clone());
    plan.write(observed, |budget| {
        budget.status = Some(PodDisruptionBudgetStatus {
            current_healthy: Some(healthy),
            desired_healthy: Some(desired),
            expected_pods: Some(expected),
            disruptions_allowed: Some(allowed),
            disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
            observed_generation: budget.metadata.generation,
            conditions,
        });
        if !budgets::is_disruption_allowed_set(budget) {
            budgets::set_disruption_allowed(budget, conditions::time(observed.now).0);
        }
    });
    plan
}

/// Why a pod does not count as healthy.
fn ailment(pod: &PodView, disrupted: &BTreeMap<String, Time>) -> Option<&'static str> {
    match pod {
        it if it.is_deleting() => Some("terminating"),
        it if disrupted.contains_key(&it.meta.key.name) => Some("being evicted"),
        it if !it.is_ready => Some("not ready"),
        _ => None,
    }
}

impl Counted {
    fn of(pods: &[Arc<PodView>], disrupted: &BTreeMap<String, Time>) -> Self {
        let mut counted = Self::default();
        for pod in pods {
            let name = &pod.meta.key.name;
            match ailment(pod, disrupted) {
                Some(why) => counted.unhealthy.push(format!("{name} ({why})")),
                None => counted.healthy.push(name.clone()),
            }
        }
        counted.healthy.sort();
        counted.unhealthy.sort();
        counted
    }
}

/// Why nothing may be evicted, and what that waits for: a reason and a sentence.
pub(super) fn explain(plan: &Plan) -> Option<Explanation> {
    let Refusal { expected, desired, counted } = plan.refuses.as_ref()?;
    let healthy = i32::try_from(counted.healthy.len()).unwrap_or(i32::MAX);
    let mut message = format!(
        "of {expected} pods {healthy} are healthy and {desired} have to be: no pod may be evicted"
    );
    let more = desired.saturating_sub(healthy).saturating_add(1);
    if desired.saturating_add(1) <= *expected {
        message.push_str(&format!(" until {more} more are healthy"));
    }
    for (what, pods) in [("not healthy", &counted.unhealthy), ("healthy", &counted.healthy)] {
        if !pods.is_empty() {
            message.push_str(&format!("; {what}: {}", list(pods)));
        }
    }
    Some(("DisruptionNotAllowed", message))
}

struct Counts {
    expected: i32,
    desired: i32,
}

fn counts<'a>(observed: &Observed<'a>, pods: &[Arc<PodView>]) -> Result<Counts, &'a str> {
    let scale = || -> Result<i32, &'a str> {
        let replicas = observed.owners?.iter().map(|it| it.replicas);
        Ok(replicas.fold(0, i32::saturating_add))
    };
    let spec = observed.budget.spec.as_ref();
    let (min, max) = (
        spec.and_then(|it| it.min_available.as_ref()),
        spec.and_then(|it| it.max_unavailable.as_ref()),
    );
    Ok(match (max, min) {
        (Some(unavailable), _) => {
            let expected = scale()?;
            let desired = expected.saturating_sub(resolve(unavailable, expected)).max(0);
            Counts { expected, desired }
        }
        (None, Some(IntOrString::Int(desired))) => {
            let expected = i32::try_from(pods.len()).unwrap_or(i32::MAX);
            Counts { expected, desired: *desired }
        }
        (None, Some(available)) => {
            let expected = scale()?;
            Counts { expected, desired: resolve(available, expected) }
        }
        (None, None) => Counts { expected: 0, desired: 0 },
    })
}

/// A percentage of a pod is a pod.
fn resolve(value: &IntOrString, total: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let exact = percent.saturating_mul(i64::from(total)).saturating_add(99) / 100;
            i32::try_from(exact).unwrap_or(i32::MAX)
        }
    }
}

fn unmanaged(spec: Option<&PodDisruptionBudgetSpec>) -> String {
    let selector = spec.and_then(|it| it.selector.as_ref()).map(render).unwrap_or_default();
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
         unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may \
         result in undefined behavior. To account for these pods please set \
         \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

/// As upstream prints a selector.
fn render(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|it| {
            let values = it.values.as_deref().unwrap_or_default().join(" ");
            let (key, operator) = (&it.key, &it.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

impl Plan {
    fn say(&mut self, kind: EventType, reason: &'static str, message: String) {
        self.events.push(Event { about: About::Budget, kind, reason, message });
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.say(EventType::Warning, reason, message);
    }

    /// Writes the budget as `change` leaves it, if that is another.
    fn write(&mut self, observed: &Observed<'_>, change: impl FnOnce(&mut PodDisruptionBudget)) {
        let mut budget = observed.budget.clone();
        change(&mut budget);
        if budget != *observed.budget {
            self.write = Some(Box::new(budget));
        }
    }

    /// What cannot be counted is not disrupted.
    fn fail(mut self, observed: &Observed<'_>, why: &str) -> Self {
        self.write(observed, |budget| {
            budget.status.get_or_insert_default().disruptions_allowed = Some(0);
            budgets::set_sync_failed(budget, why, conditions::time(observed.now).0);
        });
        self
    }

    /// Of the pods that evictions were allowed for, those whose deletion is still to come.
    fn still_disrupted(
        &mut self,
        observed: &Observed<'_>,
        pods: &[Arc<PodView>],
    ) -> BTreeMap<String, Time> {
        let status = observed.budget.status.as_ref();
        let Some(disrupted) = status.and_then(|it| it.disrupted_pods.as_ref()) else {
            return BTreeMap::new();
        };
        let mut result = BTreeMap::new();
        for pod in pods.iter().filter(|it| !it.is_deleting()) {
            let name = &pod.meta.key.name;
            let Some(since) = disrupted.get(name) else { continue };
            match pods::remaining(since.0, DELETION_TIMEOUT, observed.now) {
                Duration::ZERO => {
                    let meta = &observed.budget.metadata;
                    let (namespace, budget) = (owners::namespace(meta), owners::name(meta));
                    let message = format!(
                        "Pod was expected by PDB {namespace}/{budget} to be deleted but it wasn't"
                    );
                    let (about, kind) = (About::Pod(pod.clone()), EventType::Warning);
                    self.events.push(Event { about, kind, reason: "NotDeleted", message });
                }
                left => {
                    self.look_again = Some(self.look_again.map_or(left, |it| it.min(left)));
                    result.insert(name.clone(), since.clone());
                }
            }
        }
        result
    }
}
