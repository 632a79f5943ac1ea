//! Keeps a PersistentVolumeClaim that is being deleted for as long as a pod uses it.
//!
//! A key is a namespace: before claims are let go the server is asked for the pods there, since the
//! cache may be behind the scheduler, and one answer is good for all claims that go at once.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use api::core::{PersistentVolumeClaim, Pod};
use apimachinery::{ApiError, ObjectKey};
use client::{Api, ListOptions};
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::Step;
use crate::explanations::Explanations;
use crate::pods::{BY_VOLUME_CLAIM, index_by_volume_claim};
use crate::protection::{HOLD, explain};
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "persistentvolumeclaim-protection-controller",
    aliases: &["pvc-protection"],
    identity: "pvc-protection-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Index of claims that there is something to do about: their namespace.
const UNSETTLED: &str = "unsettled";

struct Protection {
    claims: Indexer<PersistentVolumeClaim>,
    pods: Indexer<PodView>,
    writes: Arc<OwnWrites<PersistentVolumeClaim, String>>,
    claims_api: Api<PersistentVolumeClaim>,
    pods_api: Api<Pod>,
    explanations: Arc<Explanations>,
    events: EventRecorder,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let explanations = Arc::new(Explanations::new(HOLD));
    let reconciler = Protection {
        claims: controller.indexed_cache(&[(UNSETTLED, unsettled)]),
        pods: controller.indexed_cache(&[(BY_VOLUME_CLAIM, index_by_volume_claim)]),
        writes: controller.own_writes(PATIENCE),
        claims_api: startup.client.api(),
        pods_api: startup.client.api(),
        explanations: explanations.clone(),
        events: startup.events(),
        clock: startup.world.clock.clone(),
    };
    controller
        .follows(move |change: Change<'_, PersistentVolumeClaim>, queue| {
            let claim = change.latest();
            if matches!(change, Change::Deleted(_)) {
                explanations.forget(&claim.key());
            }
            queue.add(claim.namespace().to_owned());
        })
        .watches(|it: &PodView| it.volume_claims.as_ref().map(|_| it.namespace().to_owned()))
        .run(reconciler);
}

fn unsettled(claim: &PersistentVolumeClaim) -> Vec<String> {
    let namespace = plan::is_unsettled(claim).then(|| claim.namespace().to_owned());
    namespace.into_iter().collect()
}

impl Reconciler for Protection {
    type Key = String;
    type Error = Failed;

    async fn reconcile(&self, namespace: &String) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(namespace) {
            return Ok(Next::After(wait));
        }
        // Before the pods are asked for: who is bound after that finds his claim going, and is not
        // started.
        let claims = self.claims.by_index(UNSETTLED, namespace);
        let mut live = None;
        let mut failure = None;
        let mut held: Option<Duration> = None;
        for claim in claims {
            let cached = self.pods.by_index(BY_VOLUME_CLAIM, &claim.key().to_string());
            let mut step = plan::plan(&claim, &cached, live.as_deref());
            if step == Step::AskServer {
                live = Some(self.bound_pods(namespace).await?);
                step = plan::plan(&claim, &cached, live.as_deref());
            }
            match self.take(namespace, &claim, step).await {
                Ok(left) => held = held.into_iter().chain(left).min(),
                // One that cannot be written is no reason to keep the others.
                Err(err) => failure = failure.or(Some(err)),
            }
        }
        match failure {
            Some(err) => Err(err),
            None => Ok(held.map_or(Next::Settled, Next::After)),
        }
    }
}

impl Protection {
    /// Those that have a node, as the server knows them now.
    async fn bound_pods(&self, namespace: &str) -> Result<Vec<Arc<PodView>>, Failed> {
        let bound = Some("spec.nodeName!=".to_owned());
        let options = ListOptions { field_selector: bound, ..ListOptions::default() };
        let failed = || Failed::to::<Pod>("list all of", &ObjectKey::new(namespace, ""));
        let list = self.pods_api.list(namespace, options).await.map_err(failed())?;
        let pods = list.items.iter().map(|it| it.view::<PodView>());
        let pods: Result<Vec<_>, _> = pods.collect();
        pods.map_err(|err| {
            failed()(ApiError::internal("an object cannot be decoded").with_source(err.to_string()))
        })
    }

    /// When to look again why the claim is kept.
    async fn take(
        &self,
        namespace: &String,
        claim: &Arc<PersistentVolumeClaim>,
        step: Step,
    ) -> Result<Option<Duration>, Failed> {
        let wanted = match step {
            Step::Rest | Step::AskServer => return Ok(None),
            Step::Keep(pods) => {
                let said = explain("pods", &pods);
                let now = self.clock.now();
                return Ok(self.explanations.tell(&self.events, &**claim, said, now));
            }
            Step::Write(wanted) => *wanted,
        };
        self.explanations.forget(&claim.key());
        let failed = Failed::to::<PersistentVolumeClaim>("set the finalizer of", &claim.key());
        if let Some(written) = self.claims_api.update(wanted).await.unless_gone().map_err(failed)? {
            self.writes.changed(namespace, claim, written.meta());
        }
        Ok(None)
    }
}
