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

/// One consistent set of served kinds. A change of one definition makes its own group anew, and
/// shares the others with the set before.
pub struct Kinds {
    groups: BTreeMap<Arc<str>, Arc<Group>>,
    /// Of built-in kinds, by `pods` or `group/plural`, which their objects are stored below.
    families: Arc<BTreeMap<String, Arc<Family>>>,
    /// Grows with every swap; what is rendered from the set is cached under it.
    pub generation: u64,
}

/// What is served of one group.
#[derive(Clone, Default)]
pub struct Group {
    /// By version and plural.
    served: BTreeMap<String, BTreeMap<String, Arc<dyn Kind>>>,
    /// Of custom kinds, by `group/plural`.
    families: BTreeMap<String, Arc<Family>>,
    /// By plural.
    prefixes: BTreeMap<String, String>,
}

impl Group {
    /// `kinds` are all that are stored below `prefix`; those below none are not stored.
    fn serve(&mut self, prefix: &str, kinds: &[Arc<dyn Kind>]) {
        for kind in kinds {
            let names = kind.names();
            let version = self.served.entry(names.version.clone()).or_default();
            version.insert(names.plural.clone(), kind.clone());
            if !prefix.is_empty() {
                self.prefixes.insert(names.plural.clone(), prefix.to_owned());
            }
        }
    }

    /// What one definition adds.
    fn add(&mut self, custom: &Custom, own: &Own) {
        let free = custom.kinds.iter().filter(|it| !own.has(it.as_ref()));
        let kinds: Vec<Arc<dyn Kind>> = free.cloned().collect();
        let Some(prefix) = kinds.first().map(|it| it.registry_prefix()) else { return };
        self.serve(&prefix, &kinds);
        if !prefix.is_empty() && !self.families.contains_key(&prefix) {
            let family = Family::new(&kinds, custom.converter.clone());
            self.families.insert(prefix, Arc::new(family));
        }
    }

    /// Sorted by version and resource.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.served.values().flat_map(BTreeMap::values)
    }
}

impl Kinds {
    fn new(built_in: &[Arc<dyn Kind>]) -> Self {
        let mut by_prefix: BTreeMap<String, Vec<Arc<dyn Kind>>> = BTreeMap::new();
        for kind in built_in {
            by_prefix.entry(kind.registry_prefix()).or_default().push(kind.clone());
        }
        let (mut groups, mut families) = (BTreeMap::<Arc<str>, Group>::new(), BTreeMap::new());
        for (prefix, kinds) in by_prefix {
            // Some are stored with those of another group.
            for kind in &kinds {
                let group = groups.entry(kind.names().group.as_str().into()).or_default();
                group.serve(&prefix, std::slice::from_ref(kind));
            }
            if !prefix.is_empty() {
                families.insert(prefix, Arc::new(Family::new(&kinds, None)));
            }
        }
        let groups = groups.into_iter().map(|(name, group)| (name, Arc::new(group))).collect();
        Self { groups, families: Arc::new(families), generation: 0 }
    }

    /// With one group as it is now; without it, if it has nothing.
    fn with(&self, name: &str, group: Group) -> Self {
        let mut groups = self.groups.clone();
        match group.served.is_empty() {
            true => drop(groups.remove(name)),
            false => drop(groups.insert(name.into(), Arc::new(group))),
        }
        let families = self.families.clone();
        Self { groups, families, generation: self.generation + 1 }
    }

    pub fn find(&self, resource: &GroupVersionResource) -> Option<&Arc<dyn Kind>> {
        let group = self.groups.get(resource.group.as_str())?;
        group.served.get(&resource.version)?.get(&resource.resource)
    }

