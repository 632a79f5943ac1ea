//! What a CronJob does now: which Job it starts, which it replaces or forgets, what its status
//! says. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::batch::cron_job::CronJob;
use api::batch::job::{Job, conditions};
use apimachinery::cron::{Schedule, find_zone};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use reconcile::EventType;

use super::times::Rhythm;
use crate::explanations::{Explanation, list};
use crate::owners;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(super) struct Observed {
    pub cron_job: Arc<CronJob>,
    /// Those that it controls.
    pub jobs: Vec<Arc<Job>>,
    /// Uids in its status of Jobs that the server does not have.
    pub missing: BTreeSet<String>,
    pub now: Timestamp,
}

/// Carried out from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub events: Vec<Event>,
    /// Still running; the new one takes their place.
    pub replace: Vec<ObjectReference>,
    pub start: Option<Timestamp>,
    /// Without what is started or replaced.
    pub status: CronJobStatus,
    /// Finished, and older than the history that is kept.
    pub forget: Vec<Arc<Job>>,
    /// Until the next time; if one is started, as if that were done.
    pub wait: Option<Duration>,
    pub waits_for: Option<Wait>,
}

/// Why nothing is started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Suspended,
    Next {
        time: Timestamp,
        /// The last time that was due, when it was too late for it.
        missed: Option<Timestamp>,
    },
}

/// Times that are nearer are not told of: the Jobs of such a rhythm speak for themselves.
const NEAR: SignedDuration = SignedDuration::from_mins(10);

/// What the CronJob waits for, if that is worth a word: a reason and a sentence.
pub(super) fn explain(observed: &Observed, plan: &Plan) -> Option<Explanation> {
    let spec = &observed.cron_job.spec;
    Some(match plan.waits_for? {
        Wait::Suspended => {
            ("CronJobSuspended", "no Job is started while suspend is true".to_owned())
        }
        Wait::Next { time, missed: Some(missed) } => {
            let seconds = spec.starting_deadline_seconds.unwrap_or(0);
            let message = format!(
                "the Job of {missed} was not started: it is later than startingDeadlineSeconds \
                 ({seconds}) allows; the next Job is started at {time}"
            );
            ("DeadlineMissed", message)
        }
        Wait::Next { time, .. } if time.duration_since(observed.now) < NEAR => return None,
        Wait::Next { time, .. } => ("NextRun", format!("the next Job is started at {time}")),
    })
}

#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub kind: EventType,
    pub reason: &'static str,
    pub message: String,
}

fn normal(reason: &'static str, message: String) -> Event {
    Event { kind: EventType::Normal, reason, message }
}

fn warning(reason: &'static str, message: String) -> Event {
    Event { kind: EventType::Warning, reason, message }
}

pub(super) fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan {
        status: observed.cron_job.status.clone().unwrap_or_default(),
        forget: history(observed),
        ..Plan::default()
    };
    look_after(observed, &mut plan);
    if !owners::is_deleting(&observed.cron_job.metadata) {
        schedule(observed, &mut plan);
    }
    plan
}

fn end_of(job: &Job) -> Option<&'static str> {
    let status = job.status.as_ref()?;
    let ends = [conditions::COMPLETE, conditions::FAILED];
    ends.into_iter().find(|it| conditions::is_true(status, it))
}

/// Jobs that ended or vanished leave the status.
fn look_after(observed: &Observed, plan: &mut Plan) {
    let Plan { events, status, .. } = plan;
    let active = status.active.get_or_insert_default();
    let mut jobs = observed.jobs.clone();
    jobs.sort_by_key(|it| it.metadata.name.clone());
    for job in &jobs {
        let name = owners::name(&job.metadata);
        let position = active.iter().position(|it| it.uid == job.metadata.uid);
        match (end_of(job), position) {
            (None, None) => {
                let message =
                    format!("Saw a job that the controller did not create or forgot: {name}");
                events.push(warning("UnexpectedJob", message));
            }
            (Some(end), Some(position)) => {
                active.remove(position);
                let message = format!("Saw completed job: {name}, condition: {end}");
                events.push(normal("SawCompletedJob", message));
            }
            _ => {}
        }
        let completed = job.status.as_ref().and_then(|it| it.completion_time.as_ref());
        if let Some(time) = completed.filter(|_| end_of(job) == Some(conditions::COMPLETE))
            && status.last_successful_time.as_ref().is_none_or(|it| it.0 < time.0)
        {
            status.last_successful_time = Some(time.clone());
        }
    }
    active.retain(|it| {
        let is_missing = it.uid.as_ref().is_some_and(|uid| observed.missing.contains(uid));
        if is_missing {
            let name = it.name.as_deref().unwrap_or_default();
            events.push(normal("MissingJob", format!("Active job went missing: {name}")));
        }
        !is_missing
    });
    if active.is_empty() {
        status.active = None;
    }
}

