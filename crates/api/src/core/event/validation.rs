//! What is wrong with an Event. Those with `eventTime` follow the newer, stricter rules.

use k8s_openapi::api::core::v1::Event;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::check::{self, text};

const NAME_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;

/// `component` is what the version that the event came in calls its `reportingComponent`.
pub(crate) fn validate(event: &Event, component: &str, errors: &mut FieldErrors) {
    let namespace = text(event.metadata.namespace.as_ref());
    let of_object = text(event.involved_object.namespace.as_ref());
    let is_new = event.event_time.is_some();
    let is_match = match (of_object, is_new) {
        ("", false) => ["", "default"].contains(&namespace),
        ("", true) => ["default", "kube-system"].contains(&namespace),
        (_, false) => namespace == of_object,
        (_, true) => true,
    };
    if !is_match {
        let path = Path::new("involvedObject").child("namespace");
        errors.invalid(&path, of_object, "does not match event.namespace");
    }
    if is_new {
        validate_new(event, &Path::new(component), errors);
    }
}

fn validate_new(event: &Event, path: &Path, errors: &mut FieldErrors) {
    let component = text(event.reporting_component.as_ref());
    if component.is_empty() {
        errors.required(path, "");
    }
    check::format(component, &is_qualified_name(component), path, errors);
    for (field, value) in [
        ("reportingInstance", &event.reporting_instance),
        ("action", &event.action),
        ("reason", &event.reason),
    ] {
        let value = text(value.as_ref());
        if value.is_empty() {
            errors.required(&Path::new(field), "");
        }
        validate_length(value, NAME_BYTES_MAX, &Path::new(field), errors);
    }
    let message = text(event.message.as_ref());
    validate_length(message, MESSAGE_BYTES_MAX, &Path::new("message"), errors);
}

fn validate_length(value: &str, max: usize, path: &Path, errors: &mut FieldErrors) {
    if value.len() > max {
        errors.invalid(path, "", &format!("can have at most {max} characters"));
    }
}
