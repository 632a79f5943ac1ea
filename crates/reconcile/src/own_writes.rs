//! What a controller wrote and has not yet seen come back through its cache.
//!
//! A cache may be behind the controller's own writes, so a controller that counts pods in it could
//! create twice, and one that updates could plan the same update again, only to have it refused. It
//! notes what the server answered, and does not plan again for that owner until the cache shows
//! every note, or a while has passed: then the object was gone before the cache saw it, and looking
//! again is the better choice. Noting after the write is enough: one key is never worked on twice
//! at once.
//!
//! Worked example: ReplicaSet `web` creates `web-1` at version 7 and `web-2` at version 8, and
//! deletes `web-0`. The cache shows `web-1@7`: one note less. It shows `web-0` with a deletion
//! timestamp: one less. It shows `web-2@9`, since the scheduler was quicker than the watch: none
//! are left, and `web` may be planned again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{Identified, Meta};
use apimachinery::ObjectKey;
use informer::Indexer;
use tokio::time::Instant;

use crate::queue::Key;

/// How long to wait for a write to show up where nothing better is known: upstream's, too.
pub const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Notes of writes to objects of one kind, by owner: the key whose reconcile made the write. Made
/// by `Controller::own_writes`, which sees to it that an object that is deleted is not waited for.
pub struct OwnWrites<T, K = ObjectKey> {
    cache: Indexer<T>,
    patience: Duration,
    notes: Mutex<Notes<K>>,
}

/// Every object of `owner_of` has a note under that owner, and the other way round; no owner is
/// without notes.
struct Notes<K> {
    by_owner: BTreeMap<K, BTreeMap<ObjectKey, Note>>,
    owner_of: BTreeMap<ObjectKey, K>,
}

struct Note {
    awaited: Awaited,
    expires: Instant,
}

/// What the cache will show.
enum Awaited {
    /// This resourceVersion, or a later one.
    Version(u64),
    /// The same of the object with this uid, which it has shown before, or that it is gone: the
    /// change may have been the last.
    Change { uid: String, version: u64 },
    /// That the object with this uid is gone, or on its way.
    Deletion(String),
}

impl Awaited {
    fn is_shown<T: Identified>(&self, cached: Option<&T>) -> bool {
        match self {
            Self::Version(wanted) => cached.is_some_and(|it| it.version() >= *wanted),
            Self::Change { uid, version } => {
                cached.is_none_or(|it| it.uid() != uid || it.version() >= *version)
            }
            Self::Deletion(uid) => cached.is_none_or(|it| it.uid() != uid || it.is_deleting()),
        }
    }
}

impl<K> Default for Notes<K> {
    fn default() -> Self {
        Self { by_owner: BTreeMap::new(), owner_of: BTreeMap::new() }
    }
}

impl<K: Key> Notes<K> {
    fn insert(&mut self, owner: &K, object: ObjectKey, note: Note) {
        self.remove(&object);
        self.owner_of.insert(object.clone(), owner.clone());
        self.by_owner.entry(owner.clone()).or_default().insert(object, note);
    }

    fn remove(&mut self, object: &ObjectKey) {
        let Some(owner) = self.owner_of.remove(object) else { return };
        let Some(notes) = self.by_owner.get_mut(&owner) else { return };
        notes.remove(object);
        if notes.is_empty() {
            self.by_owner.remove(&owner);
        }
    }

    /// Note by note, and each that is shown is dropped: all calls together cost as much as there
    /// are notes.
    fn wait(
        &mut self,
        owner: &K,
        now: Instant,
        is_shown: impl Fn(&ObjectKey, &Awaited) -> bool,
    ) -> Option<Duration> {
        while let Some((object, note)) = self.by_owner.get(owner)?.first_key_value() {
            if note.expires > now && !is_shown(object, &note.awaited) {
                return Some(note.expires - now);
            }
            let object = object.clone();
            self.remove(&object);
        }
        None
    }

    fn forget(&mut self, owner: &K) {
        for object in self.by_owner.remove(owner).into_iter().flat_map(BTreeMap::into_keys) {
            self.owner_of.remove(&object);
        }
    }
}

impl<T: Identified, K: Key> OwnWrites<T, K> {
    pub(crate) fn new(cache: Indexer<T>, patience: Duration) -> Self {
        Self { cache, patience, notes: Mutex::default() }
    }

