//! A deletion that asks first. There are no disruption budgets yet, so nobody refuses.

use api::policy::Eviction;
use apimachinery::ApiError;
use client::{DeleteOptions, Preconditions, Propagation};

use crate::pipeline::{self, Body, Core, Outcome, Request};

pub(super) async fn evict(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let eviction: Eviction = pipeline::body_as(request)?;
    let (eviction, valid) = pipeline::admit_action(core, request, eviction).await?;
    let wanted = eviction.delete_options.unwrap_or_default();
    let preconditions = wanted.preconditions.unwrap_or_default();
    request.call.body = Body::Delete(DeleteOptions {
        grace_period_seconds: wanted.grace_period_seconds,
        propagation: match wanted.propagation_policy.as_deref() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            _ => None,
        },
        preconditions: Preconditions {
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        },
        dry_run: request.call.write.dry_run,
    });
    request.call.subresource = None;
    let is_dry_run = request.call.write.dry_run;
    pipeline::delete(core, request).await?;
    if !is_dry_run {
        valid.keep();
    }
    Ok((Outcome::Done(Box::default()), 201))
}
