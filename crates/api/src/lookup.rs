//! What authentication, authorization and admission may see of stored objects: the server's own
//! caches.

use std::sync::Arc;

use apimachinery::{GroupResource, ObjectKey};

use crate::kind::Resource;
use crate::object::Stored;

/// Reads the newest state that this server knows, in the version that is stored. In memory; never
/// waits.
pub trait Lookup: Send + Sync {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>>;
    /// All objects, or those of one namespace, sorted by key.
    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>>;
}

impl dyn Lookup {
    pub fn get<T: Resource>(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let resource = GroupResource::new(T::FACTS.group, T::FACTS.plural);
        self.find(&resource, key).and_then(|it| it.shared().ok())
    }

    pub fn all<T: Resource>(&self, namespace: Option<&str>) -> Vec<Arc<T>> {
        let resource = GroupResource::new(T::FACTS.group, T::FACTS.plural);
        self.list(&resource, namespace).iter().filter_map(|it| it.shared().ok()).collect()
    }
}
