//! A deletion that asks the pod's disruption budget first.
//!
//! A budget is spent by a compare-and-set of its status, so that no two evictions spend the same
//! disruption; where the budget need not be asked, the pod is deleted at the version that was
//! looked at. Upstream: pkg/registry/core/pod/storage/eviction.go.

mod budget;
mod options;
#[cfg(test)]
mod tests;

use std::time::Duration;

use admission::Valid;
use api::core::Pod;
use api::core::pod::conditions;
use api::policy::{Eviction, PodDisruptionBudget};
use apimachinery::selector::Labels;
use apimachinery::{ApiError, Reason};
use client::DeleteOptions;
use k8s_openapi::api::core::v1::PodCondition;

use self::budget::Guard;
use crate::own_calls;
use crate::pipeline::{self, Body, Core, Current, Outcome, Request, TRIES_MAX, preconditions};

/// How often a pod or a budget that somebody else wrote is looked at again, and after how long.
const RETRIES_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_JITTER: f64 = 0.1;

/// An eviction that was admitted.
struct Evicting<'a> {
    core: &'a Core,
    /// For the pod itself.
    request: &'a Request,
    /// As the client wants them.
    options: DeleteOptions,
    valid: &'a Valid,
}

pub(super) async fn evict(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    if let Body::Json(body) = &request.call.body
        && let Some(body) = options::from_beta(body)
    {
        request.call.body = Body::Json(body);
    }
    let eviction: Eviction = pipeline::body_as(request)?;
    options::validate_place(request.namespace(), request.name(), &eviction)?;
    let (eviction, valid) = pipeline::admit_action(core, request, eviction).await?;
    let options = options::merge(&eviction, request.call.write.dry_run)?;
    let is_dry_run = options.dry_run;
    request.call.subresource = None;
    Evicting { core, request, options, valid: &valid }.run().await?;
    if !is_dry_run {
        valid.keep();
    }
    Ok((Outcome::Done(Box::default()), 201))
}

fn pod_of(current: &Current) -> &Pod {
    current.object.downcast_ref().expect("the kind is Pod")
}

