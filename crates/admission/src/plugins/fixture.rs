//! A lookup over a few objects, and requests for tests.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::{ApiObject, Kind, Lookup, Meta, Resource, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use authz::Decision;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::attributes::{Attributes, Operation};
use crate::authorizer::Authorizer;
use crate::chain::{Chain, Phase, Plugin};
use crate::context::{Context, Surroundings};
use crate::draft::{Codec, Draft, Forms};
use crate::notes::Notes;
use crate::options::Options;
use crate::versions::OneVersion;

#[derive(Default)]
pub(crate) struct Objects(BTreeMap<(String, ObjectKey), Arc<Stored>>);

impl Objects {
    pub(crate) fn with(mut self, resource: &str, value: &Value) -> Self {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::new(text("namespace"), text("name"));
        // As the server reads them out of the kinds that have them.
        let phase = value["status"]["phase"].as_str().map(|it| ("status.phase", it));
        let fields = phase.into_iter().collect();
        let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(name, it)| Some((name.as_str(), it.as_str()?))).collect();
        let meta = Meta { key: key.clone(), uid: text("uid"), labels, fields, ..Meta::default() };
        let stored = Stored::new(meta, value.to_string().into_bytes().into());
        self.0.insert((resource.to_owned(), key), Arc::new(stored));
        self
    }
}

impl Lookup for Objects {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.0.get(&(resource.resource.clone(), key.clone())).cloned()
    }

    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let of = |it: &(String, ObjectKey)| {
            it.0 == resource.resource && namespace.is_none_or(|ns| it.1.namespace == ns)
        };
        self.0.iter().filter(|(key, _)| of(key)).map(|(_, it)| it.clone()).collect()
    }
}

/// Plugins here are ready at once: they read caches.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => panic!("a plugin waited"),
    }
}

pub(crate) fn decode<T: Resource>(value: &Value) -> T {
    T::decode(value.to_string().as_bytes()).unwrap()
}

pub(crate) fn encode(object: &dyn ApiObject) -> Value {
    serde_json::from_slice(&object.encode()).unwrap()
}

pub(crate) fn pod(spec: &Value) -> Value {
    let metadata = json!({"name": "web", "namespace": "ns"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Allows nothing.
pub(crate) struct Nobody;

impl Authorizer for Nobody {
    fn decide<'a>(&'a self, _: &'a User, _: &'a authz::Attributes) -> BoxFuture<'a, Decision> {
        Box::pin(ready(Decision::NoOpinion { reason: String::new() }))
    }
}

/// The kind of `group` and `plural`; one without rules for those that are not served yet.
pub(crate) fn kind(group: &str, plural: &str) -> Arc<dyn Kind> {
    static KINDS: OnceLock<Vec<Arc<dyn Kind>>> = OnceLock::new();
    let kinds = KINDS.get_or_init(api::kinds);
    let is_it = |it: &&Arc<dyn Kind>| (&*it.names().group, &*it.names().plural) == (group, plural);
    if let Some(kind) = kinds.iter().find(is_it) {
        return kind.clone();
    }
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": "Unserved"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definition: CustomResourceDefinition = decode(&definition);
    Arc::new(CustomKind::new(&definition, &definition.spec.versions[0]))
}

/// A request under test.
pub(crate) struct Case<'a> {
    pub(crate) operation: Operation,
    /// `group/resource/subresource`
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a User,
}

impl Case<'_> {
    pub(crate) fn of<'a>(operation: Operation, resource: &'a str, user: &'a User) -> Case<'a> {
        Case { operation, resource, namespace: "ns", name: "web", user }
    }

    /// What `judge` makes of it.
    pub(crate) fn with<T>(
        &self,
        surroundings: (&(dyn Lookup + 'static), &dyn Authorizer),
        (object, old): (Option<&dyn ApiObject>, Option<&dyn ApiObject>),
        judge: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        let mut parts = self.resource.split('/');
        let mut part = || parts.next().unwrap_or_default();
        let kind = kind(part(), part());
        let request = Attributes {
            operation: self.operation,
            kind: kind.as_ref(),
            requested: kind.names(),
            versions: &OneVersion,
            subresource: part(),
            namespace: self.namespace,
            name: self.name,
            user: self.user,
            options: Options::default(),
        };
        let (lookup, authorizer) = surroundings;
        let notes = Notes::default();
        let old = old.map(|it| Draft::new(it.clone_box()));
        let mut context = Context::new(request, Surroundings { lookup, authorizer }, &notes);
        if let Some(old) = &old {
            context = context.with_old(old as &dyn Forms);
        }
        if let Some(object) = object {
            let codec = Codec::Kind(kind.as_ref());
            context = context.with_object(Draft::new(object.clone_box()), codec);
        }
        judge(&mut context)
    }

    /// Both phases of one plugin: the object afterwards, or the refusal.
    pub(crate) fn run(
        &self,
        plugin: impl Plugin + 'static,
        objects: Objects,
        (object, old): (Option<&dyn ApiObject>, Option<&dyn ApiObject>),
    ) -> Result<Value, ApiError> {
        let chain = Chain::new(vec![Arc::new(plugin)]);
        self.with((&objects, &Nobody), (object, old), |context| {
            let mutated = now(chain.mutate(context))?;
            now(chain.validate(mutated, context))?.keep();
            Ok(context.object().map(encode).unwrap_or_default())
        })
    }

    /// The second phase alone.
    pub(crate) fn validate(
        &self,
        plugin: &dyn Plugin,
        objects: Objects,
        object: &dyn ApiObject,
    ) -> Result<(), ApiError> {
        self.with((&objects, &Nobody), (Some(object), None), |context| {
            if plugin.handles(Phase::Validate, &context.request) {
                now(plugin.validate(context))?;
            }
            Ok(())
        })
    }
}

/// Runs both phases on a pod that is created in `ns`.
pub(crate) fn create_pod(
    plugin: impl Plugin + 'static,
    objects: Objects,
    spec: &Value,
) -> Result<Value, ApiError> {
    let user = User::new("alice", &[]);
    let object: api::core::Pod = decode(&pod(spec));
    let case = Case::of(Operation::Create, "/pods", &user);
    Ok(case.run(plugin, objects, (Some(&object), None))?["spec"].clone())
}
