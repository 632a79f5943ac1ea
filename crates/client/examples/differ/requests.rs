//! Ways to write a change of an object: the requests that say it. Pure.

use serde_json::{Map, Value, json};
use stdx::Random;

use crate::grow::pick;
use crate::place::{self, Change, Step, pointer};
use crate::schema::Schemas;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Create,
    Update,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    Apply,
    /// What is done to an object otherwise: see `seeds::Act`.
    Act,
}

impl Verb {
    pub(crate) const WRITES: &[Self] = &[
        Self::Update,
        Self::Update,
        Self::JsonPatch,
        Self::MergePatch,
        Self::StrategicPatch,
        Self::Apply,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::JsonPatch => "json patch",
            Self::MergePatch => "merge patch",
            Self::StrategicPatch => "strategic patch",
            Self::Apply => "apply",
            Self::Act => "act",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Create | Self::Act => "POST",
            Self::Update => "PUT",
            Self::JsonPatch | Self::MergePatch | Self::StrategicPatch | Self::Apply => "PATCH",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Create | Self::Update | Self::Act => "application/json",
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::StrategicPatch => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// What is asked: of both servers the same, but for what each has given the object itself.
pub(crate) struct Ask {
    pub(crate) verb: Verb,
    pub(crate) is_status: bool,
    pub(crate) method: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) path: String,
    /// Of upstream and of us.
    pub(crate) bodies: [String; 2],
    pub(crate) what: String,
}

/// An object that is there, as each server shows it, and what it was made from.
pub(crate) struct Live {
    pub(crate) manifest: Value,
    pub(crate) shown: [Value; 2],
}

pub(crate) struct Writer<'a> {
    pub(crate) schemas: &'a Schemas,
    /// Of the kind.
    pub(crate) schema: &'a Value,
    pub(crate) random: &'a Random,
    /// Where objects are posted.
    pub(crate) collection: &'a str,
}

