//! The levels and schemas that the server makes and keeps: mandatory ones, without which a request
//! might match nothing, and suggested ones, which are whoever's who changes them.

mod levels;
mod maintain;
mod schemas;
#[cfg(test)]
mod tests;

pub use maintain::{is_unwanted, revised_level, revised_schema};

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::AUTO_UPDATE_ANNOTATION;

/// What the server does with an object that somebody has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// It is always as the server makes it.
    Mandatory,
    /// It is, unless somebody has said otherwise, by the annotation or by changing it.
    Suggested,
}

pub fn levels() -> Vec<(Upkeep, PriorityLevelConfiguration)> {
    levels::all()
}

pub fn schemas() -> Vec<(Upkeep, FlowSchema)> {
    schemas::all()
}

pub(super) fn mandatory_level(name: &str) -> Option<PriorityLevelConfiguration> {
    let is_it = |upkeep: &Upkeep, meta: &ObjectMeta| {
        *upkeep == Upkeep::Mandatory && meta.name.as_deref() == Some(name)
    };
    levels().into_iter().find(|(upkeep, it)| is_it(upkeep, &it.metadata)).map(|(_, it)| it)
}

pub(super) fn mandatory_schema(name: &str) -> Option<FlowSchema> {
    let is_it = |upkeep: &Upkeep, meta: &ObjectMeta| {
        *upkeep == Upkeep::Mandatory && meta.name.as_deref() == Some(name)
    };
    schemas().into_iter().find(|(upkeep, it)| is_it(upkeep, &it.metadata)).map(|(_, it)| it)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        annotations: Some([(AUTO_UPDATE_ANNOTATION.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    }
}
