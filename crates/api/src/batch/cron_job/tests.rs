//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::CronJob;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn cron_job(extra: Value) -> Value {
    let mut spec = json!({
        "schedule": "*/5 * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "b:1"}],
        }}}},
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": "tick", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

#[test]
fn a_minimal_one_gets_its_defaults_and_its_jobs_do_not() {
    let default =
        |pointer, expected| check_created::<CronJob>(cron_job(json!({})), pointer, expected);
    default("/spec/concurrencyPolicy", json!("Allow"));
    default("/spec/suspend", json!(false));
    default("/spec/successfulJobsHistoryLimit", json!(3));
    default("/spec/failedJobsHistoryLimit", json!(1));
    default("/spec/jobTemplate/metadata", json!({}));
    default("/spec/jobTemplate/spec/backoffLimit", Value::Null);
    default("/spec/jobTemplate/spec/template/spec/dnsPolicy", json!("ClusterFirst"));
    default("/status", json!({}));
    check::<CronJob>(cron_job(json!({})), &[]);
}

#[test]
fn a_schedule_can_be_read() {
    for schedule in ["@hourly", "@every 5m", "0 9-17/2 ? jan-mar MON,wed", "59 23 31 12 6"] {
        check::<CronJob>(cron_job(json!({"schedule": schedule})), &[]);
    }
    check::<CronJob>(cron_job(json!({"schedule": ""})), &["spec.schedule: Required value"]);
    check::<CronJob>(
        cron_job(json!({"schedule": "error"})),
        &["spec.schedule: Invalid value: \"error\": expected exactly 5 fields, found 1: [error]"],
    );
    check::<CronJob>(
        cron_job(json!({"schedule": "0 0 * * 7"})),
        &["spec.schedule: Invalid value: \"0 0 * * 7\": end of range (7) above maximum (6): 7"],
    );
}

#[test]
fn the_zone_is_a_field_of_its_own() {
    let schedule = "TZ=UTC 0 * * * *";
    let with_zone = || cron_job(json!({"schedule": schedule}));
    let refused = "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    check::<CronJob>(with_zone(), &[refused]);
    // Those that are there from before stay.
    let stored = created::<CronJob>(with_zone());
    check_update(&stored, with_zone(), Part::Main, &[]);
    check_update(
        &stored,
        cron_job(json!({"schedule": schedule, "timeZone": "UTC"})),
        Part::Main,
        &[
            "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use both timeZone field and TZ or CRON_TZ in schedule",
        ],
    );
    let stored = created::<CronJob>(cron_job(json!({})));
    check_update(&stored, with_zone(), Part::Main, &[refused]);
    check::<CronJob>(
        cron_job(json!({"schedule": "TZ=0"})),
        &[
            "spec.schedule: Invalid value: \"TZ=0\": invalid schedule format: runtime error: slice bounds out of range [:-1]",
            "spec.schedule: Invalid value: \"TZ=0\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ],
    );
}

#[test]
fn a_zone_is_one_of_the_database() {
    let refused = |zone: &str, details: &[&str]| {
        let expected: Vec<String> = details
            .iter()
            .map(|it| format!("spec.timeZone: Invalid value: {zone:?}: {it}"))
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<CronJob>(cron_job(json!({"timeZone": zone})), &expected);
    };
    for zone in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"] {
        refused(zone, &[]);
    }
    let local =
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    refused("", &["timeZone must be nil or non-empty string"]);
    refused("Local", &[local]);
    refused("LOCAL", &[local, "unknown time zone LOCAL"]);
    for zone in ["Mars/Phobos", "../UTC", "/UTC", "-UTC", "asia/tokyo", "Continent/Zone Name"] {
        refused(zone, &[&format!("unknown time zone {zone}")]);
    }
    refused("Europe/Ber..lin", &["time: invalid location name"]);
    // One that the database once had stays.
    let stored = defaulted::<CronJob>(cron_job(json!({"timeZone": "Mars/Phobos"})));
    let changed = cron_job(json!({"timeZone": "Mars/Phobos", "suspend": true}));
    check_update(&stored, changed, Part::Main, &[]);
}