    fn notes(&self) -> MutexGuard<'_, Notes<K>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, owner: &K, object: ObjectKey, awaited: Awaited) {
        let expires = Instant::now() + self.patience;
        self.notes().insert(owner, object, Note { awaited, expires });
    }

    /// `written` is what the server answered to a create, an update or a patch.
    pub fn wrote(&self, owner: &K, written: &Meta) {
        self.note(owner, written.key.clone(), Awaited::Version(written.resource_version));
    }

    /// `written` is what the server made of `object`, which is from the cache. With the last
    /// finalizer a deleted object goes too: then that is what is waited for.
    pub fn changed(&self, owner: &K, object: &T, written: &Meta) {
        let version = written.resource_version.max(object.version() + 1);
        let uid = object.uid().to_owned();
        self.note(owner, object.key(), Awaited::Change { uid, version });
    }

    /// The server took the deletion of `object`.
    pub fn deleted(&self, owner: &K, object: &T) {
        self.note(owner, object.key(), Awaited::Deletion(object.uid().to_owned()));
    }

    /// How long to wait, at most, for the cache to show all that was written for the owner; absent
    /// when it does. An event comes before that. Ask before reading the cache: what it shows later
    /// does not count for what was read before.
    pub fn wait(&self, owner: &K) -> Option<Duration> {
        self.notes().wait(owner, Instant::now(), |object, awaited| {
            awaited.is_shown(self.cache.get(object).as_deref())
        })
    }

    /// The owner is gone.
    pub fn forget(&self, owner: &K) {
        self.notes().forget(owner);
    }

    /// The cache has lost the object: whatever was written to it is over.
    pub(crate) fn gone(&self, object: &T) {
        self.notes().remove(&object.key());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::core::config_map::ConfigMap;
    use apimachinery::ObjectKey;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::{Awaited, Note, Notes};

    /// `name@version`, with `!` at the end when it is being deleted; the uid is the name.
    fn object(text: &str) -> ConfigMap {
        let (name, rest) = text.split_once('@').unwrap();
        let version = rest.trim_end_matches('!');
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            resource_version: Some(version.to_owned()),
            deletion_timestamp: rest.ends_with('!').then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    /// `name@version` for a write, `-name` for a deletion; made at `now`, expire after five
    /// seconds.
    fn note(notes: &mut Notes<&'static str>, owner: &'static str, text: &str, now: Instant) {
        let expires = now + Duration::from_secs(5);
        let (object, awaited) = match text.strip_prefix('-') {
            Some(name) => (key(name), Awaited::Deletion(name.to_owned())),
            None => {
                let (name, version) = text.split_once('@').unwrap();
                (key(name), Awaited::Version(version.parse().unwrap()))
            }
        };
        notes.insert(&owner, object, Note { awaited, expires });
    }

    fn is_behind(
        notes: &mut Notes<&'static str>,
        owner: &'static str,
        cache: &[&str],
        now: Instant,
    ) -> bool {
        let cache: Vec<ConfigMap> = cache.iter().map(|it| object(it)).collect();
        let wait = notes.wait(&owner, now, |object, awaited| {
            awaited
                .is_shown(cache.iter().find(|it| it.metadata.name.as_ref() == Some(&object.name)))
        });
        wait.is_some()
    }

    #[test]
    fn an_owner_waits_until_all_that_it_wrote_is_shown_as_it_was_or_later() {
        let (mut notes, now) = (Notes::default(), Instant::now());
        for text in ["a@7", "b@8", "-c"] {
            note(&mut notes, "web", text, now);
        }
        assert!(is_behind(&mut notes, "web", &["c@1"], now));
        assert!(is_behind(&mut notes, "web", &["a@7", "b@7", "c@1"], now));
        assert!(!is_behind(&mut notes, "other", &[], now));
        assert!(is_behind(&mut notes, "web", &["a@7", "b@9", "c@1"], now));
        assert!(!is_behind(&mut notes, "web", &["b@9", "c@10!"], now));
        assert!(notes.by_owner.is_empty() && notes.owner_of.is_empty());
    }

    #[test]
    fn a_deletion_is_shown_by_absence_and_by_a_successor_of_that_name() {
        let mut notes = Notes::default();
        let now = Instant::now();
        note(&mut notes, "web", "-a", now);
        assert!(!is_behind(&mut notes, "web", &[], now));
        let mut successor = object("a@9");
        successor.metadata.uid = Some("another".to_owned());
        assert!(Awaited::Deletion("a".to_owned()).is_shown(Some(&successor)));
    }

    #[test]
    fn a_change_is_shown_by_a_later_version_and_by_absence() {
        let awaited = Awaited::Change { uid: "a".to_owned(), version: 7 };
        assert!(!awaited.is_shown(Some(&object("a@6!"))));
        assert!(awaited.is_shown(Some(&object("a@7!"))));
        assert!(awaited.is_shown::<ConfigMap>(None));
    }

    #[test]
    fn an_object_that_was_gone_before_the_cache_saw_it_is_waited_for_a_while_only() {
        let (mut notes, now) = (Notes::default(), Instant::now());
        note(&mut notes, "web", "a@7", now);
        assert!(is_behind(&mut notes, "web", &[], now + Duration::from_millis(4_999)));
        assert!(!is_behind(&mut notes, "web", &[], now + Duration::from_secs(5)));
    }

    #[test]
    fn a_deletion_that_is_seen_ends_the_wait() {
        let (mut notes, now) = (Notes::default(), Instant::now());
        note(&mut notes, "web", "a@7", now);
        notes.remove(&key("a"));
        assert!(!is_behind(&mut notes, "web", &[], now));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Note(usize, usize),
        Remove(usize),
        Forget(usize),
        Wait(usize),
    }

    const OWNERS: [&str; 3] = ["x", "y", "z"];
    const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..OWNERS.len(), 0..OBJECTS.len())
                .prop_map(|(owner, object)| Step::Note(owner, object)),
            (0..OBJECTS.len()).prop_map(Step::Remove),
            (0..OWNERS.len()).prop_map(Step::Forget),
            (0..OWNERS.len()).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn both_sides_of_the_notes_stay_equal(steps in prop::collection::vec(any_step(), 0..40)) {
            let (mut notes, now) = (Notes::default(), Instant::now());
            for step in steps {
                match step {
                    Step::Note(owner, object) => note(&mut notes, OWNERS[owner], &format!("{}@1", OBJECTS[object]), now),
                    Step::Remove(object) => notes.remove(&key(OBJECTS[object])),
                    Step::Forget(owner) => notes.forget(&OWNERS[owner]),
                    Step::Wait(owner) => _ = is_behind(&mut notes, OWNERS[owner], &["a@1"], now),
                }
                let listed = notes.by_owner.iter().flat_map(|(owner, it)| it.keys().map(move |object| (object, owner)));
                let mut listed: Vec<_> = listed.collect();
                listed.sort();
                prop_assert_eq!(listed, notes.owner_of.iter().collect::<Vec<_>>());
                prop_assert!(notes.by_owner.values().all(|it| !it.is_empty()));
            }
        }
    }
}
