//! Jobs and pods in, plans out.

use std::sync::Arc;

use api::Interned;
use api::batch::job::{Job, TRACKING_FINALIZER};
use api::core::pod::{Exit, JobPart, PodView};
use api::{Identified as _, Meta};
use apimachinery::ObjectKey;
use apimachinery::selector::Labels;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use serde_json::{Value, json};

use super::backoff::Record;
use super::plan::{Observed, Plan, plan};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Job with the defaults of the server; `spec` has the rest.
pub(super) fn job(spec: &Value, status: &Value) -> Arc<Job> {
    let mut whole = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"job": "pi"}},
        "template": {"spec": {"restartPolicy": "Never", "containers": []}},
    });
    for (field, value) in spec.as_object().unwrap() {
        if value.is_null() {
            whole.as_object_mut().unwrap().remove(field);
        } else {
            whole[field] = value.clone();
        }
    }
    let meta = json!({"name": "pi", "namespace": "ns", "uid": "owner"});
    let job = json!({"metadata": meta, "spec": whole, "status": status});
    Arc::new(serde_json::from_value(job).unwrap())
}

fn owner() -> OwnerReference {
    let kind = "Job".to_owned();
    let uid = "owner".to_owned();
    OwnerReference { kind, uid, controller: Some(true), ..OwnerReference::default() }
}

/// `name word word ...`: `orphan`, `other` (labels that do not match), `untracked`, `deleting`,
/// `ready`, `node=n`, `index=n`, `failures=n`, `ignored=n`, `restarts=n`, `ended=second`,
/// `exit=code`, `condition=type`, or a phase.
pub(super) fn pod(text: &str) -> Arc<PodView> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let mut meta = Meta {
        key: ObjectKey::new("ns", name),
        uid: name.to_owned(),
        labels: [("job", "pi")].into_iter().collect(),
        owner_references: vec![owner()],
        finalizers: vec![TRACKING_FINALIZER.to_owned()],
        ..Meta::default()
    };
    let mut part = JobPart::default();
    let mut pod = PodView { phase: "Running".into(), created: Some(at(0)), ..PodView::default() };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "orphan" => meta.owner_references.clear(),
            "other" => meta.labels = [("job", "other")].into_iter().collect(),
            "untracked" => meta.finalizers.clear(),
            "deleting" => meta.is_deleting = true,
            "ready" => pod.is_ready = true,
            "node" => pod.node_name = value.into(),
            "index" => part.completion_index = value.parse().ok(),
            "failures" => part.index_failures = value.parse().unwrap(),
            "ignored" => part.index_ignored_failures = value.parse().unwrap(),
            "restarts" => part.restarts = value.parse().unwrap(),
            "ended" => part.ended = Some(at(value.parse().unwrap())),
            "exit" => {
                let code = value.parse().unwrap();
                part.exits = [Exit { container: "main".into(), code }].into();
            }
            "condition" => {
                part.conditions = [(Interned::new(value), Interned::new("True"))].into();
            }
            phase => pod.phase = phase.into(),
        }
    }
    pod.meta = Arc::new(meta);
    pod.job = Some(Box::new(part));
    Arc::new(pod)
}

pub(super) fn observed(job: &Arc<Job>, pods: Vec<Arc<PodView>>, now: i64) -> Observed {
    let selector = Labels::parse("job=pi").unwrap();
    Observed {
        job: job.clone(),
        selector,
        candidates: pods,
        record: Record::default(),
        now: at(now),
    }
}

fn names(pods: &[Arc<PodView>]) -> String {
    pods.iter().map(|it| it.key().name).collect::<Vec<_>>().join(" ")
}

