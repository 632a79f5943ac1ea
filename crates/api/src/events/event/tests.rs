//! Manifest in; problems out. Conversions there and back.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Event;
use crate::kind::{Kind, Part, Resource, Typed};
use crate::version::Version;
use apimachinery::FieldErrors;

fn event(change: Value) -> core::Event {
    let mut event = json!({
        "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000001Z", "type": "Normal",
        "reportingController": "example.com/c", "reportingInstance": "c-1", "action": "Did", "reason": "Done", "note": "so",
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default"},
    });
    for (field, value) in change.as_object().unwrap() {
        event[field] = value.clone();
    }
    Event::decode(event.to_string().as_bytes()).unwrap().into_hub()
}

fn check(change: Value, expected: &[&str]) {
    let kind = Typed::<Event, core::Event>::new(crate::schema);
    let (event, mut errors) = (event(change), FieldErrors::new());
    kind.validate(&event, &mut errors);
    kind.validate_create(&event, &mut errors);
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

#[test]
fn new_events_say_when_who_and_what_and_nothing_of_the_old() {
    check(json!({}), &[]);
    check(json!({"eventTime": null}), &["eventTime: Required value"]);
    check(json!({"type": "Odd"}), &["type: Invalid value: \"\": has invalid value: Odd"]);
    check(
        json!({"reportingController": "", "reportingInstance": "", "action": ""}),
        &[
            "reportingController: Required value",
            "reportingController: Invalid value: \"\": name part must be non-empty",
            "reportingController: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "reportingInstance: Required value",
            "action: Required value",
        ],
    );
    check(
        json!({
            "deprecatedCount": 1, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedSource": {"component": "c"},
        }),
        &[
            "firstTimestamp: Invalid value: \"\": needs to be unset",
            "lastTimestamp: Invalid value: \"\": needs to be unset",
            "count: Invalid value: \"\": needs to be unset",
            "source: Invalid value: \"\": needs to be unset",
        ],
    );
    check(
        json!({"series": {"count": 1, "lastObservedTime": "0001-01-01T00:00:00.000000Z"}}),
        &[
            "series.count: Invalid value: \"\": should be at least 2",
            "series.lastObservedTime: Required value",
        ],
    );
}

#[test]
fn only_the_series_goes_on() {
    let stored = event(json!({}));
    let check = |change: Value, expected: &[&str]| {
        let (event, mut errors) = (event(change), FieldErrors::new());
        Event::validate_hub_update(&event, &stored, Part::Main, &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    };
    check(json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}}), &[]);
    check(json!({"note": "no"}), &["message: Invalid value: \"no\": field is immutable"]);
    check(
        json!({"reportingController": "other", "type": "Warning"}),
        &[
            "type: Invalid value: \"Warning\": field is immutable",
            "reportingController: Invalid value: \"other\": field is immutable",
        ],
    );
}

fn words() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[a-z]{1,8}")
}

prop_compose! {
    fn any_event()(
        action in words(), reason in words(), message in words(), component in words(), instance in words(), kind in words(),
        name in words(), host in words(), count in proptest::option::of(0..9), series in proptest::option::of((0..9, 1_i64..9)),
        time in proptest::option::of(1_i64..9),
    ) -> core::Event {
        let at = |it: i64| MicroTime(Timestamp::from_second(it).unwrap());
        core::Event {
            action, reason, message, count,
            reporting_component: component,
            reporting_instance: instance,
            involved_object: core::ObjectReference { kind: kind.clone(), name, ..Default::default() },
            source: host.map(|it| core::EventSource { host: Some(it), component: None }),
            related: kind.map(|it| core::ObjectReference { kind: Some(it), ..Default::default() }),
            series: series.map(|(count, time)| core::EventSeries { count: Some(count), last_observed_time: Some(at(time)) }),
            event_time: time.map(at),
            ..Default::default()
        }
    }
}

proptest! {
    #[test]
    fn an_event_is_the_same_in_both_groups(event in any_event()) {
        let back: core::Event = Event::from_hub(&event).into_hub();
        prop_assert_eq!(back, event);
    }
}
