//! CustomResourceDefinitions: their names are accepted, their kinds served from the moment the
//! write that established them is acknowledged, and their objects removed before they go
//! themselves.

mod described;
mod generations;
mod metrics;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use admission::Draft;
use api::apiextensions::custom_resource::Stopwatch;
use api::apiextensions::custom_resource_definition::CLEANUP_FINALIZER;
use api::apiextensions::custom_resource_definition::naming::{
    TakenNames, mark_terminating, status_with_names,
};
use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::{ApiObject, Kind, Resource, Stored};
use apimachinery::{ApiError, GroupResource};
use client::{DeleteOptions, Verb};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionNames;
use lifecycle::Shutdown;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::cache::{Cache, Change, ObjectPath};
use crate::conversion::Conversions;
use crate::own_calls;
use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{Body, Call, Core, Request};
use crate::registry::Registry;

/// Before a definition whose write failed is looked at again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Reason and message of a definition whose objects will be removed.
const DELETION_PENDING: (&str, &str) = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
);
/// Reason and message while finalizers of single objects keep them.
const DELETION_IN_PROGRESS: (&str, &str) =
    ("InstanceDeletionInProgress", "CustomResource deletion is in progress");

pub(crate) struct Definitions {
    registry: Arc<Registry>,
    cache: Weak<Cache>,
    conversions: Conversions,
    stopwatch: Arc<dyn Stopwatch>,
    described: described::Described,
    /// Something of a definition was compiled.
    compiled: Arc<Notify>,
    /// Names of definitions to look at.
    pending: Mutex<BTreeSet<String>>,
    /// What is being removed, by resource: the last object to go brings the definition up again.
    terminating: Mutex<BTreeMap<GroupResource, String>>,
    /// What each definition has, by group and by its own name.
    names: Mutex<BTreeMap<String, BTreeMap<String, Held>>>,
    changed: Notify,
}

/// The names that a definition has.
#[derive(Default, PartialEq)]
struct Held {
    names: CustomResourceDefinitionNames,
    /// It wants others, which somebody else has.
    is_waiting: bool,
}

impl Definitions {
    pub(crate) fn new(
        registry: Arc<Registry>,
        cache: Weak<Cache>,
        conversions: Conversions,
        metrics: &telemetry::Registry,
    ) -> Self {
        let compiled = Arc::new(Notify::new());
        Self {
            registry,
            cache,
            conversions,
            stopwatch: Arc::new(metrics::Metrics::new(metrics, compiled.clone())),
            described: described::Described::new(metrics),
            compiled,
            pending: Mutex::default(),
            terminating: Mutex::default(),
            names: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// What a definition holds now; who may have waited for what it held before.
    fn note_names(
        &self,
        name: &str,
        group: &str,
        definition: Option<&CustomResourceDefinition>,
    ) -> Vec<String> {
        let mut groups = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let all = groups.entry(group.to_owned()).or_default();
        let now = definition.map(|it| Held {
            names: it.status.as_ref().and_then(|it| it.accepted_names.clone()).unwrap_or_default(),
            is_waiting: has_conflict(it),
        });
        let held = now.as_ref().map(|it| it.names.clone());
        let before = match now {
            Some(now) => all.insert(name.to_owned(), now),
            None => all.remove(name),
        };
        let is_released = before.is_some_and(|it| Some(it.names) != held);
        let waiting = all.iter().filter(|(other, it)| it.is_waiting && *other != name);
        let waiting = waiting.filter(|_| is_released).map(|it| it.0.clone()).collect();
        if all.is_empty() {
            groups.remove(group);
        }
        waiting
    }

    /// Those of other definitions of the group.
    fn taken_beside(&self, name: &str, group: &str) -> TakenNames {
        let groups = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let names = groups.get(group).into_iter().flatten().filter(|it| it.0 != name);
        TakenNames::of(names.map(|it| &it.1.names))
    }

    fn enqueue(&self, name: &str) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.changed.notify_one();
    }

    fn next(&self) -> Option<String> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }

    fn terminating(&self) -> MutexGuard<'_, BTreeMap<GroupResource, String>> {
        self.terminating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_watches(&self, definition: Option<CustomResourceDefinition>) {
        let Some(cache) = self.cache.upgrade() else { return };
        let kinds = self.registry.kinds();
        for kind in definition.iter().flat_map(CustomKind::of) {
            if kinds.find(&kind.names().gvr()).is_some_and(|it| it.is_custom()) {
                cache.end_watches_of(kind.as_ref());
            }
        }
    }

