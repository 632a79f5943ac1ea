//! Decides what becomes of an event: a new object, a higher count on an earlier one, or nothing. Pure.
//!
//! Three rules, in this order, with client-go's numbers (tools/record/events_cache.go): similar events that differ in
//! their message alone are combined from the tenth on; the same event again counts up; one object and source may say 25
//! things at once and then one every five minutes.

use std::collections::{BTreeMap, BTreeSet};

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

/// (kind, namespace, name, uid) of an object.
type About = (String, String, String, String);
type Similar = (About, &'static str, String);

pub(super) struct Correlator {
    component: &'static str,
    /// The node whose component it is, if it belongs to one.
    host: Option<String>,
    similar: Table<Similar, BTreeSet<String>>,
    written: Table<(Similar, String), Event>,
    tokens: Table<About, f64>,
}

/// A bounded map that remembers when each entry was last used.
struct Table<K, V>(BTreeMap<K, (Timestamp, V)>);

impl<K: Ord + Clone, V> Table<K, V> {
    fn insert(&mut self, key: K, now: Timestamp, value: V) {
        self.0.insert(key, (now, value));
        if self.0.len() > ENTRIES_MAX {
            let oldest =
                self.0.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|it| self.0.remove(&it));
        }
    }
}

impl Correlator {
    pub(super) fn new(component: &'static str, host: Option<String>) -> Self {
        Self {
            component,
            host,
            similar: Table(BTreeMap::new()),
            written: Table(BTreeMap::new()),
            tokens: Table(BTreeMap::new()),
        }
    }

    /// `suffix` makes names of new events different.
    pub(super) fn step(
        &mut self,
        said: Said,
        now: Timestamp,
        suffix: impl FnOnce() -> u64,
    ) -> Option<Write> {
        let about = about_of(&said.about);
        if !self.take_token(&about, now) {
            return None;
        }
        let similar = (about, said.kind, said.reason.clone());
        let (message, topic) = self.combine(&similar, &said.message, now);
        let key = (similar, topic);
        let write = match self.written.0.get(&key) {
            Some((_, earlier)) => again(earlier, message, now),
            None => Write { event: self.first(said, message, now, suffix()), patch: None },
        };
        self.written.insert(key, now, write.event.clone());
        Some(write)
    }

    fn take_token(&mut self, about: &About, now: Timestamp) -> bool {
        let tokens = match self.tokens.0.get(about) {
            None => BURST,
            Some((then, left)) => {
                let refilled = now.duration_since(*then).as_secs_f64() / REFILL.as_secs_f64();
                (left + refilled.max(0.0)).min(BURST)
            }
        };
        let is_allowed = tokens >= 1.0;
        let left = if is_allowed { tokens - 1.0 } else { tokens };
        self.tokens.insert(about.clone(), now, left);
        is_allowed
    }

    /// The message to write, and what makes this event the same as an earlier one: its message, or nothing once it is
    /// combined with others.
    fn combine(&mut self, similar: &Similar, message: &str, now: Timestamp) -> (String, String) {
        let mut messages = match self.similar.0.remove(similar) {
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

    fn first(&self, said: Said, message: String, now: Timestamp, suffix: u64) -> Event {
        let name = said.about.name.as_deref().unwrap_or_default();
        let namespace = said.about.namespace.clone().filter(|it| !it.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{suffix:016x}")),
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
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }
}

fn about_of(about: &ObjectReference) -> About {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    (text(&about.kind), text(&about.namespace), text(&about.name), text(&about.uid))
}

fn again(earlier: &Event, message: String, now: Timestamp) -> Write {
    let mut event = earlier.clone();
    event.count = Some(earlier.count.unwrap_or(1).saturating_add(1));
    event.last_timestamp = Some(Time(now));
    event.message = Some(message);
    let patch = serde_json::json!({
        "count": event.count,
        "lastTimestamp": event.last_timestamp,
        "message": event.message,
    });
    Write { event, patch: Some(Bytes::from(patch.to_string())) }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{Correlator, Said};

    struct Setup {
        correlator: Correlator,
        now: Timestamp,
        next: u64,
    }

    fn setup() -> Setup {
        Setup { correlator: Correlator::new("test", None), now: Timestamp::UNIX_EPOCH, next: 0 }
    }

    impl Setup {
        /// `create web.0000000000000001 x1: text`, or `patch …`, or `drop`.
        fn say(&mut self, reason: &str, message: &str) -> String {
            let about = ObjectReference {
                name: Some("web".to_owned()),
                namespace: Some("shop".to_owned()),
                ..ObjectReference::default()
            };
            let (reason, message) = (reason.to_owned(), message.to_owned());
            let said = Said { about, kind: "Normal", reason, message };
            let next = &mut self.next;
            let write = self.correlator.step(said, self.now, || {
                *next += 1;
                *next
            });
            let Some(write) = write else { return "drop".to_owned() };
            let verb = if write.patch.is_some() { "patch" } else { "create" };
            let event = write.event;
            let (name, text) = (event.metadata.name.unwrap(), event.message.unwrap());
            format!("{verb} {name} x{}: {text}", event.count.unwrap())
        }
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
        assert_eq!(it.say("Failed", "error 12"), "create web.000000000000000b x1: error 12");
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
        let write = Correlator::new("test", None).step(said, Timestamp::UNIX_EPOCH, || 1).unwrap();
        assert_eq!(write.event.metadata.namespace.as_deref(), Some("default"));
    }
}