impl Evicting<'_> {
    async fn run(&self) -> Result<(), ApiError> {
        let Some(current) = self.delete_unless_guarded().await? else { return Ok(()) };
        let pod = pod_of(&current);
        let (budget, guard) = match self.matching(pod).await?.as_slice() {
            [] => return self.mark_and_delete(&self.options).await,
            [budget] => (budget.clone(), budget::guard(budget, pod)),
            _ => return Err(ApiError::new(Reason::Unknown, budget::SEVERAL)),
        };
        match guard {
            Guard::Counted => {
                self.spend(&budget).await?;
                self.mark_and_delete(&self.options).await
            }
            // It must not have become healthy meanwhile.
            Guard::Uncounted => {
                let name = budget.metadata.name.as_deref().unwrap_or_default();
                let deleted = self.mark_and_delete(&self.at_version_of(&current)).await;
                let is_ours = self.options.preconditions.resource_version.is_none();
                deleted.map_err(|err| match err.is_conflict() && is_ours {
                    true => budget::unsettled(name),
                    false => err,
                })
            }
        }
    }

    /// Deletes a pod that no budget counts. One that a budget may count is given back.
    async fn delete_unless_guarded(&self) -> Result<Option<Current>, ApiError> {
        let is_locked = self.options.preconditions.resource_version.is_some();
        for retry in 1.. {
            let current = pipeline::existing(self.core, self.request).await?;
            let pod = pod_of(&current);
            if !budget::is_unguarded(pod) {
                return Ok(Some(current));
            }
            let deleted = match is_locked || budget::is_over(pod) {
                true => self.mark_and_delete(&self.options).await,
                false => self.mark_and_delete(&self.at_version_of(&current)).await,
            };
            match deleted {
                Err(err) if err.is_conflict() && !is_locked && retry < RETRIES_MAX => {}
                Err(err) => return Err(err),
                Ok(()) => break,
            }
            self.pause().await;
        }
        Ok(None)
    }

    fn at_version_of(&self, current: &Current) -> DeleteOptions {
        let mut options = self.options.clone();
        let version = current.stored.meta.resource_version.to_string();
        options.preconditions.resource_version = Some(version);
        options
    }

    async fn pause(&self) {
        tokio::time::sleep(self.core.world.random.jitter(PAUSE, PAUSE_JITTER)).await;
    }

    /// The budgets that select the pod. A selector that is none selects nothing.
    async fn matching(&self, pod: &Pod) -> Result<Vec<PodDisruptionBudget>, ApiError> {
        let cache = &self.core.cache;
        cache.wait_current().await?;
        let kind = self.core.kind_of::<PodDisruptionBudget>();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let mut budgets = Vec::new();
        for stored in cache.snapshot(kind.as_ref(), Some(self.request.namespace()), "").objects {
            let budget = stored.shared::<PodDisruptionBudget>().map_err(|err| {
                ApiError::internal("a stored object cannot be read").with_source(err)
            })?;
            let selector = budget.spec.as_ref().and_then(|it| it.selector.as_ref());
            if Labels::from_selector(selector).is_ok_and(|it| it.matches(&labels)) {
                budgets.push((*budget).clone());
            }
        }
        Ok(budgets)
    }

    /// Takes one disruption from the budget, over the version of it that has one left.
    async fn spend(&self, found: &PodDisruptionBudget) -> Result<(), ApiError> {
        let core = self.core;
        let name = found.metadata.name.clone().unwrap_or_default();
        let mut budget = found.clone();
        for retry in 1.. {
            budget::spend(&mut budget, self.request.name(), pipeline::now(core).0)?;
            if self.options.dry_run {
                break;
            }
            match own_calls::update(core, budget, Some("status")).await {
                Err(err) if err.is_conflict() && retry < RETRIES_MAX => {}
                written => return written,
            }
            self.pause().await;
            core.cache.wait_current().await?;
            let latest = core.find_shared::<PodDisruptionBudget>(self.request.namespace(), &name);
            budget = (*latest?).clone();
        }
        Ok(())
    }

    /// Says in the pod's status why it goes, and deletes it.
    async fn mark_and_delete(&self, options: &DeleteOptions) -> Result<(), ApiError> {
        let mut options = options.clone();
        if !options.dry_run {
            let version = self.mark(&options).await?;
            // What was changed since was changed here.
            if let Some(wanted) = &mut options.preconditions.resource_version {
                *wanted = version.to_string();
            }
        }
        pipeline::delete_admitted(self.core, self.request, &options, self.valid).await
    }

    /// At which version the pod has its mark.
    async fn mark(&self, options: &DeleteOptions) -> Result<u64, ApiError> {
        let mut wanted = options.preconditions.clone();
        // An empty one is none here, other than for a deletion.
        for it in [&mut wanted.uid, &mut wanted.resource_version] {
            *it = it.take().filter(|it| !it.is_empty());
        }
        for _ in 0..TRIES_MAX {
            let current = pipeline::existing(self.core, self.request).await?;
            preconditions::validate_deletion(self.request, &wanted, &current)?;
            let mut pod = pod_of(&current).clone();
            let condition = PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: Some("EvictionByEvictionAPI".to_owned()),
                message: Some("Eviction API: evicting".to_owned()),
                ..PodCondition::default()
            };
            if !conditions::set(&mut pod, condition, pipeline::now(self.core).0) {
                return Ok(current.stored.meta.resource_version);
            }
            let marked = (Box::new(pod) as _, self.valid);
            let written =
                pipeline::write_directly(self.core, self.request, &current, marked).await?;
            if let Some(version) = written {
                return Ok(version);
            }
        }
        Err(self.request.modified())
    }
}
