//! The form in which two runs are compared: what is each run's own (ids, times, addresses, names by
//! chance) is replaced by what it is, lists of objects are in order, events are counted once. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Whether the hashes of revisions are compared, which are made of the bytes that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashes {
    Shown,
    Hidden,
}

/// Of what was seen, by what it is of.
pub(crate) fn form(seen: &Value, namespace: &str, hashes: Hashes) -> Value {
    let names = names(seen, namespace, hashes);
    let mut normal = Map::new();
    for (what, items) in seen.as_object().into_iter().flatten() {
        let items = items.as_array().into_iter().flatten();
        let items: BTreeSet<String> = match what.as_str() {
            "v1 events" => items.filter_map(event).map(|it| written(&it, &names)).collect(),
            _ => items.map(|it| written(&object(it), &names)).collect(),
        };
        let items = items.iter().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        // The same objects but for their names count as often as they are there.
        normal.insert(what.clone(), items.collect());
    }
    let counts = seen.as_object().into_iter().flatten().filter(|(what, _)| *what != "v1 events");
    let counts: Map<String, Value> = counts
        .map(|(what, items)| (what.clone(), json!(items.as_array().map_or(0, Vec::len))))
        .collect();
    normal.insert("counts".to_owned(), counts.into());
    Value::Object(normal)
}

/// Sorted keys, and each name by chance replaced.
fn written(value: &Value, names: &BTreeMap<String, String>) -> String {
    let mut text = value.to_string();
    // The longest first: one may begin with the other.
    let mut all: Vec<_> = names.iter().collect();
    all.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, form) in all {
        text = text.replace(name.as_str(), form);
    }
    text
}

/// Names that chance or a hash has made, ids and the namespace, with what stands for them.
fn names(seen: &Value, namespace: &str, hashes: Hashes) -> BTreeMap<String, String> {
    let is_shown = hashes == Hashes::Shown;
    let mut names = BTreeMap::new();
    let lists = seen.as_object().into_iter().flatten();
    let lists = lists.filter(|(what, _)| *what != "v1 events");
    let objects = lists
        .flat_map(|(what, items)| items.as_array().into_iter().flatten().map(move |it| (what, it)));
    for (what, object) in objects {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        if !text("uid").is_empty() {
            names.insert(text("uid").to_owned(), "<uid>".to_owned());
        }
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        for (key, value) in labels.filter(|_| !is_shown) {
            if ["pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"]
                .contains(&key.as_str())
            {
                names.extend(value.as_str().map(|it| (it.to_owned(), "<hash>".to_owned())));
            }
        }
        let (name, is_made) = (text("name"), !object["metadata"]["ownerReferences"].is_null());
        let is_revision = is_shown && what.ends_with(" controllerrevisions");
        if !is_revision && (is_made || !text("generateName").is_empty()) {
            names.insert(name.to_owned(), by_chance(name));
        }
    }
    names.insert(namespace.to_owned(), "<namespace>".to_owned());
    names.retain(|name, form| name != form);
    names
}

/// `web-7d4b9c8f6-x2x4z` is `web-<hash>-<hash>`; ordinals and words stay.
fn by_chance(name: &str) -> String {
    let is_chance = |it: &str| {
        let is_small_number = it.len() <= 3 && it.bytes().all(|it| it.is_ascii_digit());
        let has_vowel = it.bytes().any(|it| b"aeiou".contains(&it));
        it.len() >= 5 && !is_small_number && !has_vowel
    };
    let mut parts = name.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |form, part| {
        format!("{form}-{}", if is_chance(part) { "<hash>" } else { part })
    })
}

/// Events that only we have: they say what an object waits for.
const EXPLANATIONS: [&str; 14] = [
    "BackOff",
    "ClaimStale",
    "CronJobSuspended",
    "DeadlineMissed",
    "DisruptionNotAllowed",
    "InUse",
    "ManagedElsewhere",
    "NextRun",
    "PodFailed",
    "PodNotAvailable",
    "PodNotReady",
    "PodTerminating",
    "PodsNotAvailable",
    "PodsTerminating",
];

