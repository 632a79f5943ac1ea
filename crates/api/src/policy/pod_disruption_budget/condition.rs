//! The condition DisruptionAllowed, which follows from the count of disruptions that are allowed.

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::PodDisruptionBudget;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
pub const SYNC_FAILED: &str = "SyncFailed";
const INSUFFICIENT_PODS: &str = "InsufficientPods";
const SUFFICIENT_PODS: &str = "SufficientPods";

pub fn disruption_allowed(status: &PodDisruptionBudgetStatus) -> Option<&Condition> {
    status.conditions.iter().flatten().find(|it| it.type_ == DISRUPTION_ALLOWED)
}

/// Says of a budget what its count of allowed disruptions says.
pub fn set_disruption_allowed(budget: &mut PodDisruptionBudget, now: Timestamp) {
    let (status, reason) = expected(budget);
    set(budget, status, reason, "", now);
}

/// Says that the count is not to be trusted, and why.
pub fn set_sync_failed(budget: &mut PodDisruptionBudget, why: &str, now: Timestamp) {
    set(budget, "False", SYNC_FAILED, why, now);
}

/// Whether the condition is the one that [`set_disruption_allowed`] would set, for the spec as it
/// is now.
pub fn is_disruption_allowed_set(budget: &PodDisruptionBudget) -> bool {
    let Some(status) = &budget.status else { return false };
    let is_said = |it: &Condition| (it.status.as_str(), it.reason.as_str()) == expected(budget);
    status.observed_generation == budget.metadata.generation
        && disruption_allowed(status).is_some_and(is_said)
}

fn expected(budget: &PodDisruptionBudget) -> (&'static str, &'static str) {
    match budget.status.as_ref().and_then(|it| it.disruptions_allowed) {
        Some(1..) => ("True", SUFFICIENT_PODS),
        _ => ("False", INSUFFICIENT_PODS),
    }
}

/// The time moves only when the status does.
fn set(
    budget: &mut PodDisruptionBudget,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let budget_status = budget.status.get_or_insert_default();
    let mut condition = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: budget_status.observed_generation,
        last_transition_time: Time(now),
    };
    let conditions = budget_status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|it| it.type_ == DISRUPTION_ALLOWED) {
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time = existing.last_transition_time.clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(allowed: i32) -> PodDisruptionBudget {
        let mut budget = PodDisruptionBudget::default();
        budget.status.get_or_insert_default().disruptions_allowed = Some(allowed);
        budget
    }

    fn check(budget: &PodDisruptionBudget, expected: &str) {
        let status = budget.status.as_ref().expect("a status");
        let it = disruption_allowed(status).expect("the condition is there");
        let seconds = it.last_transition_time.0.as_second();
        assert_eq!(format!("{} {} {:?} at {seconds}", it.status, it.reason, it.message), expected);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_moves_with_the_status_alone() {
        let mut budget = budget(1);
        set_disruption_allowed(&mut budget, at(1));
        check(&budget, "True SufficientPods \"\" at 1");
        set_disruption_allowed(&mut budget, at(2));
        check(&budget, "True SufficientPods \"\" at 1");
        budget.status.as_mut().unwrap().disruptions_allowed = Some(0);
        assert!(!is_disruption_allowed_set(&budget));
        set_disruption_allowed(&mut budget, at(3));
        check(&budget, "False InsufficientPods \"\" at 3");
        assert!(is_disruption_allowed_set(&budget));
        set_sync_failed(&mut budget, "found no controllers for pod \"a\"", at(4));
        check(&budget, "False SyncFailed \"found no controllers for pod \\\"a\\\"\" at 3");
        assert!(!is_disruption_allowed_set(&budget));
        set_disruption_allowed(&mut budget, at(5));
        check(&budget, "False InsufficientPods \"\" at 3");
    }

    #[test]
    fn what_is_said_of_another_generation_is_not_said_of_this_one() {
        let mut budget = budget(1);
        set_disruption_allowed(&mut budget, at(1));
        budget.metadata.generation = Some(2);
        assert!(!is_disruption_allowed_set(&budget));
    }
}
