//! What a controller wrote last to each object, so that it does not plan on a cache that is behind: the plan would be made
//! again, refused as a conflict, and made once more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::object::key_of;
use apimachinery::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// An entry means that the cache has not been seen at that resourceVersion or a later one; it is dropped as soon as it has.
/// Whoever finds the cache behind may just stop: the event of the write is on its way and wakes the owner.
#[derive(Default)]
pub(crate) struct OwnWrites(Mutex<BTreeMap<ObjectKey, u64>>);

fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|it| it.parse().ok()).unwrap_or(0)
}

impl OwnWrites {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `written` is what the server answered.
    pub(crate) fn note(&self, written: &ObjectMeta) {
        self.lock().insert(key_of(written), version(written));
    }

    /// Whether the cached object is as new as our last write of it.
    pub(crate) fn is_shown(&self, cached: &ObjectMeta) -> bool {
        let key = key_of(cached);
        let mut writes = self.lock();
        let is_shown = writes.get(&key).is_none_or(|it| version(cached) >= *it);
        if is_shown {
            writes.remove(&key);
        }
        is_shown
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::OwnWrites;

    fn meta(name: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_cache_is_behind_until_it_shows_our_write_or_a_later_one() {
        let writes = OwnWrites::default();
        assert!(writes.is_shown(&meta("a", "3")));
        writes.note(&meta("a", "9"));
        assert!(!writes.is_shown(&meta("a", "8")) && writes.is_shown(&meta("b", "8")));
        assert!(writes.is_shown(&meta("a", "10")));
        assert!(writes.lock().is_empty());
        writes.note(&meta("a", "12"));
        writes.forget(&api::object::key_of(&meta("a", "")));
        assert!(writes.is_shown(&meta("a", "11")));
    }
}
