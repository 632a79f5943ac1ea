//! APIServices: one for each group and version that is served here, made when a server starts and
//! kept right where definitions add and remove them. Each says whether what it stands for is
//! served.

mod registrations;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Lookup;
use api::apiregistration::APIService;
use api::apiregistration::api_service::availability::{self, Verdict};
use apimachinery::{ApiError, GroupResource, GroupVersion, ObjectKey};
use lifecycle::Shutdown;
use tokio::sync::Notify;

use self::registrations::{Step, Wanted, renew, step, step_at_start, wanted};
use crate::cache::Change;
use crate::own_calls;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of};
use crate::plan::Plan;
use crate::registry::Kinds;

/// Before one whose write failed is looked at again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What there has to be when this server lets the first client in.
pub(crate) fn plan_at_start(core: &Core, plan: &mut Plan) {
    let wanted = wanted(&core.registry.kinds());
    let lookup: &dyn Lookup = core.cache.as_ref();
    let now = core.world.clock.now();
    for found in lookup.all::<APIService>(None) {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        if step_at_start(Some(&found), wanted.get(name)) == Step::Delete {
            plan.remove(core, found.as_ref());
        }
    }
    for mut service in wanted.into_values() {
        availability::set(&mut service, Verdict::local(), now);
        plan.ensure(core, service, |found, wanted| {
            match step_at_start(Some(found), Some(wanted)) {
                Step::Update(mut better) => {
                    availability::set(&mut better, Verdict::local(), now);
                    Some(better)
                }
                Step::Keep | Step::Create(_) | Step::Delete => None,
            }
        });
    }
}

#[derive(Default)]
pub(crate) struct ApiServices {
    /// Names of those to look at.
    pending: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl ApiServices {
    fn enqueue(&self, names: impl IntoIterator<Item = String>) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    fn next(&self) -> Option<String> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }

    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        let mut generations = core.registry.generations();
        let mut again: BTreeSet<String> = BTreeSet::new();
        let mut wanted = Wanted::new();
        let mut seen: Option<Arc<Kinds>> = None;
        loop {
            generations.mark_unchanged();
            let kinds = core.registry.kinds();
            let changed = match &seen {
                Some(seen) => kinds.changed_since(seen),
                None => kinds.groups().keys().cloned().collect(),
            };
            for group in changed {
                self.enqueue(renew(&mut wanted, &kinds, &group));
            }
            seen = Some(kinds);
            while let Some(name) = self.next() {
                if let Err(err) = reconcile(&core, &name, wanted.get(&name)).await {
                    // Another server, or its author, was faster: what they wrote comes by here.
                    if !err.is_conflict() && !err.is_already_exists() && !err.is_not_found() {
                        tracing::warn!(%name, error = %err, "an APIService is not settled");
                    }
                    again.insert(name);
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                Ok(()) = generations.changed() => {}
                () = tokio::time::sleep(RETRY_AFTER), if !again.is_empty() => {
                    self.enqueue(std::mem::take(&mut again));
                }
            }
        }
    }
}

impl Hooks for ApiServices {
    fn of(&self) -> &'static [Of] {
        &[("apiregistration.k8s.io", "apiservices")]
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        self.enqueue([change.latest().meta.key.name.clone()]);
        self.changed.notify_one();
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let its = core.clone();
        core.tasks.spawn("api-services", |shutdown| self.run(its, shutdown));
    }
}

async fn reconcile(core: &Core, name: &str, wanted: Option<&APIService>) -> Result<(), ApiError> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let found = lookup.get::<APIService>(&ObjectKey::new("", name));
    match (step(found.as_deref(), wanted), found) {
        (Step::Create(service), _) => own_calls::create(core, service).await,
        (Step::Update(service), _) => own_calls::update(core, service, None).await,
        (Step::Delete, Some(found)) => own_calls::delete(core, found.as_ref()).await,
        // Of those that others serve, others see to that.
        (Step::Keep, Some(found)) => {
            let mut better = APIService::clone(&found);
            match verdict(core, &found) {
                Some(verdict) => availability::set(&mut better, verdict, core.world.clock.now()),
                None => return Ok(()),
            }
            if better == *found {
                return Ok(());
            }
            own_calls::update(core, better, Some("status")).await
        }
        (Step::Keep | Step::Delete, None) => Ok(()),
    }
}

/// What is known without asking anybody.
fn verdict(core: &Core, service: &APIService) -> Option<Verdict> {
    if availability::is_local(service) {
        return Some(Verdict::local());
    }
    let spec = service.spec.as_ref()?;
    let (group, version) = (spec.group.as_deref()?, spec.version.as_deref()?);
    if core.aggregated.find(&GroupVersion::new(group, version)).is_some() {
        return None;
    }
    let message = "this server serves the group and version itself, and passes nothing on";
    Some(Verdict::refused("NotProxied", message.to_owned()))
}
