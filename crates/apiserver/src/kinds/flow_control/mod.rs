//! The levels and schemas of flow control that every cluster has: made at the start, and made right
//! again whenever somebody deletes one, or changes one that is not theirs.

use std::sync::Arc;
use std::time::Duration;

use api::flowcontrol::bootstrap::{is_unwanted, levels, revised_level, revised_schema, schemas};
use api::flowcontrol::flow_schema::with_dangling;
use api::flowcontrol::{FlowSchema, PriorityLevelConfiguration};
use api::{Lookup, Resource};
use apimachinery::{GroupResource, GroupVersionResource, ObjectKey};
use lifecycle::Shutdown;
use tokio::sync::Notify;

use crate::cache::Change;
use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{self, Core};
use crate::plan::Plan;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Before what could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct FlowControl {
    changed: Notify,
}

impl FlowControl {
    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let is_settled = settle(&core).await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(RETRY_AFTER), if !is_settled => {}
            }
        }
    }
}

impl Hooks for FlowControl {
    fn of(&self) -> &'static [Of] {
        &[(GROUP, "flowschemas"), (GROUP, "prioritylevelconfigurations")]
    }

    fn observe(&self, _resource: &GroupResource, _change: &Change) {
        self.changed.notify_one();
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        if is_served::<FlowSchema>(core) || is_served::<PriorityLevelConfiguration>(core) {
            let its = core.clone();
            core.tasks.spawn("flow-control-objects", |shutdown| self.run(its, shutdown));
        }
    }
}

/// Whether all is as it should be, as far as this server knows. Conditions come after what they
/// speak of.
async fn settle(core: &Core) -> bool {
    for make in [plan, plan_conditions] {
        let mut wanted = Plan::default();
        make(core, &mut wanted);
        match wanted.apply_singly(core).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(err) => {
                tracing::warn!(error = %stdx::error_chain(&err), "the objects of flow control could not be written");
                return false;
            }
        }
    }
    true
}

fn plan_conditions(core: &Core, plan: &mut Plan) {
    if !is_served::<FlowSchema>(core) || !is_served::<PriorityLevelConfiguration>(core) {
        return;
    }
    let lookup: &dyn Lookup = core.cache.as_ref();
    let now = pipeline::now(core).0;
    for schema in lookup.all::<FlowSchema>(None) {
        let spec = schema.spec.as_ref();
        let level = spec.map_or("", |it| it.priority_level_configuration.name.as_str());
        let level = lookup.get::<PriorityLevelConfiguration>(&ObjectKey::cluster(level));
        if let Some(better) = with_dangling(&schema, level.is_some(), now) {
            plan.revise(core, better);
        }
    }
}

fn is_served<T: Resource>(core: &Core) -> bool {
    let facts = T::FACTS;
    let resource = GroupVersionResource::new(facts.group, facts.version, facts.plural);
    core.registry.kinds().find(&resource).is_some()
}

/// What is missing, what is not as it should be, and what is none of this version's any more.
pub(crate) fn plan(core: &Core, plan: &mut Plan) {
    let lookup: &dyn Lookup = core.cache.as_ref();
    if is_served::<PriorityLevelConfiguration>(core) {
        let all = levels();
        let is_known = |name: &Option<String>| all.iter().any(|(_, it)| it.metadata.name == *name);
        for stored in lookup.all::<PriorityLevelConfiguration>(None) {
            if is_unwanted(&stored.metadata) && !is_known(&stored.metadata.name) {
                plan.remove(core, stored.as_ref());
            }
        }
        for (upkeep, level) in all {
            plan.ensure(core, level, |old, new| revised_level(upkeep, old, new));
        }
    }
    if is_served::<FlowSchema>(core) {
        let all = schemas();
        let is_known = |name: &Option<String>| all.iter().any(|(_, it)| it.metadata.name == *name);
        for stored in lookup.all::<FlowSchema>(None) {
            if is_unwanted(&stored.metadata) && !is_known(&stored.metadata.name) {
                plan.remove(core, stored.as_ref());
            }
        }
        for (upkeep, schema) in all {
            // Their levels are among those above.
            let schema = with_dangling(&schema, true, pipeline::now(core).0).unwrap_or(schema);
            plan.ensure(core, schema, |old, new| revised_schema(upkeep, old, new));
        }
    }
}