pub(super) fn render(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (verb, pods) in [("adopt", &plan.adopt), ("release", &plan.release)] {
        if !pods.is_empty() {
            lines.push(format!("{verb} {}", names(pods)));
        }
    }
    if plan.create.iter().any(|it| it.index.is_some()) {
        let one = |it: &super::staffing::Creation| match it.failures {
            Some(failures) if failures.ignored > 0 => {
                format!("{}({}+{})", it.index.unwrap(), failures.counted, failures.ignored)
            }
            Some(failures) => format!("{}({})", it.index.unwrap(), failures.counted),
            None => it.index.unwrap().to_string(),
        };
        lines.push(format!("create {}", plan.create.iter().map(one).collect::<Vec<_>>().join(" ")));
    } else if !plan.create.is_empty() {
        lines.push(format!("create {} pods", plan.create.len()));
    }
    if !plan.let_go.is_empty() {
        lines.push(format!("let go {}", names(&plan.let_go)));
    }
    lines.extend(plan.status.as_ref().map(render_status));
    lines.extend(plan.notes.iter().map(|it| format!("{it:?}")));
    for (verb, pods) in [("stop", &plan.stop), ("untrack", &plan.untrack)] {
        if !pods.is_empty() {
            lines.push(format!("{verb} {}", names(pods)));
        }
    }
    lines.extend(plan.wait.map(|it| format!("wait {it:?}")));
    lines
}

fn render_status(status: &JobStatus) -> String {
    let mut words = Vec::new();
    let mut number = |name: &str, value: Option<i32>| {
        if let Some(value) = value.filter(|it| *it != 0) {
            words.push(format!("{name} {value}"));
        }
    };
    number("active", status.active);
    number("ready", status.ready);
    number("terminating", status.terminating);
    number("succeeded", status.succeeded);
    number("failed", status.failed);
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    for (name, uids) in [("succeeded", uncounted.succeeded), ("failed", uncounted.failed)] {
        words.extend(uids.map(|it| format!("uncounted {name} {}", it.join(" "))));
    }
    words.extend(status.completed_indexes.as_ref().map(|it| format!("completed {it}")));
    words.extend(status.failed_indexes.as_ref().map(|it| format!("failed indexes {it:?}")));
    for condition in status.conditions.iter().flatten() {
        let reason = condition.reason.as_deref().unwrap_or_default();
        words.push(format!("{}={} {reason}", condition.type_, condition.status));
    }
    format!("status: {}", words.join(", "))
}

/// What is planned at second 100 for a Job that started then.
fn check(spec: &Value, status: &Value, pods: &[&str], expected: &[&str]) {
    let mut status = status.clone();
    if status.get("startTime").is_none() {
        status["startTime"] = json!("1970-01-01T00:01:40Z");
    }
    let pods = pods.iter().map(|it| pod(it)).collect();
    let planned = render(&plan(&observed(&job(spec, &status), pods, 100)));
    assert_eq!(planned, expected);
}

fn condition(type_: &str, reason: &str) -> Value {
    json!([{"type": type_, "status": "True", "reason": reason, "message": "why"}])
}

#[test]
fn pods_are_made_up_to_parallelism_and_to_what_is_left() {
    let spec = json!({"parallelism": 3, "completions": 5});
    check(&spec, &json!({}), &[], &["create 3 pods", "status: active 3"]);
    check(
        &spec,
        &json!({"succeeded": 4}),
        &[],
        &["create 1 pods", "status: active 1, succeeded 4"],
    );
    check(
        &spec,
        &json!({"succeeded": 2}),
        &["a", "b ready", "c"],
        &["status: active 3, ready 1, succeeded 2"],
    );
    let many = json!({"parallelism": 10_000, "completions": 1_000_000_000});
    check(&many, &json!({}), &[], &["create 500 pods", "status: active 500"]);
}

#[test]
fn surplus_pods_are_let_go_and_deletion_comes_before_creation() {
    let spec = json!({"parallelism": 1, "completions": 5});
    check(&spec, &json!({}), &["a node=n", "b"], &["let go b", "status: active 1, terminating 1"]);
    check(&spec, &json!({}), &["a untracked"], &["let go a", "status: terminating 1"]);
    let none = json!({"parallelism": 0, "completions": 5});
    check(&none, &json!({}), &["a ready"], &["let go a", "status: terminating 1"]);
}

#[test]
fn a_pod_that_ended_is_named_then_untracked_then_counted() {
    let spec = json!({"completions": 2});
    let named = json!({"uncountedTerminatedPods": {"succeeded": ["a"]}});
    check(
        &spec,
        &json!({}),
        &["a Succeeded"],
        &["create 1 pods", "status: active 1, uncounted succeeded a", "untrack a"],
    );
    check(
        &spec,
        &named,
        &["a Succeeded", "b"],
        &["status: active 1, uncounted succeeded a", "untrack a"],
    );
    check(&spec, &named, &["a Succeeded untracked", "b"], &["status: active 1, succeeded 1"]);
    check(&spec, &named, &["b"], &["status: active 1, succeeded 1"]);
    // Once counted, a finished pod is of no concern.
    check(
        &spec,
        &json!({"succeeded": 1}),
        &["a Succeeded untracked", "b"],
        &["status: active 1, succeeded 1"],
    );
}

