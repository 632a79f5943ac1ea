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
        let is_selected = |it: &Arc<Stored>| {
            wanted.name.is_some() || wanted.selector.matches_with(|key| it.meta.labels.get(key))
        };
        let mut stored = candidates(cache.as_ref(), kind.as_ref(), &wanted);
        // Labels are those of this version, which a webhook may have given.
        stored.retain(|it| family.is_slow() || is_selected(it));
        // As whoever reads them sees them: in this version, with defaults that came later.
        let served = family.serve(kind.as_ref(), stored).await;
        let mut served = served.map_err(|err| err.message().to_owned())?;
        served.retain(is_selected);
        let tree = |it: &Arc<Stored>| serde_json::from_slice(&it.bytes).map(Arc::new);
        let trees: Result<_, _> = served.iter().map(tree).collect();
        trees.map_err(|err| err.to_string())
    }
}

fn candidates(cache: &dyn Lookup, kind: &dyn Kind, wanted: &Found<'_>) -> Vec<Arc<Stored>> {
    let resource = kind.names().group_resource();
    let namespace = wanted.namespace.unwrap_or_default();
    match wanted.name {
        Some(name) => cache.find(&resource, &ObjectKey::new(namespace, name)).into_iter().collect(),
        None => cache.list(&resource, wanted.namespace),
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
