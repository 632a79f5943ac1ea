//! CustomResourceDefinitions: their names are accepted, their kinds served from the moment the write that
//! established them is acknowledged, and their objects removed before they go themselves.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use api::apiextensions::custom_resource_definition::naming::{TakenNames, status_with_names};
use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::{ApiObject, Lookup, Resource};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use authn::{Component, Credential};
use client::{DeleteOptions, ListOptions, Verb, WriteOptions};
use lifecycle::Shutdown;
use tokio::sync::Notify;

use crate::cache::{Cache, Change, Observer};
use crate::pipeline::{self, Body, CLEANUP, Call};
use crate::registry::Registry;
use crate::server::Core;

/// Between two looks at objects that their own finalizers keep.
const CLEANUP_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Definitions {
    registry: Arc<Registry>,
    cache: Weak<Cache>,
    /// Names of definitions to look at.
    pending: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl Definitions {
    pub(crate) fn new(registry: Arc<Registry>, cache: Weak<Cache>) -> Self {
        Self { registry, cache, pending: Mutex::default(), changed: Notify::new() }
    }

    fn enqueue(&self, name: &str) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.changed.notify_one();
    }

    fn next(&self) -> Option<String> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }

    pub(crate) async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        let mut again: BTreeSet<String> = BTreeSet::new();
        loop {
            while let Some(name) = self.next() {
                match reconcile(&core, &name).await {
                    Ok(Next::Settled) => {
                        again.remove(&name);
                    }
                    Ok(Next::Again) => {
                        again.insert(name);
                    }
                    Err(err) => {
                        tracing::warn!(definition = %name, error = %err, "a custom resource definition is not settled");
                        again.insert(name);
                    }
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(CLEANUP_AGAIN), if !again.is_empty() => {
                    for name in std::mem::take(&mut again) {
                        self.enqueue(&name);
                    }
                }
            }
        }
    }
}

impl Observer for Definitions {
    fn observe(&self, resource: &GroupResource, change: &Change) {
        if resource.group != "apiextensions.k8s.io" {
            return;
        }
        let name = change.latest().meta.key.name.clone();
        let definition =
            change.object.as_ref().and_then(|it| CustomResourceDefinition::decode(&it.bytes).ok());
        match definition {
            Some(definition) => self.registry.set_custom(&name, CustomKind::of(&definition)),
            None => {
                let gone = change.previous.as_ref();
                let gone = gone.and_then(|it| CustomResourceDefinition::decode(&it.bytes).ok());
                if let (Some(cache), Some(gone)) = (self.cache.upgrade(), gone) {
                    for kind in CustomKind::of(&gone) {
                        cache.end_watches_of(kind.as_ref());
                    }
                }
                self.registry.set_custom(&name, Vec::new());
            }
        }
        self.enqueue(&name);
    }
}

enum Next {
    Settled,
    Again,
}

async fn reconcile(core: &Core, name: &str) -> Result<Next, ApiError> {
    let kind = core.kind_of::<CustomResourceDefinition>();
    let Some(stored) = core.cache.get(kind.as_ref(), name) else { return Ok(Next::Settled) };
    let definition = CustomResourceDefinition::decode(&stored.bytes).map_err(ApiError::internal)?;
    if definition.metadata.deletion_timestamp.is_some() {
        return clean_up(core, definition).await;
    }
    let lookup: &dyn Lookup = core.cache.as_ref();
    let others = lookup.all::<CustomResourceDefinition>(None);
    let taken = TakenNames::beside(&definition, others.iter().map(AsRef::as_ref));
    let status = status_with_names(&definition, &taken, core.world.clock.now());
    if definition.status.as_ref() != Some(&status) {
        let updated = CustomResourceDefinition { status: Some(status), ..definition };
        write(core, updated, Some("status")).await?;
    }
    Ok(Next::Settled)
}

/// Removes the definition's objects, then its own last finalizer.
async fn clean_up(core: &Core, mut definition: CustomResourceDefinition) -> Result<Next, ApiError> {
    let is_ours = |it: &String| it == CLEANUP;
    if !definition.metadata.finalizers.iter().flatten().any(is_ours) {
        return Ok(Next::Settled);
    }
    if let Some(kind) = CustomKind::of(&definition).into_iter().next() {
        let call = Call {
            verb: Verb::DeleteCollection,
            resource: kind.names().gvr(),
            body: Body::Delete(DeleteOptions::default()),
            ..own_call()
        };
        match pipeline::call(core, call).await {
            Err(err) if !err.is_not_found() => return Err(err),
            _ => {}
        }
        if !core.cache.snapshot(kind.as_ref(), None, "").objects.is_empty() {
            return Ok(Next::Again);
        }
    }
    definition.metadata.finalizers.get_or_insert_default().retain(|it| !is_ours(it));
    write(core, definition, None).await?;
    Ok(Next::Settled)
}

/// A call of the server itself.
fn own_call() -> Call {
    let user = User::new("system:apiserver", &["system:masters"]);
    Call {
        credential: Credential::Component(Component::new(user)),
        impersonate: None,
        verb: Verb::Update,
        resource: apimachinery::GroupVersionResource::new("", "", ""),
        namespace: None,
        name: None,
        subresource: None,
        write: WriteOptions::default(),
        list: ListOptions::default(),
        body: Body::Empty,
        user_agent: "kube-apiserver".to_owned(),
    }
}

async fn write(
    core: &Core,
    definition: CustomResourceDefinition,
    subresource: Option<&str>,
) -> Result<(), ApiError> {
    let ObjectKey { name, .. } = api::object::key_of(definition.meta());
    let call = Call {
        resource: core.kind_of::<CustomResourceDefinition>().names().gvr(),
        name: Some(name),
        subresource: subresource.map(str::to_owned),
        body: Body::Object(Box::new(definition)),
        ..own_call()
    };
    pipeline::call(core, call).await.map(|_| ())
}