#[test]
fn enough_successes_complete_it_when_everybody_is_counted() {
    let named = json!({"uncountedTerminatedPods": {"succeeded": ["a"]}, "conditions": condition("SuccessCriteriaMet", "CompletionsReached")});
    check(
        &json!({}),
        &json!({}),
        &["a Succeeded"],
        &["status: uncounted succeeded a, SuccessCriteriaMet=True CompletionsReached", "untrack a"],
    );
    check(
        &json!({}),
        &named,
        &["a Succeeded untracked"],
        &[
            "status: succeeded 1, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached",
            "Completed { reason: \"CompletionsReached\", has_too_many: false }",
        ],
    );
    check(
        &json!({}),
        &named,
        &["a Succeeded untracked", "b deleting"],
        &[
            "status: terminating 1, succeeded 1, uncounted failed b, SuccessCriteriaMet=True CompletionsReached",
            "untrack b",
        ],
    );
    check(
        &json!({"completions": 0}),
        &json!({}),
        &[],
        &[
            "status: SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached",
            "Completed { reason: \"CompletionsReached\", has_too_many: false }",
        ],
    );
}

#[test]
fn without_completions_the_first_success_ends_the_making_of_pods() {
    let spec = json!({"parallelism": 2, "completions": null});
    check(&spec, &json!({}), &[], &["create 2 pods", "status: active 2"]);
    check(
        &spec,
        &json!({}),
        &["a Succeeded", "b"],
        &["status: active 1, uncounted succeeded a", "untrack a"],
    );
    check(
        &spec,
        &json!({"succeeded": 1}),
        &["b Succeeded untracked"],
        &[
            "status: succeeded 1, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached",
            "Completed { reason: \"CompletionsReached\", has_too_many: false }",
        ],
    );
}

#[test]
fn failures_delay_the_next_pod() {
    check(
        &json!({}),
        &json!({}),
        &["a Failed ended=95"],
        &["status: uncounted failed a", "untrack a", "wait 5s"],
    );
    check(
        &json!({}),
        &json!({}),
        &["a Failed ended=99", "b Failed ended=96"],
        &["status: uncounted failed a b", "untrack a b", "wait 19s"],
    );
    check(
        &json!({}),
        &json!({}),
        &["a Failed ended=80"],
        &["create 1 pods", "status: active 1, uncounted failed a", "untrack a"],
    );
}

#[test]
fn more_failures_than_the_limit_fail_it_and_stop_what_runs() {
    let spec = json!({"backoffLimit": 1, "parallelism": 2, "completions": 2});
    check(
        &spec,
        &json!({"failed": 1}),
        &["a Failed", "b ready"],
        &[
            "status: active 1, ready 1, failed 1, uncounted failed a b, FailureTarget=True BackoffLimitExceeded",
            "stop b",
            "untrack a b",
        ],
    );
    let target = condition("FailureTarget", "BackoffLimitExceeded");
    let named = json!({"failed": 1, "uncountedTerminatedPods": {"failed": ["a", "b"]}, "conditions": target});
    check(
        &spec,
        &named,
        &["b deleting untracked"],
        &["status: terminating 1, failed 3, FailureTarget=True BackoffLimitExceeded"],
    );
    check(
        &spec,
        &named,
        &[],
        &[
            "status: failed 3, FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded",
            "Failed { reason: \"BackoffLimitExceeded\", message: \"why\" }",
        ],
    );
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let spec = json!({"backoffLimit": 3, "template": {"spec": {"restartPolicy": "OnFailure", "containers": []}}});
    check(&spec, &json!({}), &["a restarts=2"], &["status: active 1"]);
    check(
        &spec,
        &json!({}),
        &["a restarts=3"],
        &[
            "status: active 1, uncounted failed a, FailureTarget=True BackoffLimitExceeded",
            "stop a",
            "untrack a",
        ],
    );
}

