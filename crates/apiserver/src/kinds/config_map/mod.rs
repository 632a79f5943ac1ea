//! The ConfigMap that says since when uses of tokens in Secrets are written down: whoever cleans
//! up must know for how long a token without a use had none.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::Lookup;
use api::core::ConfigMap;
use apimachinery::{ApiError, GroupResource, ObjectKey};
use jiff::Timestamp;
use lifecycle::Shutdown;
use tokio::sync::Notify;

use self::plan::{Action, NAME, NAMESPACE};
use crate::cache::Change;
use crate::own_calls;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of};
use crate::plan::Plan;

/// Before what could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Tracking {
    changed: Notify,
}

impl Hooks for Tracking {
    fn of(&self) -> &'static [Of] {
        &[("", "configmaps")]
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        let key = &change.latest().meta.key;
        if key.name == NAME && key.namespace == NAMESPACE {
            self.changed.notify_one();
        }
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let its = core.clone();
        core.tasks.spawn("legacy-token-tracking", |shutdown| self.run(its, shutdown));
    }
}

impl Tracking {
    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        let mut created = None;
        loop {
            let wait = match settle(&core, &mut created).await {
                Ok(wait) => wait,
                Err(err) => {
                    let error = stdx::error_chain(&err);
                    tracing::warn!(%error, "since when tokens are tracked could not be written");
                    Some(RETRY_AFTER)
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }
}

/// What a cluster starts with.
pub(crate) fn plan_at_start(core: &Core, writes: &mut Plan) {
    writes.ensure(core, plan::tracked_since(core.world.clock.now()), |_, _| None);
}

/// How long until there is something to do, if there will be.
async fn settle(
    core: &Core,
    created: &mut Option<Timestamp>,
) -> Result<Option<Duration>, ApiError> {
    let now = core.world.clock.now();
    let lookup: &dyn Lookup = core.cache.as_ref();
    let stored = lookup.get::<ConfigMap>(&ObjectKey::new(NAMESPACE, NAME));
    match plan::plan(stored.as_deref(), *created, now) {
        Action::Nothing => {}
        Action::Wait(left) => return Ok(Some(left)),
        Action::Create(map) => match own_calls::create(core, *map).await {
            Err(err) if !err.is_already_exists() => return Err(err),
            _ => *created = Some(now),
        },
        Action::Update(map) => match own_calls::update(core, *map, None).await {
            Err(err) if !err.is_not_found() && !err.is_conflict() => return Err(err),
            _ => {}
        },
    }
    Ok(None)
}