/// Those of nodes and the scheduler are not the controllers'.
fn event(event: &Value) -> Option<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut reporter = text(&event["reportingComponent"]);
    if reporter.is_empty() {
        reporter = text(&event["source"]["component"]);
    }
    if matches!(reporter.as_str(), "default-scheduler" | "kubelet" | "xebec-simulator") {
        return None;
    }
    let reason = text(&event["reason"]);
    if EXPLANATIONS.contains(&reason.as_str()) {
        return None;
    }
    let mut message = text(&event["message"]);
    // We name the Jobs.
    if reason == "JobAlreadyActive" {
        message.truncate(message.find(": ").unwrap_or(message.len()));
    }
    let of = &event["involvedObject"];
    Some(json!({
        "type": event["type"], "reason": reason, "reporter": reporter,
        "of": format!("{} {}", text(&of["kind"]), by_chance(&text(&of["name"]))),
        "message": plain(&words(&message)),
    }))
}

/// A message with the names in it that chance has made replaced, also those of what is gone.
fn words(message: &str) -> String {
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
    let mut form = String::new();
    let mut rest = message;
    while !rest.is_empty() {
        let end = rest.find(|it| !is_name(it)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        form.push_str(&by_chance(word));
        let mut others = after.chars();
        form.extend(others.next());
        rest = others.as_str();
    }
    form
}

fn object(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in ["managedFields", "resourceVersion", "uid"] {
            metadata.remove(own);
        }
    }
    // Each cluster has its own authority and its own key.
    if object["type"] == "kubernetes.io/service-account-token" {
        for own in ["ca.crt", "token"] {
            let data = object["data"].as_object_mut();
            if let Some(value) = data.and_then(|it| it.get_mut(own)) {
                *value = Value::from(format!("<{own}>"));
            }
        }
    }
    // How many writes it took is the writer's own affair.
    if kind == "EndpointSlice" || !object["addressType"].is_null() {
        object["metadata"].as_object_mut().map(|it| it.remove("generation"));
    }
    // So is which of them had a time of its own.
    if let Some(metadata) = object["metadata"].as_object_mut()
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    // What only we say: why something is not done yet.
    if let Some(status) = object["status"].as_object_mut()
        && let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut)
    {
        conditions.retain(|it| it["type"] != "Waiting");
        for message in conditions.iter_mut().filter_map(|it| it.get_mut("message")) {
            *message = Value::from(words(message.as_str().unwrap_or_default()));
        }
        if conditions.is_empty() {
            status.remove("conditions");
        }
    }
    // Nodes, schedulers and the server say most of these.
    let is_pod = object["spec"]["containers"].is_array() && kind.is_empty() || kind == "Pod";
    if is_pod {
        let phase = object["status"]["phase"].clone();
        object["status"] = json!({ "phase": phase });
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("nodeName");
            spec.remove("volumes");
            for containers in ["containers", "initContainers"] {
                let containers = spec.get_mut(containers).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    container.as_object_mut().map(|it| it.remove("volumeMounts"));
                }
            }
        }
    }
    in_order(&mut object);
    plain_texts(object)
}

/// Lists that are sets.
fn in_order(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(in_order),
        Value::Object(fields) => {
            for (key, value) in fields {
                in_order(value);
                if [
                    "conditions",
                    "endpoints",
                    "addresses",
                    "notReadyAddresses",
                    "active",
                    "finalizers",
                    "taints",
                ]
                .contains(&key.as_str())
                    && let Some(items) = value.as_array_mut()
                {
                    items.sort_by_key(|it| plain_texts(it.clone()).to_string());
                }
            }
        }
        _ => {}
    }
}

fn plain_texts(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&text)),
        Value::Array(items) => items.into_iter().map(plain_texts).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, it)| (key, plain_texts(it)));
            fields.collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// Times, addresses, ids and nodes, whole words of a text.
fn plain(text: &str) -> String {
    if text.starts_with("-----BEGIN ") {
        return "<pem>".to_owned();
    }
    let word = |word: &str| {
        let bare = word.trim_matches(|it: char| !it.is_ascii_alphanumeric());
        let is_time = bare.len() >= 20 && bare.as_bytes()[4] == b'-' && bare.contains('T');
        let is_address = bare.parse::<std::net::IpAddr>().is_ok();
        let is_node = bare.starts_with("sim-");
        let is_id = bare.len() == 36 && bare.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
        let stands_for = match () {
            () if is_time => "<time>",
            () if is_address => "<address>",
            () if is_node => "<node>",
            () if is_id => "<uid>",
            () => return word.to_owned(),
        };
        word.replace(bare, stands_for)
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