#[test]
fn it_fails_when_its_time_is_over() {
    let spec = json!({"activeDeadlineSeconds": 30});
    check(&spec, &json!({}), &["a"], &["status: active 1", "wait 30s"]);
    check(
        &spec,
        &json!({"startTime": "1970-01-01T00:01:10Z"}),
        &["a"],
        &[
            "status: active 1, uncounted failed a, FailureTarget=True DeadlineExceeded",
            "stop a",
            "untrack a",
        ],
    );
    let suspended = json!({"activeDeadlineSeconds": 30, "suspend": true});
    check(
        &suspended,
        &json!({"startTime": "1970-01-01T00:00:00Z"}),
        &[],
        &["status: Suspended=True JobSuspended", "Suspended"],
    );
}

#[test]
fn a_suspended_job_lets_its_pods_go_and_a_resumed_one_starts_anew() {
    let suspend = json!({"suspend": true});
    check(
        &suspend,
        &json!({}),
        &["a ready"],
        &["let go a", "status: terminating 1, Suspended=True JobSuspended", "Suspended"],
    );
    let suspended = json!({"conditions": condition("Suspended", "JobSuspended")});
    check(&suspend, &suspended, &[], &["status: Suspended=True JobSuspended"]);
    check(
        &json!({}),
        &suspended,
        &[],
        &["create 1 pods", "status: active 1, Suspended=False JobResumed", "Resumed"],
    );
    // What ended before is counted.
    check(
        &suspend,
        &suspended,
        &["a Failed"],
        &["status: uncounted failed a, Suspended=True JobSuspended", "untrack a"],
    );
}

#[test]
fn pods_of_nobody_are_adopted_and_those_that_do_not_match_released_before_anything_else() {
    check(&json!({}), &json!({}), &["a orphan untracked", "b other"], &["adopt a", "release b"]);
    check(&json!({}), &json!({}), &["a orphan other"], &["create 1 pods", "status: active 1"]);
}

#[test]
fn deleted_pods_count_as_failed_unless_they_are_waited_for() {
    check(
        &json!({}),
        &json!({}),
        &["a deleting ended=0"],
        &["create 1 pods", "status: active 1, terminating 1, uncounted failed a", "untrack a"],
    );
    let waits = json!({"podReplacementPolicy": "Failed"});
    check(&waits, &json!({}), &["a deleting"], &["status: terminating 1"]);
    check(
        &waits,
        &json!({}),
        &["a deleting Failed ended=0"],
        &["create 1 pods", "status: active 1, uncounted failed a", "untrack a"],
    );
}

#[test]
fn indexes_are_worked_on_once_each_from_the_lowest() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 5});
    check(&spec, &json!({}), &[], &["create 0 1 2", "status: active 3"]);
    check(
        &spec,
        &json!({"succeeded": 2, "completedIndexes": "0,2"}),
        &["a index=3"],
        &["create 1 4", "status: active 3, succeeded 2, completed 0,2"],
    );
    check(
        &spec,
        &json!({}),
        &["a index=0 Succeeded", "b index=1", "c index=2"],
        &["create 3", "status: active 3, succeeded 1, completed 0", "untrack a"],
    );
    // A second one of an index, one without and one beyond the last.
    check(
        &spec,
        &json!({}),
        &["a index=0 node=n", "b index=0", "c", "d index=7"],
        &["let go d c b", "status: active 1, terminating 3"],
    );
    check(
        &spec,
        &json!({"completedIndexes": "0"}),
        &["x index=0 Succeeded", "a index=1", "b index=2", "c index=3"],
        &["status: active 3, succeeded 1, completed 0", "untrack x"],
    );
}

#[test]
fn an_elastic_job_forgets_indexes_that_it_has_no_more() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3});
    check(
        &spec,
        &json!({"succeeded": 4, "completedIndexes": "1-4"}),
        &["a index=0"],
        &["status: active 1, succeeded 2, completed 1,2"],
    );
}

#[test]
fn a_thousand_million_indexes_are_no_more_work_than_ten() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 1_000_000_000});
    let status = json!({"succeeded": 999_999_997, "completedIndexes": "0-999999996"});
    check(
        &spec,
        &status,
        &[],
        &[
            "create 999999997 999999998",
            "status: active 2, succeeded 999999997, completed 0-999999996",
        ],
    );
}

