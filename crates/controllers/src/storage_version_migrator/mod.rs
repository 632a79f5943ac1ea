//! Carries out StorageVersionMigrations: every object of a resource is written again as it is, so
//! that the store has it in the version that is stored now.
//!
//! Three steps, each in the status, so that a new leader goes on where the last one was: one
//! migration of the resource runs; the revision of that moment is noted; objects that were written
//! before it are written again, page by page. What has a later revision is right already, also
//! when all begins anew.

mod garbage;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::apiextensions::CustomResourceDefinition;
use api::storagemigration::StorageVersionMigration;
use api::{Identified as _, Stored};
use apimachinery::{ApiError, GroupResource, GroupVersionResource, ObjectKey, Scope};
use client::{Api, Client, Discovered, DynamicApi, ListOptions, PatchKind, WriteOptions};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler};
use serde_json::{Value, json};
use stdx::World;

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Verdict};
use self::status::Progress;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["svm"],
    identity: NAME,
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Also that of the manager of the fields of what it writes again.
const NAME: &str = "storage-version-migrator-controller";
/// Manages the condition of definitions.
const RUNNER: &str = "migration-runner-controller";
const WORKERS: usize = 5;
/// Objects in memory at once, for each worker.
const PAGE: u64 = 500;
/// No namespace can be called so: a list of it has a revision, and nothing else.
const NOWHERE: &str = "@fake:svm_ns!";

struct Migrator {
    migrations: Indexer<StorageVersionMigration>,
    writes: Arc<OwnWrites<StorageVersionMigration, GroupResource>>,
    api: Api<StorageVersionMigration>,
    client: Client,
    definitions: DynamicApi,
    world: World,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let definitions =
        GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let reconciler = Migrator {
        migrations: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        client: startup.client.clone(),
        definitions: startup.client.dynamic(definitions),
        world: startup.world.clone(),
    };
    controller
        .watches(plan::resource_of)
        // A migration may wait for its resource.
        .watches(|it: &CustomResourceDefinition| {
            [GroupResource::new(it.spec.group.as_str(), it.spec.names.plural.as_str())]
        })
        .workers(WORKERS)
        .run(reconciler);
}

impl Reconciler for Migrator {
    type Key = GroupResource;
    type Error = Failed;

    async fn reconcile(&self, key: &GroupResource) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let mut migrations = self.migrations.list();
        migrations.retain(|it| plan::resource_of(it).as_ref() == Some(key));
        let mut next = Next::Settled;
        for action in plan::plan(&migrations) {
            if let later @ Next::After(_) = self.apply(key, action).await? {
                next = later;
            }
        }
        Ok(next)
    }
}

impl Migrator {
    async fn apply(&self, key: &GroupResource, action: Action) -> Result<Next, Failed> {
        match action {
            Action::Close(it) => self.close(key, &it).await?,
            Action::Begin(it) => self.begin(key, &it).await?,
            Action::Checkpoint(it) => return self.checkpoint(key, &it).await,
            Action::Migrate(it, version) => return self.migrate(key, &it, version).await,
        }
        Ok(Next::Settled)
    }

    async fn write(
        &self,
        key: &GroupResource,
        migration: StorageVersionMigration,
    ) -> Result<(), Failed> {
        let name = migration.key();
        let written = self.api.update_status(migration).await.unless_gone();
        let failed = Failed::to::<StorageVersionMigration>("write the status of", &name);
        if let Some(written) = written.map_err(failed)? {
            self.writes.wrote(key, written.meta());
        }
        Ok(())
    }

    async fn begin(&self, key: &GroupResource, it: &StorageVersionMigration) -> Result<(), Failed> {
        let now = self.world.clock.now();
        if let Some(definition) = self.definition(key).await? {
            let name = &it.key().name;
            self.write_definition(status::definition_migrating(&definition, name, now)).await?;
        }
        self.write(key, status::begun(it, now)).await
    }

    async fn close(&self, key: &GroupResource, it: &StorageVersionMigration) -> Result<(), Failed> {
        let now = self.world.clock.now();
        if let Some(definition) = self.definition(key).await? {
            self.write_definition(status::definition_migrated(&definition, it, now)).await?;
        }
        self.write(key, status::closed(it, now)).await
    }

    /// As it is now, not as a cache has it: what is written of it must be true of it.
    async fn definition(
        &self,
        resource: &GroupResource,
    ) -> Result<Option<Arc<CustomResourceDefinition>>, Failed> {
        if resource.group.is_empty() {
            return Ok(None);
        }
        let name = ObjectKey::cluster(resource.to_string());
        let failed = || Failed::to::<CustomResourceDefinition>("read", &name);
        let stored = self.definitions.get("", &name.name).await.unless_gone().map_err(failed())?;
        let definition = stored.map(|it| it.shared::<CustomResourceDefinition>()).transpose();
        definition.map_err(|err| {
            failed()(ApiError::internal("an object cannot be decoded").with_source(err))
        })
    }

    async fn write_definition(&self, applied: Value) -> Result<(), Failed> {
        let name = applied["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let options = WriteOptions {
            field_manager: Some(RUNNER.to_owned()),
            force: true,
            ..WriteOptions::default()
        };
        let body = applied.to_string().into();
        let place = (name.as_str(), "status");
        let written = self.definitions.patch_part("", place, PatchKind::Apply, body, options).await;
        let name = ObjectKey::cluster(name.as_str());
        let failed = Failed::to::<CustomResourceDefinition>("apply the status of", &name);
        written.unless_gone().map_err(failed).map(|_| ())
    }

