//! The objects, in memory, with a revision that grows and events for whoever watches.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::{GROUP, VERSION};

/// Events that a watcher may be behind.
const BEHIND_MAX: usize = 1_024;
/// Objects that are kept.
const OBJECTS_MAX: usize = 10_000;

/// Namespace and name.
type Key = (String, String);

/// What a client gets that asks for what cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Exists,
    Conflict,
    Invalid(String),
    Full,
}

/// One change.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) namespace: String,
    pub(super) line: String,
}

pub(super) struct Objects {
    all: BTreeMap<Key, Value>,
    revision: u64,
    events: broadcast::Sender<Event>,
}

impl Objects {
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::new(), revision: 1, events: broadcast::Sender::new(BEHIND_MAX) }
    }

    pub(super) fn create(&mut self, namespace: &str, mut object: Value) -> Result<Value, Refusal> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(Refusal::Invalid("metadata.name: Required value".to_owned()));
        }
        let key = (namespace.to_owned(), name);
        if self.all.contains_key(&key) {
            return Err(Refusal::Exists);
        }
        if self.all.len() >= OBJECTS_MAX {
            return Err(Refusal::Full);
        }
        self.revision += 1;
        object["metadata"]["uid"] =
            json!(format!("00000000-0000-4000-8000-{:012x}", self.revision));
        object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
        Ok(self.put("ADDED", key, object))
    }

    pub(super) fn update(&mut self, key: Key, mut object: Value) -> Result<Value, Refusal> {
        let found = self.all.get(&key).ok_or(Refusal::NotFound)?;
        if object["metadata"]["name"] != json!(key.1) {
            let why = "metadata.name: Invalid value: it must be that of the path";
            return Err(Refusal::Invalid(why.to_owned()));
        }
        let version = &object["metadata"]["resourceVersion"];
        if version.is_string() && *version != found["metadata"]["resourceVersion"] {
            return Err(Refusal::Conflict);
        }
        for kept in ["uid", "creationTimestamp"] {
            object["metadata"][kept] = found["metadata"][kept].clone();
        }
        self.revision += 1;
        Ok(self.put("MODIFIED", key, object))
    }

    fn put(&mut self, what: &str, key: Key, mut object: Value) -> Value {
        object["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
        object["kind"] = json!("Flunder");
        object["metadata"]["namespace"] = json!(key.0);
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell(what, &key.0, &object);
        self.all.insert(key, object.clone());
        object
    }

    pub(super) fn delete(&mut self, key: &Key) -> Result<Value, Refusal> {
        let mut object = self.all.remove(key).ok_or(Refusal::NotFound)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell("DELETED", &key.0, &object);
        Ok(object)
    }

    fn tell(&self, what: &str, namespace: &str, object: &Value) {
        let line = line(what, object);
        // Nobody may be listening.
        let _ = self.events.send(Event { namespace: namespace.to_owned(), line });
    }

    pub(super) fn get(&self, key: &Key) -> Result<Value, Refusal> {
        self.all.get(key).cloned().ok_or(Refusal::NotFound)
    }

    /// Of one namespace, or of all.
    pub(super) fn list(&self, namespace: Option<&str>) -> Value {
        json!({
            "kind": "FlunderList", "apiVersion": format!("{GROUP}/{VERSION}"),
            "metadata": {"resourceVersion": self.revision.to_string()},
            "items": self.of(namespace).collect::<Vec<_>>(),
        })
    }

    fn of(&self, namespace: Option<&str>) -> impl Iterator<Item = &Value> {
        let is_meant = move |key: &Key| namespace.is_none_or(|it| key.0 == it);
        self.all.iter().filter(move |it| is_meant(it.0)).map(|it| it.1)
    }

    /// What there is, unless the watcher has seen it, and what is to come.
    pub(super) fn watch(
        &self,
        namespace: Option<&str>,
        is_begun: bool,
    ) -> (String, broadcast::Receiver<Event>) {
        let present = self.of(namespace).filter(|_| !is_begun).map(|it| line("ADDED", it));
        (present.collect(), self.events.subscribe())
    }
}

fn line(what: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": what, "object": object}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn objects_come_change_and_go() {
        let mut objects = Objects::new();
        let key = ("ns".to_owned(), "a".to_owned());
        let created = objects.create("ns", named("a")).unwrap();
        assert_eq!(created["metadata"]["resourceVersion"], "2");
        assert_eq!(objects.create("ns", named("a")), Err(Refusal::Exists));
        assert!(matches!(objects.create("ns", json!({})), Err(Refusal::Invalid(_))));
        let (present, mut events) = objects.watch(Some("ns"), false);
        assert_eq!(present.lines().count(), 1);
        let mut changed = created.clone();
        changed["spec"] = json!({"reference": "b"});
        let changed = objects.update(key.clone(), changed).unwrap();
        assert_eq!(changed["metadata"]["uid"], created["metadata"]["uid"]);
        assert_eq!(objects.update(key.clone(), created), Err(Refusal::Conflict));
        assert!(matches!(objects.update(key.clone(), named("b")), Err(Refusal::Invalid(_))));
        objects.delete(&key).unwrap();
        assert_eq!(objects.delete(&key), Err(Refusal::NotFound));
        assert_eq!(objects.update(key, named("a")), Err(Refusal::NotFound));
        assert_eq!(objects.list(None)["items"], json!([]));
        let seen: Vec<String> = std::iter::from_fn(|| events.try_recv().ok())
            .map(|it| serde_json::from_str::<Value>(&it.line).unwrap()["type"].to_string())
            .collect();
        assert_eq!(seen, ["\"MODIFIED\"", "\"DELETED\""]);
    }
}
