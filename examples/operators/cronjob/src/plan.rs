//! What a CronJob does now: which Job it starts, stops or forgets, and what its status says. Pure.

use std::sync::Arc;

use apimachinery::ObjectKey;
use apimachinery::cron::{Schedule, find_zone};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::objects::{ConcurrencyPolicy, CronJob, GROUP, Job, KIND, Outcome, SCHEDULED_AT, Status};

/// More times than these were missed: the clock was wrong, or nobody was here for long. They are
/// given up rather than counted.
const MISSED_MAX: usize = 100;

pub(crate) struct Observed<'a> {
    pub(crate) cron_job: &'a CronJob,
    /// Those that it controls.
    pub(crate) jobs: &'a [Arc<Job>],
    pub(crate) now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// It goes on, and the next takes its place.
    Stop(ObjectKey),
    /// One that is there already is as good: its name says its time.
    Start(Value),
    /// It ended, and is older than the history that is kept.
    Forget(ObjectKey),
    Report(Status),
    /// An event: whether it is a warning, reason and message.
    Say(bool, &'static str, String),
}

/// Carried out from the first to the last.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// When to look again though nothing changes.
    pub(crate) wait: Option<SignedDuration>,
}

pub(crate) fn plan(observed: &Observed<'_>) -> Plan {
    let cron_job = observed.cron_job;
    let mut plan = Plan::default();
    if cron_job.meta.is_deleting {
        // Its Jobs have it as their owner, and go with it.
        return plan;
    }
    let mut status = cron_job.status.clone();
    status.active = active(observed).map(|it| it.meta.key.name.clone()).collect();
    status.next_schedule_time = None;
    match Timetable::of(cron_job) {
        // Webhooks refuse it; but they may have been away.
        Err(why) => plan.actions.push(Action::Say(true, "InvalidSchedule", why)),
        Ok(_) if cron_job.spec.suspend => {}
        Ok(times) => {
            run(observed, &times, &mut status, &mut plan.actions);
            status.next_schedule_time = times.next_after(observed.now);
            let next = status.next_schedule_time;
            plan.wait = next.map(|it| it.duration_since(observed.now));
        }
    }
    status.active.sort();
    if status != cron_job.status {
        plan.actions.push(Action::Report(status));
    }
    plan.actions.extend(forgotten(observed).map(Action::Forget));
    plan
}

struct Timetable {
    schedule: Schedule,
    zone: TimeZone,
}

impl Timetable {
    fn of(cron_job: &CronJob) -> Result<Self, String> {
        let spec = &cron_job.spec;
        let schedule =
            Schedule::parse(&spec.schedule).map_err(|it| format!("spec.schedule: {it}"))?;
        let zone = match &spec.time_zone {
            None => TimeZone::UTC,
            Some(name) => find_zone(name).map_err(|it| format!("spec.timeZone: {it}"))?,
        };
        Ok(Self { schedule, zone })
    }

    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(time, &self.zone)
    }

    /// The last time in (`since`, `until`], or an error if there are too many to count.
    fn last_within(&self, since: Timestamp, until: Timestamp) -> Result<Option<Timestamp>, ()> {
        let mut last = None;
        for _ in 0..=MISSED_MAX {
            match self.next_after(last.unwrap_or(since)).filter(|it| *it <= until) {
                None => return Ok(last),
                next => last = next,
            }
        }
        Err(())
    }
}

fn active<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
    observed.jobs.iter().filter(|it| it.outcome == Outcome::GoesOn && !it.meta.is_deleting)
}

