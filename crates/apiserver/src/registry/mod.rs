//! Which kinds are served: the built-in ones, and those that CustomResourceDefinitions add. The
//! whole set is swapped at once, so a request sees one consistent set from start to end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::Kind;
use apimachinery::{GroupResource, GroupVersion, GroupVersionResource};
use arc_swap::ArcSwap;

/// One consistent set of served kinds.
pub struct Kinds {
    served: BTreeMap<GroupVersionResource, Arc<dyn Kind>>,
    /// `pods` or `group/plural` to the kind that objects below that key are stored as.
    stored: BTreeMap<String, Arc<dyn Kind>>,
    prefixes: BTreeMap<GroupResource, String>,
    /// Grows with every swap; what is rendered from the set is cached under it.
    pub generation: u64,
}

impl Kinds {
    fn new(kinds: impl Iterator<Item = Arc<dyn Kind>>, generation: u64) -> Self {
        let mut all = Self {
            served: BTreeMap::new(),
            stored: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            generation,
        };
        for kind in kinds {
            let prefix = kind.registry_prefix();
            if !prefix.is_empty() {
                all.prefixes.insert(kind.names().group_resource(), prefix.clone());
                all.stored.entry(prefix).or_insert_with(|| kind.clone());
            }
            all.served.insert(kind.names().gvr(), kind);
        }
        all
    }

    pub fn find(&self, resource: &GroupVersionResource) -> Option<&Arc<dyn Kind>> {
        self.served.get(resource)
    }

    /// Sorted by group, version and resource.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.served.values()
    }

    pub fn has_group_version(&self, wanted: &GroupVersion) -> bool {
        self.served.keys().any(|it| it.group == wanted.group && it.version == wanted.version)
    }

    pub fn prefix_of(&self, resource: &GroupResource) -> Option<&str> {
        self.prefixes.get(resource).map(String::as_str)
    }

    /// The kind that objects below this prefix are stored as.
    pub fn stored_at(&self, prefix: &str) -> Option<&Arc<dyn Kind>> {
        self.stored.get(prefix)
    }

    /// Splits `pods/default/web` into the kind stored there and `default/web`.
    pub fn locate<'a>(&self, path: &'a str) -> Option<(&str, &Arc<dyn Kind>, &'a str)> {
        let mut ends = path.match_indices('/').map(|(at, _)| at).take(2);
        ends.find_map(|end| {
            let (prefix, kind) = self.stored.get_key_value(&path[..end])?;
            Some((prefix.as_str(), kind, &path[end + 1..]))
        })
    }
}

/// The current set, and the way to change it.
pub struct Registry {
    built_in: Vec<Arc<dyn Kind>>,
    custom: Mutex<BTreeMap<String, Vec<Arc<dyn Kind>>>>,
    current: ArcSwap<Kinds>,
}

impl Registry {
    pub fn new(built_in: Vec<Arc<dyn Kind>>) -> Self {
        let current = ArcSwap::from_pointee(Kinds::new(built_in.iter().cloned(), 0));
        Self { built_in, custom: Mutex::default(), current }
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.current.load_full()
    }

    /// Serves the versions of one CustomResourceDefinition; an empty list stops serving it.
    pub fn set_custom(&self, definition: &str, kinds: Vec<Arc<dyn Kind>>) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.is_empty() {
            if custom.remove(definition).is_none() {
                return;
            }
        } else {
            custom.insert(definition.to_owned(), kinds);
        }
        let generation = self.current.load().generation + 1;
        let all = self.built_in.iter().chain(custom.values().flatten()).cloned();
        self.current.store(Arc::new(Kinds::new(all, generation)));
    }
}