    /// What objects are selected by may be read otherwise from now on.
    fn reread(&self, kinds: &[Arc<dyn Kind>]) {
        let Some(cache) = self.cache.upgrade() else { return };
        let served = self.registry.kinds();
        let is_own =
            |it: &&Arc<dyn Kind>| served.find(&it.names().gvr()).is_some_and(|it| it.is_custom());
        if let Some(kind) = kinds.iter().find(is_own) {
            cache.reread(kind.as_ref());
        }
    }

    pub(crate) async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        let mut again: BTreeSet<String> = BTreeSet::new();
        loop {
            while let Some(name) = self.next() {
                match self.reconcile(&core, &name).await {
                    Ok(()) => {
                        again.remove(&name);
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
                () = tokio::time::sleep(RETRY_AFTER), if !again.is_empty() => {
                    for name in std::mem::take(&mut again) {
                        self.enqueue(&name);
                    }
                }
            }
        }
    }
}

impl Hooks for Definitions {
    fn of(&self) -> &'static [Of] {
        &[("apiextensions.k8s.io", "customresourcedefinitions")]
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let its = core.clone();
        let (registry, compiled) = (self.registry.clone(), self.compiled.clone());
        core.tasks.spawn("compiled-schemas", |shutdown| sweep::run(registry, compiled, shutdown));
        core.tasks.spawn("custom-resources", |shutdown| self.run(its, shutdown));
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        generations::complete(&core.config.gates, draft, old);
    }

    /// Its objects go first; whoever removes them removes this.
    fn begin_deletion(
        &self,
        object: &mut dyn ApiObject,
        finalizers: &mut Vec<String>,
        now: Timestamp,
    ) {
        let definition = object.downcast_mut::<CustomResourceDefinition>();
        let definition = definition.expect("the kind is CustomResourceDefinition");
        finalizers.retain(|it| it != CLEANUP_FINALIZER);
        finalizers.push(CLEANUP_FINALIZER.to_owned());
        mark_terminating(definition, DELETION_PENDING, now);
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        let name = change.latest().meta.key.name.clone();
        let decode = |it: &Arc<Stored>| CustomResourceDefinition::decode(&it.bytes).ok();
        let before = || change.previous.as_ref().and_then(decode);
        let now = change.object.as_ref().and_then(decode);
        // A definition is named by its plural and its group.
        let group = name.split_once('.').map_or("", |it| it.1);
        for other in self.note_names(&name, group, now.as_ref()) {
            self.enqueue(&other);
        }
        match now {
            Some(definition) => {
                if definition.metadata.deletion_timestamp.is_some() {
                    self.terminating().insert(resource_of(&definition), name.clone());
                }
                let converter = self.conversions.of(&name, Some(&definition));
                let kinds = CustomKind::measured(&definition, &self.stopwatch);
                self.described.changed(&name, &kinds);
                self.registry.set_custom(&name, kinds.clone(), converter);
                // They serve what was said when they began. Clients begin anew.
                if !is_served_alike(change) {
                    self.end_watches(before());
                    self.reread(&kinds);
                }
            }
            None => {
                self.end_watches(before());
                self.terminating().retain(|_, it| *it != name);
                self.described.changed(&name, &[]);
                let nobody = self.conversions.of(&name, None);
                self.registry.set_custom(&name, Vec::new(), nobody);
            }
        }
        self.enqueue(&name);
    }

    /// An object went: if its definition is going too, it may have been the last.
    fn observe_custom(&self, resource: &GroupResource, change: &Change) {
        if change.object.is_none()
            && let Some(name) = self.terminating().get(resource).cloned()
        {
            self.enqueue(&name);
        }
    }
}

/// Whether what is served by the definition is said as before, to the letter; so it is of a new one.
fn is_served_alike(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.previous, &change.object) else { return true };
    match (Said::read(before), Said::read(now)) {
        (Some(before), Some(now)) => before.texts() == now.texts(),
        _ => false,
    }
}

/// The texts in a definition that decide what is served, and how.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    spec: SaidSpec<'a>,
}

#[derive(Deserialize)]
struct SaidSpec<'a> {
    #[serde(borrow)]
    versions: &'a RawValue,
    #[serde(borrow)]
    conversion: Option<&'a RawValue>,
}