    async fn discovered(&self, resource: &GroupResource) -> Result<Option<Discovered>, Failed> {
        let key = ObjectKey::cluster(resource.to_string());
        let failed = Failed::to_any("discover", "resource", &key);
        let all = self.client.discover().await.map_err(failed)?;
        Ok(all.into_iter().find(|it| it.resource.group_resource() == *resource))
    }

    /// The resource, or what is done without it.
    async fn resource(
        &self,
        key: &GroupResource,
        migration: &StorageVersionMigration,
        why: &str,
    ) -> Result<Result<Discovered, Next>, Failed> {
        if let Some(found) = self.discovered(key).await? {
            return Ok(Ok(found));
        }
        let now = self.world.clock.now();
        if let Some(wait) = plan::patience(migration, now) {
            return Ok(Err(Next::After(wait)));
        }
        self.write(key, status::failed(migration, None, why, now)).await?;
        Ok(Err(Next::Settled))
    }

    async fn checkpoint(
        &self,
        key: &GroupResource,
        it: &StorageVersionMigration,
    ) -> Result<Next, Failed> {
        let why = "resource does not exist in discovery";
        let found = match self.resource(key, it, why).await? {
            Ok(found) => found,
            Err(next) => return Ok(next),
        };
        let now = self.world.clock.now();
        if let Some(why) = plan::refusal(&found) {
            self.write(key, status::failed(it, None, &why, now)).await?;
            return Ok(Next::Settled);
        }
        let namespace = match found.scope {
            Scope::Namespaced => NOWHERE,
            Scope::Cluster => "",
        };
        let options = ListOptions { limit: Some(1), ..ListOptions::default() };
        let list = self.client.dynamic(found.resource).list(namespace, options).await;
        let list = list.map_err(Failed::to_any("list", key.to_string(), &it.key()))?;
        self.write(key, status::checkpointed(it, &list.resource_version)).await?;
        Ok(Next::Settled)
    }

    async fn migrate(
        &self,
        key: &GroupResource,
        it: &StorageVersionMigration,
        checkpoint: u64,
    ) -> Result<Next, Failed> {
        let why = "migration encountered unhandled error: unable to obtain GVR from discovery";
        let found = match self.resource(key, it, why).await? {
            Ok(found) => found,
            Err(next) => return Ok(next),
        };
        let api = self.client.dynamic(found.resource.clone());
        let mut progress = Progress::default();
        let mut page = ListOptions { limit: Some(PAGE), ..ListOptions::default() };
        loop {
            let list = api.list("", page.clone()).await;
            let list = list.map_err(Failed::to_any("list", key.to_string(), &it.key()))?;
            progress.left = list.items.len() as u64 + list.remaining.unwrap_or_default();
            progress.total = progress.total.max(progress.left);
            for object in &list.items {
                if object.meta.resource_version <= checkpoint
                    && let Err(err) = write_again(&api, &found, object).await
                    && let Some(outcome) = self.judge(key, it, progress, err).await
                {
                    return outcome;
                }
                progress.left -= 1;
            }
            if list.continue_token.is_none() {
                break;
            }
            // Nobody waits for it any more.
            if self.migrations.get(&it.key()).is_none_or(|now| now.uid() != it.uid()) {
                return Ok(Next::Settled);
            }
            page.continue_token = list.continue_token;
        }
        let now = self.world.clock.now();
        self.write(key, status::succeeded(it, progress, now)).await?;
        Ok(Next::Settled)
    }

    /// `None`: there is nothing to do for this object.
    async fn judge(
        &self,
        key: &GroupResource,
        it: &StorageVersionMigration,
        progress: Progress,
        err: ApiError,
    ) -> Option<Result<Next, Failed>> {
        let now = self.world.clock.now();
        match plan::judge(&err) {
            Verdict::Done => None,
            Verdict::Later => {
                let delayed = status::delayed(it, progress, err.message(), now);
                let written = match delayed == *it {
                    true => Ok(()),
                    false => self.write(key, delayed).await,
                };
                let failed = Failed::to_any("write again objects of", key.to_string(), &it.key());
                Some(written.and_then(|()| Err(failed(err))))
            }
            Verdict::Hopeless => {
                let why = format!("migration encountered unhandled error: {}", err.message());
                let failed = status::failed(it, Some(progress), &why, now);
                Some(self.write(key, failed).await.map(|()| Next::Settled))
            }
        }
    }
}

/// A patch that says no more than which object is meant: the server stores it as it does now.
async fn write_again(
    api: &DynamicApi,
    resource: &Discovered,
    object: &Stored,
) -> Result<(), ApiError> {
    let meta = &object.meta;
    let body = json!({
        "apiVersion": resource.resource.group_version().to_string(),
        "kind": resource.kind,
        "metadata": {"resourceVersion": meta.resource_version.to_string()},
    });
    let options = WriteOptions { field_manager: Some(NAME.to_owned()), ..WriteOptions::default() };
    let (namespace, name) = (&meta.key.namespace, &meta.key.name);
    let body = body.to_string().into();
    api.patch(namespace, name, PatchKind::Merge, body, options).await.map(|_| ())
}
