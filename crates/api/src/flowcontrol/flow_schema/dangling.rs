//! Whether the level that a schema names is there: a condition that the server keeps.

use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, FlowSchemaCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::check::text;

pub(super) const DANGLING: &str = "Dangling";

/// The schema with the condition as it should be; `None` if it is so already.
pub fn with_dangling(schema: &FlowSchema, has_level: bool, now: Timestamp) -> Option<FlowSchema> {
    let wanted = condition(schema, has_level, now);
    let mut better = schema.clone();
    let status = better.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|it| text(it.type_.as_ref()) == DANGLING) {
        Some(found) if found.status == wanted.status && found.message == wanted.message => None,
        Some(found) => {
            *found = wanted;
            Some(better)
        }
        None => {
            conditions.push(wanted);
            Some(better)
        }
    }
}

fn condition(schema: &FlowSchema, has_level: bool, now: Timestamp) -> FlowSchemaCondition {
    let spec = schema.spec.as_ref();
    let level = spec.map_or("", |it| it.priority_level_configuration.name.as_str());
    let (status, reason, rest) = match has_level {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level:?} {rest}"
    );
    FlowSchemaCondition {
        type_: Some(DANGLING.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
    }
}
