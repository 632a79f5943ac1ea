//! The generation of the template, which was a field of older versions. It stands in an annotation
//! that is the server's: it starts at 1 and grows with each change of the template.

use std::num::IntErrorKind;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::semantic;

const ANNOTATION: &str = "deprecated.daemonset.template.generation";
/// The definition of what is compared.
const TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";

fn value(object: &DaemonSet) -> Option<&String> {
    object.metadata.annotations.as_ref()?.get(ANNOTATION)
}

fn set(object: &mut DaemonSet, generation: i64) {
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION.to_owned(), generation.to_string());
}

pub(super) fn is_same(object: &DaemonSet, stored: &DaemonSet) -> bool {
    value(object) == value(stored)
}

/// The annotation is there whatever is sent: it stands for a field that has a zero.
pub(super) fn write(object: &mut DaemonSet) {
    if value(object).is_none() {
        set(object, 0);
    }
}

/// A new object may go on where another one ended. What is no number stays, to be refused.
pub(super) fn begin(object: &mut DaemonSet) {
    let given = value(object).map_or(Ok(1), |it| it.parse::<i64>());
    if let Ok(given) = given {
        set(object, given.max(1));
    }
}

pub(super) fn carry_on(object: &mut DaemonSet, stored: &DaemonSet) {
    let generation = value(stored).and_then(|it| it.parse::<i64>().ok()).unwrap_or(0);
    let template = |it: &Option<DaemonSetSpec>| it.as_ref().map(|it| it.template.clone());
    let (new, old) = (template(&object.spec), template(&stored.spec));
    let is_changed = !semantic::equal_as(TEMPLATE, &new, &old);
    set(object, if is_changed { generation.saturating_add(1) } else { generation });
}

/// Upstream reads the annotation into the field of its own form.
pub(super) fn conversion_error(object: &DaemonSet) -> Option<String> {
    let value = value(object)?;
    let problem = value.parse::<i64>().err()?;
    let why = match problem.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    Some(format!("strconv.ParseInt: parsing {value:?}: {why}"))
}

/// Of what did not come from a client.
pub(super) fn validate(object: &DaemonSet, errors: &mut FieldErrors) {
    if let Some(value) = value(object)
        && let Err(problem) = value.parse::<i64>()
    {
        let path = Path::new("metadata.annotations").key(ANNOTATION);
        errors.invalid(&path, value.as_str(), &problem.to_string());
    }
}