/// What is due is started, unless its Job is there or has to wait.
fn run(observed: &Observed<'_>, times: &Timetable, status: &mut Status, actions: &mut Vec<Action>) {
    let Observed { cron_job, now, .. } = *observed;
    let spec = &cron_job.spec;
    let told = status.last_schedule_time.unwrap_or(cron_job.created);
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let since = match deadline.and_then(|it| now.checked_sub(it).ok()) {
        Some(earliest) => told.max(earliest),
        None => told,
    };
    let due = match times.last_within(since, now) {
        Ok(Some(due)) => due,
        Ok(None) => return,
        Err(()) => {
            status.last_schedule_time = Some(now);
            let message = format!("more than {MISSED_MAX} runs since {since} were missed");
            actions.push(Action::Say(true, "TooManyMissedTimes", message));
            return;
        }
    };
    let is_there = observed.jobs.iter().any(|it| it.scheduled_at == Some(due));
    let others: Vec<_> = active(observed).filter(|it| it.scheduled_at != Some(due)).collect();
    if !is_there {
        match spec.concurrency_policy {
            // It is still due when the other one ends.
            ConcurrencyPolicy::Forbid if !others.is_empty() => return,
            ConcurrencyPolicy::Replace => {
                actions.extend(others.iter().map(|it| Action::Stop(it.meta.key.clone())));
                status.active.clear();
            }
            ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Allow => {}
        }
        let name = job_name(cron_job, due);
        actions.push(Action::Start(job(cron_job, &name, due)));
        let message = format!("started job {name}");
        actions.push(Action::Say(false, "JobStarted", message));
        status.active.push(name);
    }
    status.last_schedule_time = Some(due);
}

/// The same for the same time, so that no Job is started twice, however late the cache is.
fn job_name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron_job.meta.key.name, time.as_second())
}

fn job(cron_job: &CronJob, name: &str, time: Timestamp) -> Value {
    let template = &cron_job.spec.job_template;
    let mut metadata = json!({
        "name": name,
        "namespace": cron_job.meta.key.namespace,
        "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"],
        "ownerReferences": [{
            "apiVersion": format!("{GROUP}/v1"), "kind": KIND, "name": cron_job.meta.key.name,
            "uid": cron_job.meta.uid, "controller": true, "blockOwnerDeletion": true,
        }],
    });
    metadata["annotations"][SCHEDULED_AT] = json!(time);
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"],
    })
}

