//! Decides what becomes of an event: a new object, a higher count on an earlier one, or nothing.
//! Pure.
//!
//! Three rules, in this order, with client-go's numbers (tools/record/events_cache.go): similar
//! events that differ in their message alone are combined from the tenth on; the same event again
//! counts up; one object and source may say 25 things at once and then one every five minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::core::event::Event;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

const SIMILAR_MAX: usize = 10;
const SIMILAR_WINDOW: SignedDuration = SignedDuration::from_mins(10);
const BURST: f64 = 25.0;
const REFILL: SignedDuration = SignedDuration::from_mins(5);
/// Entries that each table may have; the one that was used longest ago makes room.
const ENTRIES_MAX: usize = 4096;

/// What somebody said about an object.
pub(super) struct Said {
    pub(super) about: ObjectReference,
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The whole event, and the patch that turns the stored one into it if there is one.
pub(super) struct Write {
    pub(super) event: Event,
    pub(super) patch: Option<Bytes>,
}

/// (kind, namespace, name, uid) of an object. One for all tables.
type About = Arc<(String, String, String, String)>;
type Similar = (About, &'static str, String);
/// What makes an event the same as an earlier one: also the part of the object that it is about,
/// such as one of a pod's containers. Similar events, and those that count against an object's
/// burst, may be about any part of it.
type Same = (Similar, String, String);

pub(super) struct Correlator {
    component: &'static str,
    /// The node whose component it is, if it belongs to one.
    host: Option<String>,
    similar: Table<Similar, BTreeSet<String>>,
    written: Table<Same, Earlier>,
    tokens: Table<About, f64>,
    /// The number in the last name that was given.
    last_number: u64,
}

/// What is written of an event that may come again.
struct Earlier {
    name: String,
    first: Timestamp,
    count: i32,
}

/// A bounded map that remembers when each entry was last used.
struct Table<K, V> {
    entries: BTreeMap<Arc<K>, Used<V>>,
    /// The same keys, in the order of their use.
    by_turn: BTreeMap<u64, Arc<K>>,
    last_turn: u64,
}

struct Used<V> {
    at: Timestamp,
    turn: u64,
    value: V,
}

impl<K: Ord, V> Table<K, V> {
    fn new() -> Self {
        Self { entries: BTreeMap::new(), by_turn: BTreeMap::new(), last_turn: 0 }
    }

    fn get(&self, key: &K) -> Option<(Timestamp, &V)> {
        self.entries.get(key).map(|it| (it.at, &it.value))
    }

    fn take(&mut self, key: &K) -> Option<(Timestamp, V)> {
        let used = self.entries.remove(key)?;
        self.by_turn.remove(&used.turn);
        Some((used.at, used.value))
    }

    fn insert(&mut self, key: K, now: Timestamp, value: V) {
        self.take(&key);
        self.last_turn += 1;
        let (key, turn) = (Arc::new(key), self.last_turn);
        self.by_turn.insert(turn, key.clone());
        self.entries.insert(key, Used { at: now, turn, value });
        if self.entries.len() > ENTRIES_MAX
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}

impl Correlator {
    pub(super) fn new(component: &'static str, host: Option<String>) -> Self {
        Self {
            component,
            host,
            similar: Table::new(),
            written: Table::new(),
            tokens: Table::new(),
            last_number: 0,
        }
    }

    pub(super) fn step(&mut self, said: Said, now: Timestamp) -> Option<Write> {
        let about = about_of(&said.about);
        if !self.take_token(&about, now) {
            return None;
        }
        let similar = (about, said.kind, said.reason.clone());
        let (message, topic) = self.combine(&similar, &said.message, now);
        let part = said.about.field_path.clone().unwrap_or_default();
        let key = (similar, part, topic);
        let (earlier, is_first) = match self.written.take(&key) {
            Some((_, it)) => (Earlier { count: it.count.saturating_add(1), ..it }, false),
            None => {
                let name = said.about.name.as_deref().unwrap_or_default();
                let name = format!("{name}.{:016x}", self.next_number(now));
                (Earlier { name, first: now, count: 1 }, true)
            }
        };
        let event = self.event(said, message, now, &earlier);
        self.written.insert(key, now, earlier);
        let patch = (!is_first).then(|| again(&event));
        Some(Write { event, patch })
    }

    /// The time in nanoseconds, as client-go names events: in a list, which is by name, an object's
    /// events stand in the order in which they came, though their times are to the second.
    fn next_number(&mut self, now: Timestamp) -> u64 {
        let now = u64::try_from(now.as_nanosecond()).unwrap_or_default();
        self.last_number = now.max(self.last_number + 1);
        self.last_number
    }

    fn take_token(&mut self, about: &About, now: Timestamp) -> bool {
        let tokens = match self.tokens.get(about) {
            None => BURST,
            Some((then, left)) => {
                let refilled = now.duration_since(then).as_secs_f64() / REFILL.as_secs_f64();
                (left + refilled.max(0.0)).min(BURST)
            }
        };
        let is_allowed = tokens >= 1.0;
        let left = if is_allowed { tokens - 1.0 } else { tokens };
        self.tokens.insert(about.clone(), now, left);
        is_allowed
    }

    /// The message to write, and what makes this event the same as an earlier one: its message, or
    /// nothing once it is combined with others.
    fn combine(&mut self, similar: &Similar, message: &str, now: Timestamp) -> (String, String) {
        let mut messages = match self.similar.take(similar) {
            Some((then, messages)) if now.duration_since(then) <= SIMILAR_WINDOW => messages,
            _ => BTreeSet::new(),
        };
        let is_combined = messages.len() + 1 >= SIMILAR_MAX && !messages.contains(message);
        if !is_combined {
            messages.insert(message.to_owned());
        }
        self.similar.insert(similar.clone(), now, messages);
        if is_combined {
            (format!("(combined from similar events): {message}"), String::new())
        } else {
            (message.to_owned(), message.to_owned())
        }
    }

    fn event(&self, said: Said, message: String, now: Timestamp, earlier: &Earlier) -> Event {
        let namespace = said.about.namespace.clone().filter(|it| !it.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(earlier.name.clone()),
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: said.about,
            type_: Some(said.kind.to_owned()),
            reason: Some(said.reason),
            message: Some(message),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: self.host.clone(),
            }),
            reporting_instance: self.host.clone(),
            reporting_component: Some(self.component.to_owned()),
            first_timestamp: Some(Time(earlier.first)),
            last_timestamp: Some(Time(now)),
            count: Some(earlier.count),
            ..Event::default()
        }
    }
}

fn about_of(about: &ObjectReference) -> About {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    Arc::new((text(&about.kind), text(&about.namespace), text(&about.name), text(&about.uid)))
}

/// A merge patch of the event that is written already.
fn again(event: &Event) -> Bytes {
    let patch = serde_json::json!({
        "count": event.count,
        "lastTimestamp": event.last_timestamp,
        "message": event.message,
    });
    Bytes::from(patch.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{Correlator, ENTRIES_MAX, Said, Table};

    struct Setup {
        correlator: Correlator,
        now: Timestamp,
    }

    fn setup() -> Setup {
        Setup { correlator: Correlator::new("test", None), now: Timestamp::UNIX_EPOCH }
    }

    impl Setup {
        /// `create web.0000000000000001 x1: text`, or `patch …`, or `drop`.
        fn say(&mut self, reason: &str, message: &str) -> String {
            self.say_of(None, reason, message)
        }

        fn say_of(&mut self, part: Option<&str>, reason: &str, message: &str) -> String {
            let about = ObjectReference {
                name: Some("web".to_owned()),
                namespace: Some("shop".to_owned()),
                field_path: part.map(str::to_owned),
                ..ObjectReference::default()
            };
            let (reason, message) = (reason.to_owned(), message.to_owned());
            let said = Said { about, kind: "Normal", reason, message };
            let write = self.correlator.step(said, self.now);
            let Some(write) = write else { return "drop".to_owned() };
            let verb = if write.patch.is_some() { "patch" } else { "create" };
            let event = write.event;
            let (name, text) = (event.metadata.name.unwrap(), event.message.unwrap());
            format!("{verb} {name} x{}: {text}", event.count.unwrap())
        }
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let (mut table, now) = (Table::new(), Timestamp::UNIX_EPOCH);
        for number in 0..ENTRIES_MAX {
            table.insert(number, now, number);
        }
        table.insert(0, now, 7);
        table.insert(ENTRIES_MAX, now, 0);
        assert_eq!((table.get(&0).map(|it| *it.1), table.get(&1)), (Some(7), None));
        assert_eq!((table.entries.len(), table.by_turn.len()), (ENTRIES_MAX, ENTRIES_MAX));
    }

    #[test]
    fn the_same_event_again_counts_up() {
        let mut it = setup();
        assert_eq!(it.say("Pulled", "a"), "create web.0000000000000001 x1: a");
        assert_eq!(it.say("Pulled", "a"), "patch web.0000000000000001 x2: a");
        assert_eq!(it.say("Pulled", "b"), "create web.0000000000000002 x1: b");
        assert_eq!(it.say("Failed", "a"), "create web.0000000000000003 x1: a");
        assert_eq!(it.say("Pulled", "a"), "patch web.0000000000000001 x3: a");
    }

    #[test]
    fn events_of_different_containers_are_different_events() {
        let mut it = setup();
        let (web, log) = (Some("spec.containers{web}"), Some("spec.containers{log}"));
        assert_eq!(it.say_of(web, "Started", "a"), "create web.0000000000000001 x1: a");
        assert_eq!(it.say_of(log, "Started", "a"), "create web.0000000000000002 x1: a");
        assert_eq!(it.say_of(web, "Started", "a"), "patch web.0000000000000001 x2: a");
    }

    #[test]
    fn names_are_in_the_order_of_time() {
        let mut it = setup();
        it.now = Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap();
        let names = ["a", "b"].map(|text| it.say("Pulled", text));
        // Twice in one nanosecond, as clocks allow.
        assert_eq!(names[0], "create web.17979cfe3d85cd15 x1: a");
        assert_eq!(names[1], "create web.17979cfe3d85cd16 x1: b");
        it.now -= SignedDuration::from_secs(1);
        assert_eq!(it.say("Pulled", "c"), "create web.17979cfe3d85cd17 x1: c");
    }

    #[test]
    fn from_the_tenth_on_similar_events_are_combined() {
        let mut it = setup();
        for number in 1..10 {
            assert!(it.say("Failed", &format!("error {number}")).starts_with("create"));
        }
        let combined = "(combined from similar events): error";
        assert_eq!(
            it.say("Failed", "error 10"),
            format!("create web.000000000000000a x1: {combined} 10")
        );
        assert_eq!(
            it.say("Failed", "error 11"),
            format!("patch web.000000000000000a x2: {combined} 11")
        );
        it.now += SignedDuration::from_mins(11);
        assert_eq!(it.say("Failed", "error 12"), "create web.00000099ab10c800 x1: error 12");
    }

    #[test]
    fn an_object_may_say_25_things_and_then_one_every_five_minutes() {
        let mut it = setup();
        for _ in 0..25 {
            assert_ne!(it.say("Pulled", "a"), "drop");
        }
        assert_eq!(it.say("Pulled", "a"), "drop");
        it.now += SignedDuration::from_mins(5);
        assert_ne!(it.say("Pulled", "a"), "drop");
        assert_eq!(it.say("Pulled", "a"), "drop");
    }

    #[test]
    fn events_about_cluster_scoped_objects_are_in_default() {
        let about =
            ObjectReference { name: Some("node-1".to_owned()), ..ObjectReference::default() };
        let (reason, message) = ("Ready".to_owned(), "ok".to_owned());
        let said = Said { about, kind: "Normal", reason, message };
        let write = Correlator::new("test", None).step(said, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(write.event.metadata.namespace.as_deref(), Some("default"));
    }
}
