//! The cache of one kind: objects by key, and named indexes over them.
//!
//! Readers get `Arc`s copied out under a short read lock, so nobody holds the cache while working
//! with objects.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apimachinery::ObjectKey;

/// The values under which an object is found: none, one or many.
pub type IndexFn<T> = fn(&T) -> Vec<String>;

/// The cache, with named indexes. Cheap to clone. Only the informer writes to it.
pub struct Indexer<T> {
    state: Arc<RwLock<State<T>>>,
}

/// The same as `Indexer`, for reading alone, under the name that client-go users look for.
pub type Lister<T> = Indexer<T>;

struct State<T> {
    /// The keys are shared with the indexes.
    objects: BTreeMap<Arc<ObjectKey>, Entry<T>>,
    indexes: BTreeMap<&'static str, Index<T>>,
}

/// An object and its resourceVersion as a number, to tell old from new.
pub(crate) struct Entry<T> {
    pub(crate) version: u64,
    pub(crate) object: Arc<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { version: self.version, object: self.object.clone() }
    }
}

struct Index<T> {
    values_of: IndexFn<T>,
    /// Every object here is in `State::objects` under the same key; no map is empty. The objects
    /// themselves, so that reading a value costs as much as it has objects and no search for each.
    values: BTreeMap<String, BTreeMap<Arc<ObjectKey>, Arc<T>>>,
}

impl<T> Index<T> {
    fn insert(&mut self, key: &Arc<ObjectKey>, object: &Arc<T>) {
        for value in (self.values_of)(object) {
            self.values.entry(value).or_default().insert(key.clone(), object.clone());
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &T) {
        for value in (self.values_of)(object) {
            if let Some(objects) = self.values.get_mut(&value) {
                objects.remove(key);
                if objects.is_empty() {
                    self.values.remove(&value);
                }
            }
        }
    }
}

impl<T> Default for Indexer<T> {
    fn default() -> Self {
        let state = State { objects: BTreeMap::new(), indexes: BTreeMap::new() };
        Self { state: Arc::new(RwLock::new(state)) }
    }
}

impl<T> Clone for Indexer<T> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<T> Indexer<T> {
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.read().objects.get(key).map(|it| it.object.clone())
    }

    /// Sorted by key.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.read().objects.values().map(|it| it.object.clone()).collect()
    }

    /// Sorted by name.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.read()
            .objects
            .range::<ObjectKey, _>(ObjectKey::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, entry)| entry.object.clone())
            .collect()
    }

    /// Objects whose index function gave `value`, sorted by key; none when there is no such index.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<T>> {
        let state = self.read();
        let objects = state.indexes.get(index).and_then(|it| it.values.get(value));
        objects.map(|it| it.values().cloned().collect()).unwrap_or_default()
    }

    /// How many objects `by_index` would give, without making the list.
    pub fn count_by_index(&self, index: &'static str, value: &str) -> usize {
        let state = self.read();
        let objects = state.indexes.get(index).and_then(|it| it.values.get(value));
        objects.map_or(0, BTreeMap::len)
    }

    /// Whether the namespace has any object, without making the list.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let state = self.read();
        let mut from = state.objects.range::<ObjectKey, _>(ObjectKey::new(namespace, "")..);
        from.next().is_some_and(|(key, _)| key.namespace == namespace)
    }

    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn add_index(&self, name: &'static str, values_of: IndexFn<T>) {
        let mut state = self.write();
        if state.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values_of, values: BTreeMap::new() };
        for (key, entry) in &state.objects {
            index.insert(key, &entry.object);
        }
        state.indexes.insert(name, index);
    }

    pub(crate) fn entry(&self, key: &ObjectKey) -> Option<Entry<T>> {
        self.read().objects.get(key).cloned()
    }

    pub(crate) fn entries(&self) -> Vec<(Arc<ObjectKey>, Entry<T>)> {
        self.read().objects.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    pub(crate) fn insert(&self, key: &ObjectKey, entry: Entry<T>) {
        let mut state = self.write();
        let State { objects, indexes } = &mut *state;
        let known = objects.get_key_value(key).map(|(key, old)| (key.clone(), old.clone()));
        let key = known.as_ref().map_or_else(|| Arc::new(key.clone()), |(key, _)| key.clone());
        for index in indexes.values_mut() {
            if let Some((_, old)) = &known {
                index.remove(&key, &old.object);
            }
            index.insert(&key, &entry.object);
        }
        objects.insert(key, entry);
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        let mut state = self.write();
        let State { objects, indexes } = &mut *state;
        let Some(old) = objects.remove(key) else { return };
        for index in indexes.values_mut() {
            index.remove(key, &old.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apimachinery::ObjectKey;

    use super::{Entry, Indexer};

    /// Objects are `color name` texts.
    #[expect(clippy::ptr_arg, reason = "an index function takes the object type")]
    fn color(object: &String) -> Vec<String> {
        object.split(' ').next().map(str::to_owned).into_iter().collect()
    }

    fn put(indexer: &Indexer<String>, namespace: &str, name: &str, object: &str) {
        let entry = Entry { version: 1, object: Arc::new(object.to_owned()) };
        indexer.insert(&ObjectKey::new(namespace, name), entry);
    }

    fn check(found: Vec<Arc<String>>, expected: &[&str]) {
        let found: Vec<&str> = found.iter().map(|it| it.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_index_follows_changes_and_removals() {
        let indexer = Indexer::default();
        put(&indexer, "a", "1", "red 1");
        indexer.add_index("color", color);
        put(&indexer, "a", "2", "red 2");
        check(indexer.by_index("color", "red"), &["red 1", "red 2"]);
        put(&indexer, "a", "1", "blue 1");
        check(indexer.by_index("color", "red"), &["red 2"]);
        check(indexer.by_index("color", "blue"), &["blue 1"]);
        indexer.remove(&ObjectKey::new("a", "2"));
        check(indexer.by_index("color", "red"), &[]);
        check(indexer.by_index("size", "red"), &[]);
        assert_eq!(indexer.count_by_index("color", "blue"), 1);
        assert_eq!(indexer.count_by_index("color", "red"), 0);
    }

    #[test]
    fn a_namespace_is_not_mistaken_for_one_with_a_longer_name() {
        let indexer = Indexer::default();
        for (namespace, name) in [("a", "2"), ("ab", "1"), ("a", "1"), ("", "1")] {
            put(&indexer, namespace, name, &format!("{namespace}/{name}"));
        }
        check(indexer.list_namespace("a"), &["a/1", "a/2"]);
        check(indexer.list(), &["/1", "a/1", "a/2", "ab/1"]);
        assert!(indexer.has_namespace("a") && indexer.has_namespace("ab"));
        assert!(!indexer.has_namespace("aa") && !indexer.has_namespace("b"));
    }
}
