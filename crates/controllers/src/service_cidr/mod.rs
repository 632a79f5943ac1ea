//! ServiceCIDRs: a range is protected and ready from the start, and one that is deleted goes when
//! no Service needs it any more, and a while after that, so that every API server knows.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::networking::{IPAddress, ServiceCIDR};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
};
use serde_json::{Value, json};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Observed};
use crate::{Descriptor, Flags, RETRIES_MAX, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "service-cidr-controller",
    aliases: &[],
    identity: "service-cidrs-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

const WORKERS: usize = 5;

struct ServiceCidrs {
    ranges: Indexer<ServiceCIDR>,
    addresses: Indexer<IPAddress>,
    api: Api<ServiceCIDR>,
    own_writes: Arc<OwnWrites<ServiceCIDR>>,
    events: EventRecorder,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let ranges: Indexer<ServiceCIDR> = controller.cache();
    let reconciler = ServiceCidrs {
        ranges: ranges.clone(),
        addresses: controller.cache(),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        events: startup.events(),
        clock: startup.world.clock.clone(),
    };
    let others = ranges.clone();
    controller
        .follows(move |change: Change<'_, ServiceCIDR>, queue| {
            queue.add(change.latest().key());
            // One more range may be what another one waits for.
            leaving(&others).for_each(|it| queue.add(it));
        })
        .follows(move |change: Change<'_, IPAddress>, queue| {
            if !matches!(change, Change::Updated { .. }) && plan::is_managed(change.latest()) {
                leaving(&ranges).for_each(|it| queue.add(it));
            }
        })
        .workers(WORKERS)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

/// There are few ranges, and hardly ever one of these.
fn leaving(ranges: &Indexer<ServiceCIDR>) -> impl Iterator<Item = ObjectKey> {
    let all = ranges.list().into_iter();
    all.filter(|it| owners::is_deleting(&it.metadata)).map(|it| it.key())
}

impl Reconciler for ServiceCidrs {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(range) = self.ranges.get(key) else { return Ok(Next::Settled) };
        let is_leaving = owners::is_deleting(&range.metadata);
        let observed = Observed {
            range: range.clone(),
            ranges: if is_leaving { self.ranges.list() } else { Vec::new() },
            addresses: if is_leaving { self.addresses.list() } else { Vec::new() },
            now: self.clock.now(),
        };
        let plan = plan::plan(&observed);
        for action in plan.actions {
            self.apply(key, &range, action).await?;
        }
        Ok(plan.wait.map_or(Next::Settled, Next::After))
    }
}

impl ServiceCidrs {
    async fn apply(
        &self,
        key: &ObjectKey,
        range: &ServiceCIDR,
        action: Action,
    ) -> Result<(), Failed> {
        match action {
            Action::Protect(finalizers) => {
                // A merge of lists: over the state that was seen, so that nobody's is lost.
                let version = range.version().to_string();
                let meta = json!({"finalizers": finalizers, "resourceVersion": version});
                self.patch(key, range, json!({"metadata": meta})).await
            }
            Action::SetReady(condition) => self.set_ready(key, range, &condition).await,
        }
    }

    async fn patch(&self, key: &ObjectKey, range: &ServiceCIDR, body: Value) -> Result<(), Failed> {
        let body = body.to_string().into();
        let patched = self.api.patch("", &key.name, PatchKind::Merge, body).await.unless_gone();
        let patched = patched.map_err(Failed::to::<ServiceCIDR>("set the finalizer of", key))?;
        if let Some(patched) = patched {
            self.own_writes.changed(key, range, patched.meta());
        }
        Ok(())
    }

    async fn set_ready(
        &self,
        key: &ObjectKey,
        range: &ServiceCIDR,
        condition: &Condition,
    ) -> Result<(), Failed> {
        let condition = json!({
            "type": condition.type_, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": condition.last_transition_time,
        });
        let body = json!({
            "metadata": {"uid": range.uid()},
            "status": {"conditions": [condition]},
        });
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        let patched = self.api.patch_status("", &key.name, kind, body).await;
        match patched.unless_replaced() {
            Ok(Some(patched)) => self.own_writes.changed(key, range, patched.meta()),
            Ok(None) => {}
            Err(err) => {
                let message = "The ServiceCIDR Status can not be set to Ready=True".to_owned();
                if !owners::is_deleting(&range.metadata) {
                    let reason = "KubernetesServiceCIDRError";
                    self.events.event(range, EventType::Warning, reason, message);
                }
                return Err(Failed::to::<ServiceCIDR>("set the condition of", key)(err));
            }
        }
        Ok(())
    }
}
