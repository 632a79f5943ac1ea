//! CronJobs and the time in, plans out.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::batch::cron_job::CronJob;
use api::batch::job::Job;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{Observed, Plan, explain, job, plan};

fn time(text: &str) -> Timestamp {
    // Short forms are of the first of January.
    let whole = if text.len() == 5 { format!("2026-01-01T{text}:00Z") } else { text.to_owned() };
    whole.parse().unwrap()
}

/// Made at midnight, each ten minutes; `spec` and `status` have the rest.
fn cron_job(spec: &Value, status: &Value) -> Arc<CronJob> {
    let mut whole =
        json!({"schedule": "*/10 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"name": "tick", "namespace": "ns", "uid": "owner", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let all = json!({"metadata": meta, "spec": whole, "status": status});
    Arc::new(serde_json::from_value(all).unwrap())
}

/// `name`, `name Complete 00:10` or `name Failed 00:10`; started then, too.
fn child(text: &str) -> Arc<Job> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut status = json!({});
    if let [_, end, at] = words[..] {
        let at = time(at).to_string();
        status = json!({"startTime": at, "conditions": [{"type": end, "status": "True"}]});
        if end == "Complete" {
            status["completionTime"] = json!(at);
        }
    }
    let meta = json!({"name": words[0], "uid": words[0], "namespace": "ns"});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "status": status})).unwrap())
}

fn active(names: &[&str]) -> Value {
    names.iter().map(|it| json!({"name": it, "uid": it})).collect()
}

fn observed(spec: &Value, status: &Value, jobs: &[&str], now: &str) -> Observed {
    Observed {
        cron_job: cron_job(spec, status),
        jobs: jobs.iter().map(|it| child(it)).collect(),
        missing: BTreeSet::from(["gone".to_owned()]),
        now: time(now),
    }
}

fn planned(spec: &Value, status: &Value, jobs: &[&str], now: &str) -> Plan {
    plan(&observed(spec, status, jobs, now))
}

fn render(plan: &Plan) -> String {
    let mut words: Vec<String> = plan.events.iter().map(|it| it.reason.to_owned()).collect();
    let name = |it: &Option<String>| it.clone().unwrap_or_default();
    words.extend(plan.replace.iter().map(|it| format!("replace {}", name(&it.name))));
    words.extend(plan.start.map(|it| format!("start {}", it.strftime("%H:%M"))));
    let running = plan.status.active.iter().flatten();
    words.extend(running.map(|it| format!("runs {}", name(&it.name))));
    words.extend(plan.forget.iter().map(|it| format!("forget {}", name(&it.metadata.name))));
    words.extend(plan.wait.map(|it| format!("wait {it:?}")));
    words.join(", ")
}

fn check(spec: &Value, status: &Value, jobs: &[&str], now: &str, expected: &str) {
    assert_eq!(render(&planned(spec, status, jobs, now)), expected);
}

fn last(at: &str) -> Value {
    json!({"lastScheduleTime": time(at).to_string()})
}

#[test]
fn a_job_starts_when_its_time_has_come_and_once() {
    check(&json!({}), &json!({}), &[], "00:05", "wait 300.1s");
    check(&json!({}), &json!({}), &[], "00:10", "start 00:10, wait 600.1s");
    check(&json!({}), &last("00:10"), &[], "00:10", "wait 600.1s");
    check(&json!({}), &last("00:10"), &[], "00:19", "wait 60.1s");
    // The status was not written, but the list has it.
    let mut status = last("00:00");
    status["active"] = active(&["tick-29453770"]);
    check(&json!({}), &status, &["tick-29453770"], "00:10", "runs tick-29453770, wait 600.1s");
}

#[test]
fn only_the_last_of_the_missed_times_is_started() {
    check(&json!({}), &last("00:10"), &[], "03:05", "start 03:00, wait 300.1s");
    let many = "2026-01-03T03:05:00Z";
    check(&json!({}), &last("00:10"), &[], many, "TooManyMissedTimes, start 03:00, wait 300.1s");
    // A deadline bounds what is looked at.
    check(
        &json!({"startingDeadlineSeconds": 600}),
        &last("00:10"),
        &[],
        many,
        "start 03:00, wait 300.1s",
    );
}

#[test]
fn what_is_later_than_its_deadline_is_not_started() {
    let spec = |seconds: i64| json!({"startingDeadlineSeconds": seconds});
    check(&spec(30), &last("00:10"), &[], "2026-01-01T00:20:29Z", "start 00:20, wait 571.1s");
    check(&spec(30), &last("00:10"), &[], "2026-01-01T00:20:30Z", "wait 570.1s");
}

#[test]
fn the_policy_says_what_becomes_of_a_job_that_still_runs() {
    let mut status = last("00:10");
    status["active"] = active(&["a"]);
    let at = |policy: &str, expected| {
        check(&json!({"concurrencyPolicy": policy}), &status, &["a"], "00:20", expected);
    };
    at("Allow", "start 00:20, runs a, wait 600.1s");
    at("Forbid", "JobAlreadyActive, runs a, wait 600.1s");
    at("Replace", "replace a, start 00:20, wait 600.1s");
}

#[test]
fn who_forbids_is_told_what_runs() {
    let mut status = last("00:10");
    status["active"] = active(&["a", "b"]);
    let plan = planned(&json!({"concurrencyPolicy": "Forbid"}), &status, &["a", "b"], "00:20");
    assert_eq!(
        plan.events[0].message,
        "Not starting job because prior execution is running and concurrency policy is Forbid: a, b"
    );
}