    /// Sorted by group, version and resource.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.groups.values().flat_map(|it| it.iter())
    }

    /// By name.
    pub fn groups(&self) -> &BTreeMap<Arc<str>, Arc<Group>> {
        &self.groups
    }

    /// The groups that are others than before, came or went.
    pub fn changed_since(&self, before: &Self) -> Vec<Arc<str>> {
        let is_same = |name: &Arc<str>, group: &Arc<Group>, others: &Self| {
            others.groups.get(name).is_some_and(|it| Arc::ptr_eq(it, group))
        };
        let new = self.groups.iter().filter(|(name, it)| !is_same(name, it, before));
        let gone = before.groups.keys().filter(|it| !self.groups.contains_key(*it));
        new.map(|it| it.0).chain(gone).cloned().collect()
    }

    pub fn has_group(&self, name: &str) -> bool {
        self.groups.contains_key(name)
    }

    pub fn has_group_version(&self, wanted: &GroupVersion) -> bool {
        let group = self.groups.get(wanted.group.as_str());
        group.is_some_and(|it| it.served.contains_key(&wanted.version))
    }

    pub fn prefix_of(&self, resource: &GroupResource) -> Option<&str> {
        let group = self.groups.get(resource.group.as_str())?;
        group.prefixes.get(&resource.resource).map(String::as_str)
    }

    /// Of the built-in kinds that are stored.
    pub(crate) fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.families.values()
    }

    fn family(&self, prefix: &str) -> Option<(&str, &Arc<Family>)> {
        if let Some((prefix, family)) = self.families.get_key_value(prefix) {
            return Some((prefix, family));
        }
        let group = self.groups.get(prefix.split_once('/')?.0)?;
        group.families.get_key_value(prefix).map(|(prefix, family)| (prefix.as_str(), family))
    }

    /// The kind that objects below this prefix are stored as.
    pub fn stored_at(&self, prefix: &str) -> Option<&Arc<dyn Kind>> {
        self.family(prefix).map(|it| it.1.stored())
    }

    /// All versions of a kind of this set.
    pub fn family_of(&self, kind: &Arc<dyn Kind>) -> Arc<Family> {
        let alone = || Arc::new(Family::new(std::slice::from_ref(kind), None));
        self.family(&kind.registry_prefix()).map_or_else(alone, |it| it.1.clone())
    }

    /// Splits `pods/default/web` into the kind stored there and `default/web`.
    pub fn locate<'a>(&self, path: &'a str) -> Option<(&str, &Arc<dyn Kind>, &'a str)> {
        let mut ends = path.match_indices('/').map(|(at, _)| at).take(2);
        ends.find_map(|end| {
            let (prefix, family) = self.family(&path[..end])?;
            Some((prefix, family.stored(), &path[end + 1..]))
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
    own: Own,
    /// The set without any definition.
    base: Kinds,
    custom: Mutex<Customs>,
    current: ArcSwap<Kinds>,
    generations: watch::Sender<u64>,
}

#[derive(Default)]
struct Customs {
    /// By group, then by definition.
    groups: BTreeMap<String, BTreeMap<String, Custom>>,
    /// The group of each definition.
    of: BTreeMap<String, String>,
}

/// What one CustomResourceDefinition adds.
struct Custom {
    kinds: Vec<Arc<dyn Kind>>,
    /// `None`: the versions differ in `apiVersion` alone.
    converter: Option<Arc<dyn Converter>>,
}

impl Registry {
    pub fn new(built_in: Vec<Arc<dyn Kind>>) -> Self {
        let (base, current) = (Kinds::new(&built_in), ArcSwap::from_pointee(Kinds::new(&built_in)));
        let (own, generations) = (Own::of(&built_in), watch::Sender::new(0));
        Self { built_in, own, base, custom: Mutex::default(), current, generations }
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
        let Customs { groups, of } = &mut *custom;
        let before = of.remove(definition);
        if let Some(group) = &before
            && let Some(definitions) = groups.get_mut(group)
        {
            definitions.remove(definition);
        }
        let now = kinds.first().map(|it| it.names().group.clone());
        if let Some(group) = &now {
            of.insert(definition.to_owned(), group.clone());
            let definitions = groups.entry(group.clone()).or_default();
            definitions.insert(definition.to_owned(), Custom { kinds, converter });
        }
        let mut touched: Vec<String> = [before, now].into_iter().flatten().collect();
        touched.dedup();
        for group in touched {
            let definitions = groups.get(&group);
            self.renew(&group, definitions.into_iter().flat_map(BTreeMap::values));
            if groups.get(&group).is_some_and(BTreeMap::is_empty) {
                groups.remove(&group);
            }
        }
    }

    /// Makes one group what its definitions make it.
    fn renew<'a>(&self, name: &str, customs: impl Iterator<Item = &'a Custom>) {
        let mut group = self.base.groups.get(name).map(|it| Group::clone(it)).unwrap_or_default();
        for custom in customs {
            group.add(custom, &self.own);
        }
        let kinds = self.current.load().with(name, group);
        let generation = kinds.generation;
        self.current.store(Arc::new(kinds));
        self.generations.send_replace(generation);
    }

    /// Tells of every change of the set, or of the last of several.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }
}
