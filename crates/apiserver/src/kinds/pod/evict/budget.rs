//! What a disruption budget says to an eviction. Pure.

use api::core::Pod;
use api::core::pod::conditions;
use api::policy::PodDisruptionBudget;
use api::policy::pod_disruption_budget::{self as budgets, SYNC_FAILED};
use apimachinery::{ApiError, GroupResource, Reason};
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub(super) const SEVERAL: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const CAUSE: &str = "DisruptionBudget";
/// Evictions that the controller has not confirmed.
const DISRUPTED_PODS_MAX: usize = 2000;
/// When a budget that is being looked at is asked again.
const RETRY_AFTER_SECONDS: i32 = 10;

/// Whether it ran to its end, or is on its way there: nothing about it changes for the better.
pub(super) fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded")) || pod.metadata.deletion_timestamp.is_some()
}

/// Whether no budget counts the pod: it does not run yet, or not any longer.
pub(super) fn is_unguarded(pod: &Pod) -> bool {
    is_over(pod) || pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Pending")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// The pod goes if the budget has a disruption left.
    Counted,
    /// The pod is not healthy, so that nothing is disrupted; it goes as long as that is so.
    Uncounted,
}

pub(super) fn guard(budget: &PodDisruptionBudget, pod: &Pod) -> Guard {
    if conditions::is_true(pod, "Ready") {
        return Guard::Counted;
    }
    let spec = budget.spec.as_ref();
    let policy = spec.and_then(|it| it.unhealthy_pod_eviction_policy.as_deref());
    let status = budget.status.as_ref();
    let healthy = status.and_then(|it| it.current_healthy).unwrap_or(0);
    let desired = status.and_then(|it| it.desired_healthy).unwrap_or(0);
    match policy == Some("AlwaysAllow") || (desired > 0 && healthy >= desired) {
        true => Guard::Uncounted,
        false => Guard::Counted,
    }
}

/// The controller has not seen the budget as it is, or the pod changed while it was judged.
pub(super) fn unsettled(budget: &str) -> ApiError {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    ApiError::too_many_requests(VIOLATED, RETRY_AFTER_SECONDS).with_cause(CAUSE, &why, "")
}

/// Takes one disruption, for the pod of this name.
pub(super) fn spend(
    budget: &mut PodDisruptionBudget,
    pod: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    let name = budget.metadata.name.clone().unwrap_or_default();
    let generation = budget.metadata.generation.unwrap_or(0);
    let status = budget.status.get_or_insert_default();
    if status.observed_generation.unwrap_or(0) < generation {
        return Err(unsettled(&name));
    }
    let forbidden = |why| {
        let resource = "poddisruptionbudget".to_owned();
        let resource = GroupResource { group: "policy".to_owned(), resource };
        Err(ApiError::forbidden(&resource, &name, why))
    };
    let n_disrupted = status.disrupted_pods.as_ref().map_or(0, std::collections::BTreeMap::len);
    let left = match status.disruptions_allowed.unwrap_or(0) {
        ..0 => return forbidden("pdb disruptions allowed is negative"),
        _ if n_disrupted > DISRUPTED_PODS_MAX => {
            return forbidden(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            );
        }
        0 => {
            let why = why_none_is_left(&name, status);
            let refused = ApiError::new(Reason::TooManyRequests, VIOLATED);
            return Err(refused.with_cause(CAUSE, &why, ""));
        }
        allowed => allowed - 1,
    };
    status.disruptions_allowed = Some(left);
    // Until the pod is seen to be deleted, the controller counts it as gone.
    status.disrupted_pods.get_or_insert_default().insert(pod.to_owned(), Time(now));
    if left == 0 {
        budgets::set_disruption_allowed(budget, now);
    }
    Ok(())
}

fn why_none_is_left(name: &str, status: &PodDisruptionBudgetStatus) -> String {
    let healthy = status.current_healthy.unwrap_or(0);
    let desired = status.desired_healthy.unwrap_or(0);
    let said = budgets::disruption_allowed(status);
    match said.filter(|it| it.status == "False" && !it.message.is_empty()) {
        Some(Condition { reason, message, .. }) if reason == SYNC_FAILED => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed \
             sync: {message}"
        ),
        _ if healthy <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some(Condition { reason, message, .. }) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): \
             {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}
