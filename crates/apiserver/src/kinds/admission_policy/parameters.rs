//! Objects of any kind as parameters of policies, out of the server's caches.

use std::sync::{Arc, Weak};

use admission::policy::{Found, Parameters};
use api::{Kind, Lookup, Stored};
use apimachinery::{ObjectKey, Scope};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::cache::Cache;
use crate::registry::Registry;

pub(crate) struct FromCache {
    registry: Arc<Registry>,
    cache: Weak<Cache>,
}

impl FromCache {
    pub(crate) fn new(registry: Arc<Registry>, cache: Weak<Cache>) -> Self {
        Self { registry, cache }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<Arc<dyn Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.registry.kinds();
        let is_it = |it: &&Arc<dyn Kind>| {
            let names = it.names();
            (names.group.as_str(), names.version.as_str(), names.kind.as_str())
                == (group, version, kind)
        };
        kinds.iter().find(is_it).cloned()
    }

    async fn find(&self, wanted: Found<'_>) -> Result<Vec<Arc<Value>>, String> {
        let kind = self.kind(wanted.api_version, wanted.kind);
        let (Some(kind), Some(cache)) = (kind, self.cache.upgrade()) else {
            return Ok(Vec::new());
        };
        let family = self.registry.kinds().family_of(&kind);
        // As whoever reads them sees them: in this version, with defaults that came later.
        let stored = select(cache.as_ref(), kind.as_ref(), &wanted);
        let served = family.serve(kind.as_ref(), stored).await;
        let served = served.map_err(|err| err.message().to_owned())?;
        let tree = |it: &Arc<Stored>| serde_json::from_slice(&it.bytes).map(Arc::new);
        let trees: Result<_, _> = served.iter().map(tree).collect();
        trees.map_err(|err| err.to_string())
    }
}

fn select(cache: &dyn Lookup, kind: &dyn Kind, wanted: &Found<'_>) -> Vec<Arc<Stored>> {
    let resource = kind.names().group_resource();
    let namespace = wanted.namespace.unwrap_or_default();
    match wanted.name {
        Some(name) => cache.find(&resource, &ObjectKey::new(namespace, name)).into_iter().collect(),
        None => {
            let all = cache.list(&resource, wanted.namespace).into_iter();
            all.filter(|it| wanted.selector.matches_with(|key| it.meta.labels.get(key))).collect()
        }
    }
}

impl Parameters for FromCache {
    fn scope(&self, api_version: &str, kind: &str) -> Option<Scope> {
        self.kind(api_version, kind).map(|it| it.scope())
    }

    fn find<'a>(&'a self, wanted: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>> {
        Box::pin(self.find(wanted))
    }
}
