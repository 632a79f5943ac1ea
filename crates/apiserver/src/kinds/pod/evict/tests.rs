//! Budgets, pods and options in, verdicts out.

use api::Resource as _;
use api::core::Pod;
use api::policy::{Eviction, PodDisruptionBudget};
use apimachinery::ApiError;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{budget, options};

const NOW: i64 = 1_700_000_000;

fn budget(spec: &Value, status: &Value) -> PodDisruptionBudget {
    let meta = json!({"name": "web", "namespace": "default", "generation": 3});
    let manifest = json!({"metadata": meta, "spec": spec, "status": status});
    PodDisruptionBudget::decode(manifest.to_string().as_bytes()).unwrap()
}

fn pod(phase: &str, is_ready: bool) -> Pod {
    let ready = if is_ready { "True" } else { "False" };
    let conditions = json!([{"type": "Ready", "status": ready}]);
    let status = json!({"phase": phase, "conditions": conditions});
    Pod::decode(json!({"metadata": {"name": "a"}, "status": status}).to_string().as_bytes())
        .unwrap()
}

fn render(error: &ApiError) -> String {
    let details = error.details();
    let causes = details.and_then(|it| it.causes.as_deref()).unwrap_or_default();
    let causes: Vec<String> = causes
        .iter()
        .map(|it| {
            let (reason, message) = (it.reason.as_deref(), it.message.as_deref());
            format!(" [{}: {}]", reason.unwrap_or_default(), message.unwrap_or_default())
        })
        .collect();
    let after = error.retry_after_seconds();
    let after = after.map(|it| format!(" after {it} s")).unwrap_or_default();
    format!("{} {error}{}{after}", error.code(), causes.concat())
}

fn check_spend(status: Value, expected: &str) {
    let mut budget = budget(&json!({"minAvailable": 1}), &status);
    let now = Timestamp::from_second(NOW).unwrap();
    let said = match budget::spend(&mut budget, "a", now) {
        Err(error) => render(&error),
        Ok(()) => {
            let status = budget.status.unwrap();
            let pods: Vec<String> = status.disrupted_pods.unwrap_or_default().into_keys().collect();
            let condition = status.conditions.unwrap_or_default().pop();
            let condition = condition.map(|it| format!(", {}", it.reason)).unwrap_or_default();
            let left = status.disruptions_allowed.unwrap_or_default();
            format!("{left} left, disrupted {}{condition}", pods.join(" "))
        }
    };
    assert_eq!(said, expected);
}

const VIOLATED: &str = "429 Cannot evict pod as it would violate the pod's disruption budget.";

#[test]
fn a_disruption_is_spent_while_one_is_left() {
    check_spend(json!({"observedGeneration": 3, "disruptionsAllowed": 2}), "1 left, disrupted a");
    check_spend(
        json!({
            "observedGeneration": 3, "disruptionsAllowed": 1,
            "disruptedPods": {"b": "2024-01-02T03:04:05Z"},
        }),
        "0 left, disrupted a b, InsufficientPods",
    );
    check_spend(
        json!({
            "observedGeneration": 3, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2,
        }),
        &format!(
            "{VIOLATED} [DisruptionBudget: The disruption budget web needs 2 healthy pods and has 2 currently]"
        ),
    );
}

#[test]
fn a_budget_that_the_controller_has_not_seen_is_asked_again_in_ten_seconds() {
    check_spend(
        json!({"observedGeneration": 2, "disruptionsAllowed": 2}),
        &format!(
            "{VIOLATED} [DisruptionBudget: The disruption budget web is still being processed by the server.] after 10 s"
        ),
    );
    // Never seen at all.
    check_spend(
        json!({"disruptionsAllowed": 0}),
        &format!(
            "{VIOLATED} [DisruptionBudget: The disruption budget web is still being processed by the server.] after 10 s"
        ),
    );
}