#[test]
fn numbers_and_policies_have_their_forms() {
    check::<CronJob>(
        cron_job(json!({
            "startingDeadlineSeconds": -1, "concurrencyPolicy": "Perhaps",
            "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1,
        })),
        &[
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.concurrencyPolicy: Unsupported value: \"Perhaps\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn jobs_get_selectors_of_their_own() {
    let mut manifest = cron_job(json!({}));
    let job = &mut manifest["spec"]["jobTemplate"]["spec"];
    job["selector"] = json!({"matchLabels": {"a": "b"}});
    job["manualSelector"] = json!(true);
    job["parallelism"] = json!(-1);
    job["template"]["spec"].as_object_mut().unwrap().remove("restartPolicy");
    check::<CronJob>(
        manifest,
        &[
            "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
        ],
    );
}

#[test]
fn a_name_leaves_room_for_those_of_jobs() {
    let named = |n_bytes: usize| {
        let mut manifest = cron_job(json!({}));
        manifest["metadata"]["name"] = json!("a".repeat(n_bytes));
        manifest
    };
    check::<CronJob>(named(52), &[]);
    let name = "a".repeat(53);
    let refused =
        format!("metadata.name: Invalid value: \"{name}\": must be no more than 52 characters");
    check::<CronJob>(named(53), &[&refused]);
    // Older ones can be written on.
    check_update(&created::<CronJob>(named(53)), named(53), Part::Main, &[]);
}

#[test]
fn any_status_will_do() {
    let stored = created::<CronJob>(cron_job(json!({})));
    let mut update = cron_job(json!({"schedule": "nonsense"}));
    update["status"] = json!({"active": [{"name": "tick-1"}]});
    check_update(&stored, update, Part::Status, &[]);
}

#[test]
fn warnings_say_what_may_surprise() {
    let object = created::<CronJob>(cron_job(json!({"schedule": "TZ=UTC @daily"})));
    let zone = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
    assert!(object.warnings().is_empty());
    assert_eq!(object.update_warnings(&object, Part::Main), [zone]);
    let mut manifest = cron_job(json!({}));
    manifest["metadata"]["name"] = json!("tick.tock");
    let object = created::<CronJob>(manifest);
    assert!(object.update_warnings(&object, Part::Main).is_empty());
    let named = &object.warnings()[0];
    assert!(named.starts_with("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"), "{named}");
}

#[test]
fn the_row_shows_when_it_ran() {
    let mut manifest = cron_job(json!({"timeZone": "Asia/Tokyo"}));
    manifest["status"] =
        json!({"active": [{"name": "a"}], "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let row = |manifest, expected| check_row::<CronJob>(manifest, "2026-01-01T00:05:10Z", expected);
    row(
        manifest,
        json!([
            "tick",
            "*/5 * * * *",
            "Asia/Tokyo",
            "False",
            1,
            "10s",
            "5m10s",
            "a",
            "b:1",
            "<none>"
        ]),
    );
    row(
        cron_job(json!({"suspend": true})),
        json!([
            "tick",
            "*/5 * * * *",
            "<none>",
            "True",
            0,
            "<none>",
            "5m10s",
            "a",
            "b:1",
            "<none>"
        ]),
    );
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": ""}]});
    check::<CronJob>(
        cron_job(json!({
            "schedule": "",
            "startingDeadlineSeconds": -1,
            "timeZone": "",
            "concurrencyPolicy": "Other",
            "jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": pod}}},
            "successfulJobsHistoryLimit": -1,
            "failedJobsHistoryLimit": -1,
        })),
        &[
            "spec.schedule: Required value",
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
            "spec.concurrencyPolicy: Unsupported value: \"Other\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.jobTemplate.spec.template.spec.containers[0].image: Required value",
            "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}
