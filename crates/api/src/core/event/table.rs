//! Events in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;
use crate::check::text;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("Last Seen", "string"),
    Column::new("Type", "string"),
    Column::new("Reason", "string"),
    Column::new("Object", "string"),
    Column::new("Subobject", "string").wide(),
    Column::new("Source", "string").wide(),
    Column::new("Message", "string"),
    Column::new("First Seen", "string").wide(),
    Column::new("Count", "string").wide(),
    Column::name().wide(),
];

pub(super) fn row(event: &Event, now: Timestamp) -> Vec<Value> {
    let first = match &event.first_timestamp {
        Some(time) => cell::since(Some(time), now),
        None => cell::since_micro(event.event_time.as_ref(), now),
    };
    let mut last = match &event.last_timestamp {
        Some(time) => cell::since(Some(time), now),
        None => first.clone(),
    };
    // Events of the newer API that happened once have no count.
    let mut count = event.count.filter(|it| *it != 0).unwrap_or(1);
    if let Some(series) = &event.series {
        last = cell::since_micro(series.last_observed_time.as_ref(), now);
        count = series.count.unwrap_or(0);
    }
    vec![
        Value::from(last),
        Value::from(text(event.type_.as_ref())),
        Value::from(text(event.reason.as_ref())),
        Value::from(object(event)),
        Value::from(text(event.involved_object.field_path.as_ref())),
        Value::from(source(event)),
        Value::from(text(event.message.as_ref()).trim()),
        Value::from(first),
        Value::from(count),
        cell::name(&event.metadata),
    ]
}

fn object(event: &Event) -> String {
    let kind = text(event.involved_object.kind.as_ref()).to_lowercase();
    match text(event.involved_object.name.as_ref()) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// `kubelet, node-1`
fn source(event: &Event) -> String {
    let source = event.source.as_ref();
    let first_set = |old: Option<&String>, new: Option<&String>| match text(old) {
        "" => text(new).to_owned(),
        old => old.to_owned(),
    };
    let component =
        first_set(source.and_then(|it| it.component.as_ref()), event.reporting_component.as_ref());
    let host = first_set(source.and_then(|it| it.host.as_ref()), event.reporting_instance.as_ref());
    if host.is_empty() { component } else { format!("{component}, {host}") }
}