#[test]
fn a_refusal_says_why_none_is_left() {
    let condition = |reason: &str, message: &str| {
        json!([{
            "type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        }])
    };
    let status = |healthy: i32, conditions: Value| {
        json!({
            "observedGeneration": 3, "disruptionsAllowed": 0, "currentHealthy": healthy,
            "desiredHealthy": 2, "conditions": conditions,
        })
    };
    let why =
        |text: &str| format!("{VIOLATED} [DisruptionBudget: The disruption budget web {text}]");
    check_spend(
        status(1, condition("SyncFailed", "found no controllers for pod \"a\"")),
        &why(
            "does not allow evicting pods currently because it failed sync: found no controllers for pod \"a\"",
        ),
    );
    check_spend(
        status(3, condition("Held", "by hand")),
        &why("does not allow evicting pods currently (Held): by hand"),
    );
    check_spend(
        status(1, condition("Held", "by hand")),
        &why("needs 2 healthy pods and has 1 currently"),
    );
    check_spend(
        status(3, condition("InsufficientPods", "")),
        &why("does not allow evicting pods currently"),
    );
    check_spend(status(3, json!([])), &why("does not allow evicting pods currently"));
}

#[test]
fn a_budget_that_makes_no_sense_forbids() {
    check_spend(
        json!({"observedGeneration": 3, "disruptionsAllowed": -1}),
        "403 poddisruptionbudget.policy \"web\" is forbidden: pdb disruptions allowed is negative",
    );
    let disrupted = |n: usize| -> Value {
        let pods = (0..n).map(|it| (format!("p{it}"), json!("2024-01-02T03:04:05Z")));
        pods.collect::<serde_json::Map<_, _>>().into()
    };
    let status = |n: usize| {
        json!({
            "observedGeneration": 3, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "disruptedPods": disrupted(n),
        })
    };
    check_spend(
        status(2001),
        "403 poddisruptionbudget.policy \"web\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller",
    );
    check_spend(
        status(2000),
        &format!(
            "{VIOLATED} [DisruptionBudget: The disruption budget web needs 1 healthy pods and has 1 currently]"
        ),
    );
}

#[test]
fn pods_that_do_not_run_are_no_budgets() {
    for (phase, is_unguarded, is_over) in [
        ("Pending", true, false),
        ("Running", false, false),
        ("Unknown", false, false),
        ("Failed", true, true),
        ("Succeeded", true, true),
    ] {
        let pod = pod(phase, true);
        let found = (budget::is_unguarded(&pod), budget::is_over(&pod));
        assert_eq!(found, (is_unguarded, is_over), "{phase}");
    }
    let mut deleting = pod("Running", true);
    deleting.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2024-01-02T03:04:05Z")).unwrap());
    assert!(budget::is_unguarded(&deleting) && budget::is_over(&deleting));
}

fn check_guard(
    policy: Option<&str>,
    (healthy, desired): (i32, i32),
    is_ready: bool,
    expected: &str,
) {
    let status = json!({"currentHealthy": healthy, "desiredHealthy": desired});
    let budget = budget(&json!({"unhealthyPodEvictionPolicy": policy}), &status);
    let said = budget::guard(&budget, &pod("Running", is_ready));
    assert_eq!(format!("{said:?}"), expected, "{policy:?} {healthy}/{desired} {is_ready}");
}

#[test]
fn an_unhealthy_pod_goes_where_the_rest_is_well_or_the_policy_says_so() {
    for policy in [None, Some("IfHealthyBudget")] {
        check_guard(policy, (2, 2), false, "Uncounted");
        check_guard(policy, (1, 2), false, "Counted");
        // A budget that wants nothing, or was not computed, is no proof of health.
        check_guard(policy, (0, 0), false, "Counted");
        check_guard(policy, (2, 2), true, "Counted");
    }
    check_guard(Some("AlwaysAllow"), (0, 2), false, "Uncounted");
    check_guard(Some("AlwaysAllow"), (3, 2), true, "Counted");
}

fn check_options(delete_options: Value, is_dry_run: bool, expected: &str) {
    let manifest = json!({"metadata": {"name": "a"}, "deleteOptions": delete_options});
    let eviction = Eviction::decode(manifest.to_string().as_bytes()).unwrap();
    let said = match options::merge(&eviction, is_dry_run) {
        Err(error) => format!("{} {error}", error.code()),
        Ok(it) => format!(
            "{:?} {:?} {:?}{}",
            it.grace_period_seconds,
            it.propagation,
            it.preconditions.uid,
            if it.dry_run { " dry" } else { "" }
        ),
    };
    assert_eq!(said, expected);
}

#[test]
fn options_of_the_body_and_the_query_are_one() {
    check_options(Value::Null, false, "None None None");
    check_options(Value::Null, true, "None None None dry");
    check_options(
        json!({
            "gracePeriodSeconds": 5, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"},
            "dryRun": ["All"],
        }),
        false,
        "Some(5) Some(Orphan) Some(\"u\") dry",
    );
    check_options(json!({"orphanDependents": false}), false, "None Some(Background) None");
    check_options(json!({"dryRun": ["All"]}), true, "None None None dry");
    check_options(
        json!({"dryRun": ["Some"]}),
        true,
        "500 Non-matching dry-run options in request and content: [All] and [Some]",
    );
    check_options(
        json!({"dryRun": ["Some"]}),
        false,
        "422 DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
    );
    check_options(
        json!({"propagationPolicy": "Never"}),
        false,
        "422 DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Never\": supported values: \"Background\", \"Foreground\", \"Orphan\", \"nil\"",
    );
    check_options(
        json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
        false,
        "422 DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
    );
    check_options(
        json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}),
        false,
        "422 Eviction.policy \"a\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not be set for pod eviction, try after removing the option",
    );
}

#[test]
fn older_clients_send_the_version_before() {
    let body = |version: &str| {
        json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": "a"}}).to_string()
    };
    let read = options::from_beta(body("policy/v1beta1").as_bytes()).unwrap();
    assert_eq!(Eviction::decode(&read).unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(options::from_beta(body("policy/v1").as_bytes()), None);
    assert_eq!(options::from_beta(b"{}"), None);
    assert_eq!(options::from_beta(b"["), None);
}

#[test]
fn the_eviction_is_of_the_pod_on_the_path() {
    let check = |meta: Value, expected: &str| {
        let manifest = json!({"metadata": meta});
        let eviction = Eviction::decode(manifest.to_string().as_bytes()).unwrap();
        let said = options::validate_place("ns", "a", &eviction);
        assert_eq!(said.map_or_else(|it| it.to_string(), |()| "ok".to_owned()), expected);
    };
    check(json!({"name": "a"}), "ok");
    check(json!({"name": "a", "namespace": "ns"}), "ok");
    check(json!({"name": "b"}), "name in URL does not match name in Eviction object");
    check(json!({}), "name in URL does not match name in Eviction object");
    check(
        json!({"name": "a", "namespace": "other"}),
        "the namespace of the provided object does not match the namespace sent on the request",
    );
}
