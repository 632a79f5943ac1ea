//! A lookup over a few objects, and attributes for tests.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use api::{ApiObject, Lookup, Meta, Resource, Stored};
use apimachinery::{
    ApiError, GroupResource, GroupVersionKind, GroupVersionResource, ObjectKey, User,
};
use serde_json::{Value, json};

use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;

#[derive(Default)]
pub(crate) struct Objects(BTreeMap<(String, ObjectKey), Arc<Stored>>);

impl Objects {
    pub(crate) fn with(mut self, resource: &str, value: &Value) -> Self {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::new(text("namespace"), text("name"));
        // As the server reads them out of the kinds that have them.
        let phase = value["status"]["phase"].as_str().map(|it| ("status.phase", it));
        let fields = phase.into_iter().collect();
        let meta = Meta { key: key.clone(), uid: text("uid"), fields, ..Meta::default() };
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
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
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

/// A request under test; `object` and `old` are filled by the caller.
pub(crate) struct Case<'a> {
    pub(crate) operation: Operation,
    /// `group/resource/subresource`
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a User,
}

impl<'a> Case<'a> {
    pub(crate) fn attributes(
        &self,
        object: Option<&'a mut dyn ApiObject>,
        old: Option<&'a dyn ApiObject>,
    ) -> Attributes<'a> {
        let parts: Vec<&'a str> = self.resource.split('/').collect();
        Attributes {
            operation: self.operation,
            kind: GroupVersionKind::new(parts[0], "v1", "Kind"),
            resource: GroupVersionResource::new(parts[0], "v1", parts[1]),
            subresource: parts.get(2).copied().unwrap_or_default(),
            namespace: self.namespace,
            name: self.name,
            user: self.user,
            is_dry_run: false,
            object,
            old,
        }
    }
}

/// Runs both phases on a pod that is created in `ns`.
pub(crate) fn create_pod(plugin: &dyn Plugin, spec: &Value) -> Result<Value, ApiError> {
    let user = User::new("alice", &[]);
    let mut object: api::core::Pod = decode(&pod(spec));
    let case = Case {
        operation: Operation::Create,
        resource: "/pods",
        namespace: "ns",
        name: "web",
        user: &user,
    };
    let mut attributes = case.attributes(Some(&mut object), None);
    now(plugin.admit(&mut attributes))?;
    now(plugin.validate(&attributes))?;
    Ok(encode(&object)["spec"].clone())
}
