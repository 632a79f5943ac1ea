//! ClusterRoles that have the rules of others: written by server-side apply, so that whoever else
//! owns something of the role keeps it.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::rbac::ClusterRole;
use apimachinery::{GroupVersionResource, ObjectKey};
use client::{DynamicApi, PatchKind, WriteOptions};
use informer::Indexer;
use reconcile::{Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler};
use serde_json::json;

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["clusterrole-aggregation"],
    identity: NAME,
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Also that of the manager of the fields that it applies.
const NAME: &str = "clusterrole-aggregation-controller";
const WORKERS: usize = 5;

struct Aggregation {
    roles: Indexer<ClusterRole>,
    api: DynamicApi,
    writes: Arc<OwnWrites<ClusterRole>>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let roles: Indexer<ClusterRole> = controller.cache();
    let resource = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
    let reconciler = Aggregation {
        roles: roles.clone(),
        api: startup.client.dynamic(resource),
        writes: controller.own_writes(PATIENCE),
    };
    controller
        .follows(move |change: Change<'_, ClusterRole>, queue| {
            if let Change::Updated { before, after } = change
                && plan::is_same(before, after)
            {
                return;
            }
            // Which roles select it is known when they are looked at; there are few.
            let aggregated = |it: &&Arc<ClusterRole>| it.aggregation_rule.is_some();
            roles.list().iter().filter(aggregated).for_each(|it| queue.add(it.key()));
            change.after().filter(aggregated).into_iter().for_each(|it| queue.add(it.key()));
        })
        .workers(WORKERS)
        .run(reconciler);
}

impl Reconciler for Aggregation {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(role) = self.roles.get(key) else { return Ok(Next::Settled) };
        let all = plan::sorted(self.roles.list());
        let Some(rules) = plan::plan(&role, &all) else { return Ok(Next::Settled) };
        // With its uid: a role that was made anew since is another one.
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": key.name, "uid": role.metadata.uid }, "rules": rules,
        });
        let options = WriteOptions {
            field_manager: Some(NAME.to_owned()),
            force: true,
            ..WriteOptions::default()
        };
        let body = applied.to_string().into();
        let written = self.api.patch("", &key.name, PatchKind::Apply, body, options).await;
        let written = written.unless_replaced();
        if let Some(written) = written.map_err(Failed::to::<ClusterRole>("apply", key))? {
            self.writes.wrote(key, &written.meta);
        }
        Ok(Next::Settled)
    }
}