fn forgotten(observed: &Observed<'_>) -> impl Iterator<Item = ObjectKey> + use<> {
    let spec = &observed.cron_job.spec;
    let of = |outcome: Outcome, kept: usize| {
        let mut ended: Vec<&Arc<Job>> = observed
            .jobs
            .iter()
            .filter(|it| it.outcome == outcome && !it.meta.is_deleting)
            .collect();
        ended.sort_by_key(|it| std::cmp::Reverse(it.scheduled_at));
        ended.into_iter().skip(kept).map(|it| it.meta.key.clone()).collect::<Vec<_>>()
    };
    let succeeded = of(Outcome::Succeeded, spec.successful_jobs_history_limit);
    succeeded.into_iter().chain(of(Outcome::Failed, spec.failed_jobs_history_limit))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::Meta;
    use apimachinery::ObjectKey;
    use jiff::Timestamp;

    use super::{Action, Observed, plan};
    use crate::objects::{ConcurrencyPolicy, CronJob, Job, Outcome, Spec, Status};

    /// A time of the first of January 2026.
    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    /// Every ten minutes, made at 10:00.
    fn cron_job() -> CronJob {
        let meta = Meta { key: ObjectKey::new("default", "tick"), ..Meta::default() };
        let spec = Spec {
            schedule: "*/10 * * * *".to_owned(),
            successful_jobs_history_limit: 1,
            failed_jobs_history_limit: 1,
            ..Spec::default()
        };
        CronJob { meta: meta.into(), created: at("10:00:00"), spec, ..CronJob::default() }
    }

    fn job(time: &str, outcome: Outcome) -> Arc<Job> {
        let name = format!("tick-{}", at(time).as_second());
        let meta = Meta { key: ObjectKey::new("default", name), ..Meta::default() };
        Job { meta: meta.into(), scheduled_at: Some(at(time)), outcome }.into()
    }

    /// The name that a Job of this time has, as its time.
    fn time_of(name: &str) -> String {
        let second: i64 = name.strip_prefix("tick-").unwrap().parse().unwrap();
        Timestamp::from_second(second).unwrap().strftime("%H:%M").to_string()
    }

    fn check(cron_job: &CronJob, jobs: &[Arc<Job>], now: &str, expected: &[&str]) -> CronJob {
        let mut after = cron_job.clone();
        let plan = plan(&Observed { cron_job, jobs, now: at(now) });
        let said: Vec<String> = plan
            .actions
            .iter()
            .map(|it| match it {
                Action::Stop(key) => format!("stop {}", time_of(&key.name)),
                Action::Start(job) => {
                    format!("start {}", time_of(job["metadata"]["name"].as_str().unwrap()))
                }
                Action::Forget(key) => format!("forget {}", time_of(&key.name)),
                Action::Say(_, reason, _) => format!("say {reason}"),
                Action::Report(status) => {
                    after.status = status.clone();
                    format!("report {} active", status.active.len())
                }
            })
            .collect();
        assert_eq!(said, expected, "at {now}");
        after
    }

    #[test]
    fn a_job_is_started_once_for_each_time() {
        let new = check(&cron_job(), &[], "10:03:00", &["report 0 active"]);
        assert_eq!(new.status.next_schedule_time, Some(at("10:10:00")));
        let started = ["start 10:10", "say JobStarted", "report 1 active"];
        let told = check(&new, &[], "10:10:00", &started);
        let goes_on = [job("10:10:00", Outcome::GoesOn)];
        check(&told, &goes_on, "10:11:00", &[]);
        // A cache that shows neither: the name is the same, so nothing is made twice.
        check(&new, &[], "10:10:01", &started);
        // A cache that shows the Job alone.
        check(&new, &goes_on, "10:10:01", &["report 1 active"]);
        let ended = [job("10:10:00", Outcome::Succeeded)];
        check(&told, &ended, "10:12:00", &["report 0 active"]);
    }

    #[test]
    fn of_missed_times_the_last_is_made_up_for_within_the_deadline() {
        let mut late = cron_job();
        let started = ["start 10:30", "say JobStarted", "report 1 active"];
        check(&late, &[], "10:35:00", &started);
        late.spec.starting_deadline_seconds = Some(600);
        check(&late, &[], "10:35:00", &started);
        late.spec.starting_deadline_seconds = Some(60);
        check(&late, &[], "10:35:00", &["report 0 active"]);
        late.spec.starting_deadline_seconds = None;
        late.spec.schedule = "* * * * *".to_owned();
        let given_up = ["say TooManyMissedTimes", "report 0 active"];
        let given_up = check(&late, &[], "15:00:00", &given_up);
        check(&given_up, &[], "15:00:30", &[]);
    }

    #[test]
    fn who_goes_on_is_left_waited_for_or_replaced() {
        let goes_on = [job("10:10:00", Outcome::GoesOn)];
        let mut cron_job = cron_job();
        cron_job.status.last_schedule_time = Some(at("10:10:00"));
        check(
            &cron_job,
            &goes_on,
            "10:20:00",
            &["start 10:20", "say JobStarted", "report 2 active"],
        );
        cron_job.spec.concurrency_policy = ConcurrencyPolicy::Replace;
        let replaced = ["stop 10:10", "start 10:20", "say JobStarted", "report 1 active"];
        check(&cron_job, &goes_on, "10:20:00", &replaced);
        cron_job.spec.concurrency_policy = ConcurrencyPolicy::Forbid;
        let waits = check(&cron_job, &goes_on, "10:20:00", &["report 1 active"]);
        let ended = [job("10:10:00", Outcome::Failed)];
        let started = ["start 10:20", "say JobStarted", "report 1 active"];
        check(&waits, &ended, "10:24:00", &started);
    }

    #[test]
    fn history_is_kept_by_outcome_and_suspended_ones_start_nothing() {
        let mut cron_job = cron_job();
        cron_job.spec.suspend = true;
        let jobs = [
            job("10:10:00", Outcome::Succeeded),
            job("10:20:00", Outcome::Failed),
            job("10:30:00", Outcome::Succeeded),
            job("10:40:00", Outcome::Failed),
        ];
        check(&cron_job, &jobs, "11:00:00", &["forget 10:10", "forget 10:20"]);
    }

    #[test]
    fn what_cannot_be_read_is_said_and_what_goes_is_left_alone() {
        let mut cron_job = cron_job();
        cron_job.spec.schedule = "often".to_owned();
        check(&cron_job, &[], "10:20:00", &["say InvalidSchedule"]);
        cron_job = self::cron_job();
        cron_job.spec.time_zone = Some("Europe/Atlantis".to_owned());
        check(&cron_job, &[], "10:20:00", &["say InvalidSchedule"]);
        let meta = Meta { is_deleting: true, ..Meta::clone(&cron_job.meta) };
        cron_job.meta = meta.into();
        cron_job.status = Status::default();
        check(&cron_job, &[], "10:20:00", &[]);
    }
}
