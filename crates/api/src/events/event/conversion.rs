//! Every field has a counterpart in the core group, under the name that it had there first.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The zero of Go's times, which is what an absent one is where it must be there.
fn never() -> MicroTime {
    const FIRST_SECOND: i64 = -62_135_596_800;
    MicroTime(Timestamp::from_second(FIRST_SECOND).unwrap_or(Timestamp::MIN))
}

pub(super) fn to_core(event: Event) -> core::Event {
    core::Event {
        action: event.action,
        count: event.deprecated_count,
        event_time: event.event_time,
        first_timestamp: event.deprecated_first_timestamp,
        involved_object: event.regarding.unwrap_or_default(),
        last_timestamp: event.deprecated_last_timestamp,
        message: event.note,
        metadata: event.metadata,
        reason: event.reason,
        related: event.related,
        reporting_component: event.reporting_controller,
        reporting_instance: event.reporting_instance,
        series: event.series.map(|it| core::EventSeries {
            count: Some(it.count),
            last_observed_time: Some(it.last_observed_time).filter(|it| *it != never()),
        }),
        source: event.deprecated_source,
        type_: event.type_,
    }
}

pub(super) fn from_core(event: &core::Event) -> Event {
    let event = event.clone();
    Event {
        action: event.action,
        deprecated_count: event.count,
        deprecated_first_timestamp: event.first_timestamp,
        deprecated_last_timestamp: event.last_timestamp,
        deprecated_source: event.source,
        event_time: event.event_time,
        metadata: event.metadata,
        note: event.message,
        reason: event.reason,
        regarding: Some(event.involved_object),
        related: event.related,
        reporting_controller: event.reporting_component,
        reporting_instance: event.reporting_instance,
        series: event.series.map(|it| EventSeries {
            count: it.count.unwrap_or_default(),
            last_observed_time: it.last_observed_time.unwrap_or_else(never),
        }),
        type_: event.type_,
    }
}