#[test]
fn what_a_cron_job_waits_for_is_said() {
    let check = |spec: &Value, status: &Value, now: &str, expected: Option<&str>| {
        let observed = observed(spec, status, &[], now);
        assert_eq!(explain(&observed, &plan(&observed)).map(|it| it.1).as_deref(), expected);
    };
    let hourly = json!({"schedule": "0 * * * *"});
    let next = Some("the next Job is started at 2026-01-01T01:00:00Z");
    check(&hourly, &json!({}), "00:05", next);
    check(&hourly, &json!({}), "00:40", next);
    // Near, and so is each of a quick rhythm.
    check(&hourly, &json!({}), "00:51", None);
    check(&json!({}), &last("00:10"), "00:15", None);
    // As if what is started now were done.
    let after = Some("the next Job is started at 2026-01-01T02:00:00Z");
    check(&hourly, &json!({}), "01:00", after);
    let paused = Some("no Job is started while suspend is true");
    check(&json!({"suspend": true}), &json!({}), "00:05", paused);
    check(
        &json!({"startingDeadlineSeconds": 30}),
        &last("00:10"),
        "2026-01-01T00:20:30Z",
        Some(
            "the Job of 2026-01-01T00:20:00Z was not started: it is later than \
             startingDeadlineSeconds (30) allows; the next Job is started at 2026-01-01T00:30:00Z",
        ),
    );
}

#[test]
fn a_suspended_one_starts_nothing_and_looks_after_what_runs() {
    let mut status = last("00:10");
    status["active"] = active(&["a", "gone"]);
    let spec = json!({"suspend": true});
    check(
        &spec,
        &status,
        &["a Complete 00:15", "b"],
        "00:20",
        "SawCompletedJob, UnexpectedJob, MissingJob",
    );
    let plan = planned(
        &spec,
        &status,
        &["a Complete 00:15", "b Complete 00:12", "c Failed 00:17"],
        "00:20",
    );
    assert_eq!(plan.status.last_successful_time.unwrap().0, time("00:15"));
}

#[test]
fn the_oldest_finished_jobs_are_forgotten() {
    let spec =
        json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0, "suspend": true});
    let jobs = ["a Complete 00:30", "b Complete 00:10", "c Complete 00:20", "d Failed 00:40"];
    check(&spec, &json!({}), &jobs, "00:50", "forget b, forget c, forget d");
    check(&json!({"suspend": true}), &json!({}), &jobs, "00:50", "");
}

#[test]
fn what_cannot_be_read_is_told_and_not_tried_again() {
    check(&json!({"timeZone": "Mars/Base"}), &json!({}), &[], "00:10", "UnknownTimeZone");
    check(&json!({"schedule": "nonsense"}), &json!({}), &[], "00:10", "UnparseableSchedule");
    check(&json!({"schedule": "59 23 31 2 *"}), &json!({}), &[], "00:10", "InvalidSchedule");
    check(
        &json!({"schedule": "TZ=Asia/Tokyo */10 * * * *"}),
        &json!({}),
        &[],
        "00:05",
        "UnsupportedSchedule, wait 300.1s",
    );
}

#[test]
fn times_are_those_of_the_zone_and_follow_its_summer() {
    let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    let at = |last: &str, now: &str, expected| {
        let status = json!({"lastScheduleTime": last});
        check(&spec, &status, &[], now, expected);
    };
    // 02:30 does not happen on the 29th of March, when the clock goes from 02:00 to 03:00.
    at("2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", "wait 45000.1s");
    // It happens twice on the 25th of October.
    at("2026-10-24T00:30:00Z", "2026-10-25T00:45:00Z", "start 00:30, wait 2700.1s");
    at("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "start 01:30, wait 86400.1s");
}

#[test]
fn a_job_has_the_name_of_its_minute_and_says_its_time() {
    let made = |zone: &str| {
        let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
        let spec = json!({"timeZone": zone, "jobTemplate": template});
        job(&cron_job(&spec, &json!({})), time("00:10"))
    };
    let said = |job: &Job| {
        job.metadata.annotations.clone().unwrap()["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            .clone()
    };
    let job = made("Asia/Tokyo");
    assert_eq!(job.metadata.name.as_deref(), Some("tick-29453770"));
    assert_eq!(said(&job), "2026-01-01T09:10:00+09:00");
    assert_eq!(said(&made("Etc/UTC")), "2026-01-01T00:10:00Z");
    assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "CronJob");
    assert_eq!(job.metadata.annotations.unwrap()["c"], "d");
}

proptest! {
    #[test]
    fn a_time_is_started_once_and_never_before_it_comes(
        schedule in prop_oneof![Just("*/7 * * * *"), Just("0 3 * * 1-5"), Just("@every 90s"), Just("30 2 * * *")],
        steps in prop::collection::vec(1..200_000i64, 1..30),
    ) {
        let mut now = time("00:00");
        let mut status = json!({});
        let mut started = BTreeSet::new();
        for step in steps {
            now += jiff::SignedDuration::from_secs(step);
            let spec = json!({"schedule": schedule, "timeZone": "Europe/Berlin"});
            let plan = planned(&spec, &status, &[], &now.to_string());
            prop_assert!(plan.wait.is_some());
            let Some(time) = plan.start else { continue };
            prop_assert!(time <= now);
            prop_assert!(started.insert(time), "{} twice", time);
            prop_assert!(started.last() == Some(&time), "{} is before another", time);
            status = json!({"lastScheduleTime": time.to_string()});
            let again = planned(&spec, &status, &[], &now.to_string());
            prop_assert_eq!(again.start, None);
        }
    }
}