fn schedule(observed: &Observed, plan: &mut Plan) {
    let spec = &observed.cron_job.spec;
    let zone = match find_zone(spec.time_zone.as_deref().unwrap_or_default()) {
        Ok(zone) => zone,
        Err(err) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            let message = format!("invalid timeZone: {name:?}: {err}");
            plan.events.push(warning("UnknownTimeZone", message));
            return;
        }
    };
    if spec.suspend == Some(true) {
        plan.waits_for = Some(Wait::Suspended);
        return;
    }
    if spec.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        plan.events.push(warning("UnsupportedSchedule", message));
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(err) => {
            let message = format!("unparseable schedule: {:?} : {err}", spec.schedule);
            plan.events.push(warning("UnparseableSchedule", message));
            return;
        }
    };
    let since = since(&observed.cron_job, &plan.status, observed.now);
    let rhythm = Rhythm { schedule: &schedule, zone: &zone, since, now: observed.now };
    plan.wait = rhythm.wait();
    let missed = rhythm.missed(spec.starting_deadline_seconds);
    let next = |it: &Rhythm<'_>, missed| Some(Wait::Next { time: it.coming()?, missed });
    plan.waits_for = next(&rhythm, missed);
    if let Some(time) = choose(observed, &rhythm, plan) {
        plan.start = Some(time);
        let rhythm = Rhythm { since: time, ..rhythm };
        plan.wait = rhythm.wait();
        plan.waits_for = next(&rhythm, None);
    }
}

fn since(cron_job: &CronJob, status: &CronJobStatus, now: Timestamp) -> Timestamp {
    let last = status.last_schedule_time.as_ref();
    last.or(cron_job.metadata.creation_timestamp.as_ref()).map_or(now, |it| it.0)
}

/// The time that a Job is to be started for.
fn choose(observed: &Observed, rhythm: &Rhythm<'_>, plan: &mut Plan) -> Option<Timestamp> {
    let spec = &observed.cron_job.spec;
    let deadline = spec.starting_deadline_seconds;
    let due = match rhythm.due(deadline) {
        Ok(due) => due,
        Err(err) => {
            let message = format!("invalid schedule: {} : {err}", spec.schedule);
            plan.events.push(warning("InvalidSchedule", message));
            plan.wait = None;
            return None;
        }
    };
    let time = due.time?;
    if due.has_missed_many() {
        let message = "too many missed start times. Set or decrease \
                       .spec.startingDeadlineSeconds or check clock skew";
        plan.events.push(warning("TooManyMissedTimes", message.to_owned()));
    }
    let late = observed.now.duration_since(time);
    if deadline.is_some_and(|it| late > SignedDuration::from_secs(it)) {
        let time = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        let message = format!("Missed scheduled time to start a job: {time}");
        plan.events.push(warning("MissSchedule", message));
        return None;
    }
    let active = plan.status.active.as_deref().unwrap_or_default();
    let name = job_name(&observed.cron_job, time);
    let is_started = active.iter().any(|it| it.name.as_ref() == Some(&name));
    if is_started || plan.status.last_schedule_time.as_ref().is_some_and(|it| it.0 == time) {
        return None;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let running: Vec<_> = active.iter().filter_map(|it| it.name.clone()).collect();
            let message = format!(
                "Not starting job because prior execution is running and concurrency policy is \
                 Forbid: {}",
                list(&running)
            );
            plan.events.push(normal("JobAlreadyActive", message));
            return None;
        }
        Some("Replace") => plan.replace = plan.status.active.take().unwrap_or_default(),
        _ => {}
    }
    Some(time)
}

/// The finished Jobs that are too many, the oldest first.
fn history(observed: &Observed) -> Vec<Arc<Job>> {
    let spec = &observed.cron_job.spec;
    let mut forget = Vec::new();
    for (end, limit) in [
        (conditions::COMPLETE, spec.successful_jobs_history_limit),
        (conditions::FAILED, spec.failed_jobs_history_limit),
    ] {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<_> =
            observed.jobs.iter().filter(|it| end_of(it) == Some(end)).cloned().collect();
        ended.retain(|it| !owners::is_deleting(&it.metadata));
        let started =
            |it: &Job| it.status.as_ref().and_then(|it| it.start_time.clone()).map(|it| it.0);
        // Those that never started are the youngest.
        ended.sort_by_key(|it| (started(it).is_none(), started(it), it.metadata.name.clone()));
        let excess = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        forget.extend(ended.into_iter().take(excess));
    }
    forget
}

pub(super) fn job_name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", owners::name(&cron_job.metadata), time.as_second() / 60)
}

/// The Job of one time. It has the same name whoever makes it, so there is one.
pub(super) fn job(cron_job: &CronJob, time: Timestamp) -> Job {
    let template = &cron_job.spec.job_template;
    let meta = template.metadata.clone().unwrap_or_default();
    let zone = find_zone(cron_job.spec.time_zone.as_deref().unwrap_or_default());
    let mut annotations = meta.annotations.unwrap_or_default();
    let said = in_zone(time, zone.unwrap_or(TimeZone::UTC));
    annotations.insert(SCHEDULED.to_owned(), said);
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron_job, time)),
            namespace: cron_job.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            creation_timestamp: Some(Time(time)),
            owner_references: Some(vec![owners::controller_reference(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

fn in_zone(time: Timestamp, zone: TimeZone) -> String {
    let time = time.to_zoned(zone);
    let offset = if time.offset() == Offset::UTC { "Z" } else { "%:z" };
    time.strftime(&format!("%Y-%m-%dT%H:%M:%S{offset}")).to_string()
}

/// How long a changed schedule waits for its next time.
pub(super) fn wait_for_next(cron_job: &CronJob, now: Timestamp) -> Option<Duration> {
    let schedule = Schedule::parse(&cron_job.spec.schedule).ok()?;
    let zone = find_zone(cron_job.spec.time_zone.as_deref().unwrap_or_default()).ok()?;
    let status = cron_job.status.clone().unwrap_or_default();
    let since = since(cron_job, &status, now);
    Rhythm { schedule: &schedule, zone: &zone, since, now }.wait()
}