impl<'a> Said<'a> {
    fn read(stored: &'a Stored) -> Option<Self> {
        serde_json::from_slice(&stored.bytes).ok()
    }

    fn texts(&self) -> (&str, Option<&str>) {
        (self.spec.versions.get(), self.spec.conversion.map(RawValue::get))
    }
}

fn has_conflict(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
    conditions.any(|it| it.type_ == "NamesAccepted" && it.status == "False")
}

fn resource_of(definition: &CustomResourceDefinition) -> GroupResource {
    GroupResource::new(definition.spec.group.as_str(), definition.spec.names.plural.as_str())
}

impl Definitions {
    async fn reconcile(&self, core: &Core, name: &str) -> Result<(), ApiError> {
        let kind = core.kind_of::<CustomResourceDefinition>();
        let path = ObjectPath::of(kind.as_ref(), "", name)?;
        let Some(stored) = core.cache.get(kind.as_ref(), &path) else { return Ok(()) };
        let definition = CustomResourceDefinition::decode(&stored.bytes).map_err(|err| {
            ApiError::internal("a stored definition cannot be read").with_source(err)
        })?;
        if definition.metadata.deletion_timestamp.is_some() {
            return clean_up(core, definition).await;
        }
        let group = &definition.spec.group;
        let taken = self.taken_beside(name, group).with_built_in(group, core.registry.built_in());
        let status = status_with_names(&definition, &taken, core.world.clock.now());
        if definition.status.as_ref() != Some(&status) {
            let updated = CustomResourceDefinition { status: Some(status), ..definition };
            own_calls::update(core, updated, Some("status")).await?;
        }
        Ok(())
    }
}

/// Removes the definition's objects, then its own last finalizer. What the objects' own finalizers
/// keep goes later; the cache tells when.
async fn clean_up(core: &Core, mut definition: CustomResourceDefinition) -> Result<(), ApiError> {
    let is_ours = |it: &String| it == CLEANUP_FINALIZER;
    if !definition.metadata.finalizers.iter().flatten().any(is_ours) {
        return Ok(());
    }
    if let Some(kind) = served_kind(core, &definition) {
        if let Err(err) = delete_objects(core, kind.as_ref()).await {
            let message = format!("could not issue all deletes: {err}");
            tell(core, definition, ("InstanceDeletionFailed", &message)).await?;
            return Err(err);
        }
        if !core.cache.snapshot(kind.as_ref(), None, "").objects.is_empty() {
            return tell(core, definition, DELETION_IN_PROGRESS).await;
        }
    }
    definition.metadata.finalizers.get_or_insert_default().retain(|it| !is_ours(it));
    own_calls::update(core, definition, None).await
}

/// How the removal goes, in the status.
async fn tell(
    core: &Core,
    mut definition: CustomResourceDefinition,
    how: (&str, &str),
) -> Result<(), ApiError> {
    let status = definition.status.clone();
    mark_terminating(&mut definition, how, core.world.clock.now());
    if definition.status == status {
        return Ok(());
    }
    own_calls::update(core, definition, Some("status")).await
}

/// What the definition adds to the API. A name that is built in is not its own: its objects are not
/// to be touched.
fn served_kind(core: &Core, definition: &CustomResourceDefinition) -> Option<Arc<dyn Kind>> {
    let kinds = core.registry.kinds();
    let mut own = CustomKind::of(definition);
    // As it is stored, if it can be: nobody need be asked to convert what is removed.
    own.sort_by_key(|it| it.names().version != it.storage_version());
    let mut own = own.into_iter();
    own.find_map(|it| kinds.find(&it.names().gvr()).filter(|it| it.is_custom()).cloned())
}

async fn delete_objects(core: &Core, kind: &dyn Kind) -> Result<(), ApiError> {
    let objects = core.cache.snapshot(kind, None, "").objects;
    let namespaces: BTreeSet<&str> =
        objects.iter().map(|it| it.meta.key.namespace.as_str()).collect();
    for namespace in namespaces {
        let call = Call {
            namespace: Some(namespace.to_owned()).filter(|it| !it.is_empty()),
            ..own_calls::call(Verb::DeleteCollection, kind.names().gvr())
        };
        match own_calls::carry_out(core, call, Body::Delete(DeleteOptions::default())).await {
            Err(err) if !err.is_not_found() => return Err(err),
            _ => {}
        }
    }
    Ok(())
}