#[test]
fn each_index_has_its_own_limit_and_its_own_delay() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    // The failed pod stays until the next one of its index knows of it.
    check(
        &spec,
        &json!({}),
        &["a index=0 Failed ended=95", "b index=1"],
        &["status: active 1, failed indexes \"\"", "wait 5s"],
    );
    check(
        &spec,
        &json!({}),
        &["a index=0 Failed ended=80", "b index=1"],
        &["create 0(1)", "status: active 2, failed indexes \"\""],
    );
    check(
        &spec,
        &json!({}),
        &["a index=0 Failed", "c index=0 failures=1", "b index=1"],
        &["status: active 2, uncounted failed a, failed indexes \"\"", "untrack a"],
    );
    check(
        &spec,
        &json!({}),
        &["c index=0 failures=1 Failed", "b index=1"],
        &["status: active 1, uncounted failed c, failed indexes \"0\"", "untrack c"],
    );
    check(
        &spec,
        &json!({"failed": 2, "failedIndexes": "0"}),
        &["b index=1 Succeeded"],
        &[
            "status: succeeded 1, failed 2, completed 1, failed indexes \"0\", FailureTarget=True FailedIndexes",
            "untrack b",
        ],
    );
    let most = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 9, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": i32::MAX});
    check(
        &most,
        &json!({"failed": 1, "failedIndexes": "0"}),
        &["a index=1 Failed"],
        &[
            "status: failed 1, uncounted failed a, failed indexes \"0,1\", FailureTarget=True MaxFailedIndexesExceeded",
            "untrack a",
        ],
    );
}

fn policy(rule: &Value) -> Value {
    json!({"backoffLimit": 0, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [rule]}})
}

#[test]
fn the_first_rule_that_matches_says_what_a_failure_means() {
    let codes = |action: &str| {
        policy(&json!({"action": action, "onExitCodes": {"operator": "In", "values": [42]}}))
    };
    let pods = ["a Failed exit=42 ended=0"];
    let fails =
        ["status: uncounted failed a, FailureTarget=True BackoffLimitExceeded", "untrack a"];
    check(&codes("Count"), &json!({}), &pods, &fails);
    check(&codes("Ignore"), &json!({}), &pods, &["create 1 pods", "status: active 1", "untrack a"]);
    check(&codes("Ignore"), &json!({}), &["a Failed exit=1"], &fails);
    check(
        &codes("FailJob"),
        &json!({}),
        &pods,
        &["status: uncounted failed a, FailureTarget=True PodFailurePolicy", "untrack a"],
    );
    let disrupted =
        policy(&json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}));
    check(
        &disrupted,
        &json!({}),
        &["a Failed condition=DisruptionTarget ended=0"],
        &["create 1 pods", "status: active 1", "untrack a"],
    );
    let other = policy(
        &json!({"action": "Ignore", "onExitCodes": {"containerName": "side", "operator": "NotIn", "values": [1]}}),
    );
    check(&other, &json!({}), &pods, &fails);
}

#[test]
fn a_rule_says_which_container_failed_the_job() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}});
    let job = job(&policy(&rule), &json!({}));
    let plan = plan(&observed(&job, vec![pod("a Failed exit=42")], 100));
    let status = plan.status.unwrap();
    let message = status.conditions.unwrap()[0].message.clone().unwrap();
    assert_eq!(
        message,
        "Container main for pod ns/a failed with exit code 42 matching FailJob rule at index 0"
    );
    assert_eq!(plan.actions.into_iter().collect::<Vec<_>>(), [("FailJob", 1)]);
}

#[test]
fn an_index_can_be_given_up_at_once_and_failures_that_are_ignored_do_not_count() {
    let spec = |action: &str| {
        json!({
            "completionMode": "Indexed", "completions": 2, "parallelism": 1, "backoffLimitPerIndex": 3, "backoffLimit": i32::MAX,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]},
        })
    };
    let pods = ["a index=0 Failed exit=42 failures=1 ended=0"];
    check(
        &spec("FailIndex"),
        &json!({}),
        &pods,
        &["create 1(0)", "status: active 1, uncounted failed a, failed indexes \"0\"", "untrack a"],
    );
    check(
        &spec("Ignore"),
        &json!({}),
        &pods,
        &["create 0(1+1)", "status: active 1, failed indexes \"\""],
    );
}