impl Writer<'_> {
    pub(crate) fn create(&self, manifest: &Value, change: Option<&Change>) -> Ask {
        let mut object = manifest.clone();
        change.iter().for_each(|it| place::apply(&mut object, it));
        let body = object.to_string();
        let what = change.map_or_else(|| "as it is".to_owned(), ToString::to_string);
        self.ask(Verb::Create, false, String::new(), [body.clone(), body], what)
    }

    /// `document` is what the live object was made from, with a status when that is written.
    pub(crate) fn write(
        &self,
        verb: Verb,
        live: &Live,
        document: &Value,
        is_status: bool,
        change: &Change,
    ) -> Ask {
        let bodies = match verb {
            Verb::Create | Verb::Update | Verb::Act => {
                self.updates(live, document, is_status, change)
            }
            Verb::JsonPatch => twice(&self.operations(&live.shown[0], document, is_status, change)),
            Verb::MergePatch => twice(&self.patch(document, is_status, change, false)),
            Verb::StrategicPatch => twice(&self.patch(document, is_status, change, true)),
            Verb::Apply => twice(&applied(document, is_status, change)),
        };
        let name = live.manifest["metadata"]["name"].as_str().unwrap_or_default();
        let below = if is_status { "/status" } else { "" };
        let mut ask =
            self.ask(verb, is_status, format!("/{name}{below}"), bodies, change.to_string());
        if verb == Verb::Apply {
            let force = pick(self.random, &["true", "true", "false"]);
            ask.path = format!("{}&fieldManager=differ&force={force}", ask.path);
        }
        ask
    }

    fn ask(
        &self,
        verb: Verb,
        is_status: bool,
        below: String,
        bodies: [String; 2],
        what: String,
    ) -> Ask {
        let strictness = if self.random.below(10) == 0 { "Ignore" } else { "Strict" };
        let path = format!("{}{below}?dryRun=All&fieldValidation={strictness}", self.collection);
        let (method, content_type) = (verb.method(), verb.content_type());
        Ask { verb, is_status, method, content_type, path, bodies, what }
    }

    /// Either what each server shows, changed, or what the object was made from, changed.
    fn updates(
        &self,
        live: &Live,
        document: &Value,
        is_status: bool,
        change: &Change,
    ) -> [String; 2] {
        let from_shown = is_status || self.random.below(2) == 0;
        live.shown.each_ref().map(|shown| {
            let mut object = if from_shown { shown.clone() } else { document.clone() };
            if is_status {
                object["status"] = document["status"].clone();
            }
            object["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"].clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            place::apply(&mut object, change);
            object.to_string()
        })
    }

    fn operations(
        &self,
        shown: &Value,
        document: &Value,
        is_status: bool,
        change: &Change,
    ) -> Value {
        let mut operations = Vec::new();
        if is_status {
            operations.push(json!({"op": "add", "path": "/status", "value": document["status"]}));
        }
        let path = pointer(&change.place);
        let is_there = place::get(shown, &change.place).is_some();
        operations.push(match &change.value {
            None => json!({"op": "remove", "path": path}),
            Some(value) => {
                let op = if is_there && self.random.below(2) == 0 { "replace" } else { "add" };
                json!({"op": op, "path": path, "value": value})
            }
        });
        if self.random.below(8) == 0 {
            let other = pick(self.random, &["test", "copy", "move", "bogus"]);
            operations
                .push(json!({"op": other, "path": path, "from": "/metadata/labels", "value": 1}));
        }
        Value::Array(operations)
    }

    /// The least that says the change; of lists with keys, in strategic patches, the items' keys.
    fn patch(&self, document: &Value, is_status: bool, change: &Change, by_keys: bool) -> Value {
        let mut patch = Value::Object(Map::new());
        if is_status {
            patch["status"] = document["status"].clone();
            place::apply(&mut patch, change);
            return patch;
        }
        let mut changed = document.clone();
        place::apply(&mut changed, change);
        let is_list = |it: &Step| matches!(it, Step::Item(_));
        let n_fields = change.place.iter().position(is_list).unwrap_or(change.place.len());
        let (to_list, below) = change.place.split_at(n_fields);
        let value = match below {
            [] => change.value.clone().unwrap_or(Value::Null),
            _ if by_keys => self
                .keyed_item(document, change, n_fields)
                .unwrap_or_else(|| place::get(&changed, to_list).cloned().unwrap_or(Value::Null)),
            _ => place::get(&changed, to_list).cloned().unwrap_or(Value::Null),
        };
        place::apply(&mut patch, &Change { place: to_list.to_vec(), value: Some(value) });
        patch
    }

    /// `[{"name": "a", changed...}]`, or `[{"name": "a", "$patch": "delete"}]`.
    fn keyed_item(&self, document: &Value, change: &Change, n_fields: usize) -> Option<Value> {
        let (list, below) = (&change.place[..n_fields], &change.place[n_fields + 1..]);
        let schema = self.schemas.at(self.schema, list)?;
        let key = schema["x-kubernetes-patch-merge-key"].as_str()?;
        let item = place::get(document, &change.place[..=n_fields])?;
        let mut patch = json!({ key: item[key] });
        match (below, &change.value) {
            ([], None) => patch["$patch"] = json!("delete"),
            ([], Some(value)) => patch = value.clone(),
            (below, value) => {
                // Lists within are written whole.
                let is_list = |it: &Step| matches!(it, Step::Item(_));
                let n = below.iter().position(is_list).unwrap_or(below.len());
                let mut changed = item.clone();
                place::apply(&mut changed, &Change { place: below.to_vec(), value: value.clone() });
                let value = place::get(&changed, &below[..n]).cloned().unwrap_or(Value::Null);
                place::apply(
                    &mut patch,
                    &Change { place: below[..n].to_vec(), value: Some(value) },
                );
            }
        }
        Some(json!([patch]))
    }
}

fn applied(document: &Value, is_status: bool, change: &Change) -> Value {
    let mut object = document.clone();
    if is_status {
        object = json!({
            "apiVersion": document["apiVersion"], "kind": document["kind"],
            "metadata": {"name": document["metadata"]["name"]}, "status": document["status"],
        });
    }
    place::apply(&mut object, change);
    object
}

fn twice(body: &Value) -> [String; 2] {
    [body.to_string(), body.to_string()]
}
