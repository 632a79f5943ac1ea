//! What becomes of an object of the server's that is not as the server makes it.

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Upkeep;
use crate::flowcontrol::{AUTO_UPDATE_ANNOTATION, EXEMPT};
use crate::semantic;

/// A better form of what is stored; `None` if it is as it should be.
pub fn revised_schema(
    upkeep: Upkeep,
    stored: &FlowSchema,
    wanted: &FlowSchema,
) -> Option<FlowSchema> {
    let is_kept = is_kept(upkeep, &stored.metadata);
    let is_other = is_kept && !semantic::equal(&stored.spec, &wanted.spec);
    if !is_other && is_marked(&stored.metadata) == Some(is_kept) {
        return None;
    }
    let mut better = stored.clone();
    if is_other {
        better.spec.clone_from(&wanted.spec);
        next_generation(&mut better.metadata);
    }
    mark(&mut better.metadata, is_kept);
    Some(better)
}

/// The same of a level. What those who never wait count for is the administrator's.
pub fn revised_level(
    upkeep: Upkeep,
    stored: &PriorityLevelConfiguration,
    wanted: &PriorityLevelConfiguration,
) -> Option<PriorityLevelConfiguration> {
    let mut spec = wanted.spec.clone();
    if wanted.metadata.name.as_deref() == Some(EXEMPT)
        && let Some(own) = stored.spec.as_ref().and_then(|it| it.exempt.as_ref())
        && let Some(spec) = &mut spec
    {
        spec.exempt = Some(own.clone());
    }
    let is_kept = is_kept(upkeep, &stored.metadata);
    let is_other = is_kept && !semantic::equal(&stored.spec, &spec);
    if !is_other && is_marked(&stored.metadata) == Some(is_kept) {
        return None;
    }
    let mut better = stored.clone();
    if is_other {
        better.spec = spec;
        next_generation(&mut better.metadata);
    }
    mark(&mut better.metadata, is_kept);
    Some(better)
}

/// Whether an object that is none of the server's was one: an earlier version made it.
pub fn is_unwanted(meta: &ObjectMeta) -> bool {
    is_marked(meta) == Some(true)
}

/// Where nobody has said anything, an object that nobody has changed either is the server's.
fn is_kept(upkeep: Upkeep, meta: &ObjectMeta) -> bool {
    upkeep == Upkeep::Mandatory || is_marked(meta).unwrap_or_else(|| meta.generation == Some(1))
}

fn is_marked(meta: &ObjectMeta) -> Option<bool> {
    match meta.annotations.as_ref()?.get(AUTO_UPDATE_ANNOTATION)?.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn mark(meta: &mut ObjectMeta, is_kept: bool) {
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(AUTO_UPDATE_ANNOTATION.to_owned(), is_kept.to_string());
}

fn next_generation(meta: &mut ObjectMeta) {
    meta.generation = Some(meta.generation.unwrap_or(0) + 1);
}