#[test]
fn some_indexes_may_be_enough() {
    let spec = |rule: &Value| json!({"completionMode": "Indexed", "parallelism": 3, "completions": 9, "successPolicy": {"rules": [rule]}});
    let pods = ["a index=0 Succeeded", "b index=1 Succeeded", "c index=2"];
    let met = [
        "status: active 1, succeeded 2, completed 0,1, SuccessCriteriaMet=True SuccessPolicy",
        "stop c",
        "untrack a b c",
    ];
    check(&spec(&json!({"succeededIndexes": "0-1"})), &json!({}), &pods, &met);
    check(&spec(&json!({"succeededCount": 2})), &json!({}), &pods, &met);
    check(&spec(&json!({"succeededIndexes": "1-5", "succeededCount": 1})), &json!({}), &pods, &met);
    check(
        &spec(&json!({"succeededIndexes": "1-5", "succeededCount": 2})),
        &json!({}),
        &pods,
        &["create 3 4", "status: active 3, succeeded 2, completed 0,1", "untrack a b"],
    );
    // What it stops then does not count.
    let stopping = json!({"succeeded": 2, "completedIndexes": "0,1", "conditions": condition("SuccessCriteriaMet", "SuccessPolicy")});
    check(
        &spec(&json!({"succeededCount": 2})),
        &stopping,
        &["c index=2 deleting"],
        &[
            "status: terminating 1, succeeded 2, completed 0,1, SuccessCriteriaMet=True SuccessPolicy",
            "untrack c",
        ],
    );
}

#[test]
fn a_job_that_is_being_deleted_makes_nothing_and_holds_nobody() {
    let mut deleted = (*job(&json!({"parallelism": 3, "completions": 3}), &json!({}))).clone();
    deleted.metadata.deletion_timestamp = Some(Time(at(0)));
    let pods = vec![pod("a"), pod("b Succeeded")];
    let planned = render(&plan(&observed(&Arc::new(deleted), pods, 100)));
    assert_eq!(planned, ["status: active 1, uncounted succeeded b", "untrack a b"]);
}

#[test]
fn a_status_names_a_bounded_number_of_pods() {
    let spec = json!({"parallelism": 1000, "completions": 2000});
    let pods: Vec<_> = (0..900).map(|it| pod(&format!("pod-{it:04} Succeeded"))).collect();
    let plan = plan(&observed(&job(&spec, &json!({})), pods, 100));
    let uncounted = plan.status.unwrap().uncounted_terminated_pods.unwrap();
    assert_eq!((uncounted.succeeded.unwrap().len(), plan.untrack.len()), (500, 500));
}

#[test]
fn a_job_says_what_it_waits_for() {
    let check = |spec: &Value, status: &Value, pods: &[&str], expected: Option<&str>| {
        let job = job(spec, status);
        let observed = observed(&job, pods.iter().map(|it| pod(it)).collect(), 104);
        let said = super::explain::explain(&plan(&observed))
            .map(|(reason, text)| format!("{reason}: {text}"));
        assert_eq!(said.as_deref(), expected);
    };
    let started = json!({"startTime": "1970-01-01T00:00:00Z"});
    check(&json!({}), &started, &["a"], None);
    check(&json!({}), &started, &[], None);
    check(
        &json!({}),
        &started,
        &["a Failed ended=100"],
        Some("BackOff: failures in a row: 1; the next pods are created at 1970-01-01T00:01:50Z"),
    );
    check(
        &json!({"completionMode": "Indexed", "backoffLimitPerIndex": 3}),
        &started,
        &["a Failed index=0 ended=100"],
        Some("BackOff: indexes whose pods failed are tried again from 1970-01-01T00:01:50Z"),
    );
    check(
        &json!({"podReplacementPolicy": "Failed"}),
        &started,
        &["a deleting"],
        Some("PodsTerminating: pods are replaced when they have terminated: a"),
    );
    let failed = json!({"startTime": "1970-01-01T00:00:00Z", "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"},
    ]});
    check(
        &json!({}),
        &failed,
        &["b deleting", "a"],
        Some(
            "PodsTerminating: the Job is Failed (BackoffLimitExceeded) when pods have terminated: \
             a, b",
        ),
    );
    let elsewhere = job(&json!({"managedBy": "example.com/queue"}), &json!({}));
    let said = super::explain::elsewhere(elsewhere.spec.as_ref().unwrap()).unwrap();
    assert_eq!(said.1, "the Job is left to the controller example.com/queue");
}
