//! What is wrong with an Event that comes in by this group, beside what would be wrong with every
//! other. Paths are those of the core group, as clients know them.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::check::{self, text};
use crate::codec;

pub(super) fn validate_create(event: &Event, errors: &mut FieldErrors) {
    validate_series(event, errors);
    if event.event_time.is_none() {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = text(event.type_.as_ref());
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid(&Path::new("type"), "", &format!("has invalid value: {kind}"));
    }
    let source = event.source.as_ref();
    let names = source.map(|it| (text(it.component.as_ref()), text(it.host.as_ref())));
    for (field, is_set) in [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count.unwrap_or(0) != 0),
        ("source", names.is_some_and(|it| it != ("", ""))),
    ] {
        if is_set {
            errors.invalid(&Path::new(field), "", "needs to be unset");
        }
    }
}

/// Only the series goes on.
pub(super) fn validate_update(event: &Event, stored: &Event, errors: &mut FieldErrors) {
    if event.series != stored.series {
        validate_series(event, errors);
    }
    let (new, old) = (fixed(event), fixed(stored));
    for ((field, new), (_, old)) in new.into_iter().zip(old) {
        check::immutable(new == old, new, &Path::new(field), errors);
    }
}

fn validate_series(event: &Event, errors: &mut FieldErrors) {
    let Some(series) = &event.series else { return };
    if series.count.unwrap_or(0) < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    let observed = series.last_observed_time.as_ref();
    if observed.is_none_or(|it| codec::is_zero_time(it.0)) {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// What an update may not change. Times below a microsecond do not count: clients lose them on the
/// way (kubernetes/kubernetes#111928).
fn fixed(event: &Event) -> [(&'static str, Value); 14] {
    let words = |it: &Option<String>| Value::from(text(it.as_ref()));
    let time = |it: &Option<Time>| it.as_ref().map_or(Value::Null, |it| it.0.to_string().into());
    let precise = |it: &MicroTime| format!("{:.6}", it.0).into();
    let related = event.related.as_ref().map_or(Value::Null, codec::tree);
    [
        ("involvedObject", codec::tree(&event.involved_object)),
        ("reason", words(&event.reason)),
        ("message", words(&event.message)),
        ("source", codec::tree(&event.source.clone().unwrap_or_default())),
        ("firstTimestamp", time(&event.first_timestamp)),
        ("lastTimestamp", time(&event.last_timestamp)),
        ("count", event.count.unwrap_or(0).into()),
        // Upstream looks twice.
        ("reason", words(&event.reason)),
        ("type", words(&event.type_)),
        ("eventTime", event.event_time.as_ref().map_or(Value::Null, precise)),
        ("action", words(&event.action)),
        ("related", related),
        ("reportingController", words(&event.reporting_component)),
        ("reportingInstance", words(&event.reporting_instance)),
    ]
}
