//! Which kinds are served: the built-in ones, and those that CustomResourceDefinitions add. The
//! whole set is swapped at once, so a request sees one consistent set from start to end.
//!
//! A custom kind adds; it never takes the place of a built-in one, nor joins it in its group and
//! version, whatever its definition says: what is found under a built-in name, in a request or in
//! the store, is the built-in kind.

mod family;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::Kind;
use apimachinery::{GroupResource, GroupVersion, GroupVersionResource};
use arc_swap::ArcSwap;
use tokio::sync::watch;

pub use family::{Converter, Family};

/// One consistent set of served kinds.
pub struct Kinds {
    served: BTreeMap<GroupVersionResource, Arc<dyn Kind>>,
    /// By `pods` or `group/plural`, which their objects are stored below.
    families: BTreeMap<String, Arc<Family>>,
    prefixes: BTreeMap<GroupResource, String>,
    /// Grows with every swap; what is rendered from the set is cached under it.
    pub generation: u64,
}

impl Kinds {
    fn new<'a>(
        built_in: &[Arc<dyn Kind>],
        custom: impl Iterator<Item = &'a Custom>,
        generation: u64,
    ) -> Self {
        let mut all = Self {
            served: BTreeMap::new(),
            families: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            generation,
        };
        let mut by_prefix: BTreeMap<String, Vec<Arc<dyn Kind>>> = BTreeMap::new();
        for kind in built_in {
            by_prefix.entry(kind.registry_prefix()).or_default().push(kind.clone());
        }
        for (prefix, kinds) in by_prefix {
            all.add(&prefix, &kinds, None);
        }
        let own = Own::of(built_in);
        for Custom { kinds, converter } in custom {
            let free = kinds.iter().filter(|it| !own.has(it.as_ref()));
            let kinds: Vec<Arc<dyn Kind>> = free.cloned().collect();
            if let Some(first) = kinds.first() {
                all.add(&first.registry_prefix(), &kinds, converter.clone());
            }
        }
        all
    }

    /// `kinds` are all that are stored below `prefix`; those below none are not stored.
    fn add(
        &mut self,
        prefix: &str,
        kinds: &[Arc<dyn Kind>],
        converter: Option<Arc<dyn Converter>>,
    ) {
        for kind in kinds {
            self.served.insert(kind.names().gvr(), kind.clone());
            if !prefix.is_empty() {
                self.prefixes.insert(kind.names().group_resource(), prefix.to_owned());
            }
        }
        if !prefix.is_empty() && !self.families.contains_key(prefix) {
            self.families.insert(prefix.to_owned(), Arc::new(Family::new(kinds, converter)));
        }
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
        self.families.get(prefix).map(|it| it.stored())
    }

    /// All versions of a kind of this set.
    pub fn family_of(&self, kind: &Arc<dyn Kind>) -> Arc<Family> {
        let alone = || Arc::new(Family::new(std::slice::from_ref(kind), None));
        self.families.get(&kind.registry_prefix()).cloned().unwrap_or_else(alone)
    }

    /// Splits `pods/default/web` into the kind stored there and `default/web`.
    pub fn locate<'a>(&self, path: &'a str) -> Option<(&str, &Arc<dyn Kind>, &'a str)> {
        let mut ends = path.match_indices('/').map(|(at, _)| at).take(2);
        ends.find_map(|end| {
            let (prefix, family) = self.families.get_key_value(&path[..end])?;
            Some((prefix.as_str(), family.stored(), &path[end + 1..]))
        })
    }
}

/// What belongs to the built-in kinds, so that no custom one gets it.
struct Own {
    versions: BTreeSet<GroupVersion>,
    resources: BTreeSet<GroupResource>,
    prefixes: BTreeSet<String>,
}

impl Own {
    fn of(kinds: &[Arc<dyn Kind>]) -> Self {
        Self {
            versions: kinds.iter().map(|it| it.names().gvr().group_version()).collect(),
            resources: kinds.iter().map(|it| it.names().group_resource()).collect(),
            prefixes: kinds.iter().map(|it| it.registry_prefix()).collect(),
        }
    }

    fn has(&self, kind: &dyn Kind) -> bool {
        let names = kind.names();
        self.versions.contains(&names.gvr().group_version())
            || self.resources.contains(&names.group_resource())
            || self.prefixes.contains(&kind.registry_prefix())
    }
}

/// The current set, and the way to change it.
pub struct Registry {
    built_in: Vec<Arc<dyn Kind>>,
    custom: Mutex<BTreeMap<String, Custom>>,
    current: ArcSwap<Kinds>,
    generations: watch::Sender<u64>,
}

/// What one CustomResourceDefinition adds.
struct Custom {
    kinds: Vec<Arc<dyn Kind>>,
    /// `None`: the versions differ in `apiVersion` alone.
    converter: Option<Arc<dyn Converter>>,
}

impl Registry {
    pub fn new(built_in: Vec<Arc<dyn Kind>>) -> Self {
        let none = std::iter::empty();
        let current = ArcSwap::from_pointee(Kinds::new(&built_in, none, 0));
        let generations = watch::Sender::new(0);
        Self { built_in, custom: Mutex::default(), current, generations }
    }

    /// The kinds that are always served.
    pub fn built_in(&self) -> &[Arc<dyn Kind>] {
        &self.built_in
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.current.load_full()
    }

    /// Serves the versions of one CustomResourceDefinition; an empty list stops serving it. Without
    /// a converter they differ in `apiVersion` alone.
    pub fn set_custom(
        &self,
        definition: &str,
        kinds: Vec<Arc<dyn Kind>>,
        converter: Option<Arc<dyn Converter>>,
    ) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.is_empty() {
            if custom.remove(definition).is_none() {
                return;
            }
        } else {
            custom.insert(definition.to_owned(), Custom { kinds, converter });
        }
        let generation = self.current.load().generation + 1;
        let kinds = Kinds::new(&self.built_in, custom.values(), generation);
        self.current.store(Arc::new(kinds));
        self.generations.send_replace(generation);
    }

    /// Tells of every change of the set, or of the last of several.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }
}
