//! Random webhooks and mutating policies on random objects, from seeds: what comes of it, who is asked
//! and in which order is what a model says that knows nothing of generations and rounds, but only of
//! what changed since.

mod policies;

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex};

use api::core::ConfigMap;
use apimachinery::User;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::hooks::{Bounds, Caller, Carry, Failure, Place, Target};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use stdx::{Random, World};
use telemetry::Registry;

use self::policies::Policy;
use super::{Blocked, Notice, Webhooks};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Chain, Phase, Plugin};
use crate::configuration::Configuration;
use crate::context::Context;
use crate::plugins::fixture::{Case, Nobody, Objects, decode, encode};
use crate::plugins::mutating_admission_policy::MutatingAdmissionPolicy;
use crate::plugins::mutating_webhook::MutatingWebhook;

const SEEDS: u64 = 2_000;
const KEYS: [&str; 6] =
    ["/data/a", "/data/b", "/data/c", "/metadata/labels/l", "/metadata/labels/m", "/data/n"];

/// Data and labels of an object, by their paths.
type Fields = BTreeMap<&'static str, String>;

/// What a webhook does. Not all of them are content to do it once.
#[derive(Clone, Copy, Debug)]
enum Does {
    Nothing,
    Set(&'static str, u64),
    Copy(&'static str, &'static str),
    Remove(&'static str),
    Count(&'static str),
    DenyIf(&'static str),
    Garbage,
}

impl Does {
    fn any(random: &Random) -> Self {
        let key = || pick(random, &KEYS);
        match random.below(12) {
            0 => Self::Nothing,
            1..=3 => Self::Set(key(), random.below(3)),
            4 | 5 => Self::Copy(key(), key()),
            6 | 7 => Self::Remove(key()),
            8 | 9 => Self::Count(key()),
            10 => Self::DenyIf(key()),
            _ => Self::Garbage,
        }
    }

    /// What the object should be; nothing if it says no or makes no sense.
    fn to(self, fields: &Fields) -> Option<Fields> {
        let mut after = fields.clone();
        match self {
            Self::Nothing => {}
            Self::Set(key, value) => {
                after.insert(key, value.to_string());
            }
            Self::Copy(from, to) => {
                if let Some(value) = fields.get(from) {
                    after.insert(to, value.clone());
                }
            }
            Self::Remove(key) => {
                after.remove(key);
            }
            Self::Count(key) => {
                let before = fields.get(key).and_then(|it| it.parse::<u64>().ok());
                after.insert(key, (before.unwrap_or_default() + 1).to_string());
            }
            Self::DenyIf(key) if fields.get(key).is_some_and(|it| it == "2") => return None,
            Self::DenyIf(_) => {}
            Self::Garbage => return None,
        }
        Some(after)
    }
}

#[derive(Clone, Debug)]
struct Hook {
    name: String,
    does: Does,
    is_reinvoked: bool,
    fails_open: bool,
    /// Only objects that have this label are its business.
    label: Option<&'static str>,
}

impl Hook {
    fn any(random: &Random, index: usize) -> Self {
        let label = ["/metadata/labels/l", "/metadata/labels/m"];
        Self {
            name: format!("h{index}.example.com"),
            does: Does::any(random),
            is_reinvoked: random.below(3) > 0,
            fails_open: random.below(2) == 0,
            label: (random.below(4) == 0).then(|| pick(random, &label)),
        }
    }

    fn manifest(&self) -> Value {
        let selector = self.label.map_or_else(
            || json!({}),
            |it| {
                let key = it.rsplit('/').next();
                json!({"matchExpressions": [{"key": key, "operator": "Exists"}]})
            },
        );
        json!({
            "name": self.name, "clientConfig": {"url": format!("https://localhost/{}", self.name)},
            "rules": [{
                "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }],
            "objectSelector": selector, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": if self.is_reinvoked { "IfNeeded" } else { "Never" },
            "failurePolicy": if self.fails_open { "Ignore" } else { "Fail" },
        })
    }

    fn matches(&self, fields: &Fields) -> bool {
        self.label.is_none_or(|it| fields.contains_key(it))
    }
}

fn pick(random: &Random, all: &[&'static str]) -> &'static str {
    all[random.below(all.len() as u64) as usize]
}

fn fields_of(object: &Value) -> Fields {
    let found = KEYS.iter().filter_map(|it| Some((*it, object.pointer(it)?.as_str()?.to_owned())));
    found.collect()
}

fn object_of(fields: &Fields) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ns", "labels": {}},
        "data": {},
    });
    for (path, value) in fields {
        let (folder, name) = path.rsplit_once('/').unwrap();
        object.pointer_mut(folder).unwrap()[name] = json!(value);
    }
    object
}

/// From one to the other, one step at a time.
fn patch(object: &Value, after: &Fields) -> Vec<Value> {
    let before = fields_of(object);
    let mut steps = Vec::new();
    for folder in ["/data", "/metadata/labels"] {
        if object.pointer(folder).is_none_or(Value::is_null) {
            steps.push(json!({"op": "add", "path": folder, "value": {}}));
        }
    }
    for path in before.keys().filter(|it| !after.contains_key(*it)) {
        steps.push(json!({"op": "remove", "path": path}));
    }
    for (path, value) in after.iter().filter(|(path, value)| before.get(*path) != Some(value)) {
        steps.push(json!({"op": "add", "path": path, "value": value}));
    }
    steps
}

/// Answers for all webhooks, and writes down who was asked.
struct Others {
    hooks: Vec<Hook>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Carry for Others {
    fn carry<'a>(
        &'a self,
        target: &'a Target,
        _url: &'a str,
        body: Bytes,
        _bounds: Bounds,
    ) -> BoxFuture<'a, Result<Bytes, Failure>> {
        let Place::Url { url } = target.place() else { panic!("all are known by their addresses") };
        let hook = self.hooks.iter().find(|it| url.ends_with(&it.name)).unwrap();
        self.asked.lock().unwrap().push(hook.name.clone());
        let review: Value = serde_json::from_slice(&body).unwrap();
        let request = &review["request"];
        let fields = fields_of(&request["object"]);
        let mut response = json!({"uid": request["uid"], "allowed": true});
        match hook.does.to(&fields) {
            None if matches!(hook.does, Does::Garbage) => {
                return Box::pin(ready(Ok(Bytes::from_static(b"<html>"))));
            }
            None => response["allowed"] = json!(false),
            Some(after) if after == fields => {}
            Some(after) => {
                let steps = json!(patch(&request["object"], &after)).to_string();
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(steps));
            }
        }
        let answer = json!({
            "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
        });
        Box::pin(ready(Ok(Bytes::from(answer.to_string()))))
    }
}

/// A plugin of ours: what one field says, another says too.
struct Mirror(&'static str, &'static str);

impl Mirror {
    fn to(&self, fields: &Fields) -> Fields {
        Does::Copy(self.0, self.1).to(fields).unwrap()
    }
}

impl Plugin for Mirror {
    fn name(&self) -> &'static str {
        "Mirror"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let before = fields_of(&encode(context.object().unwrap()));
        let after = self.to(&before);
        if after != before {
            *context.object_as_mut::<ConfigMap>().unwrap() = decode(&object_of(&after));
        }
        Box::pin(ready(Ok(())))
    }
}

struct Silent;

impl Notice for Silent {
    fn blocks_itself(&self, _blocked: Blocked) {}
}

/// Whom the rules would have asked, in order, and what would have come of it: `None` is a refusal.
struct Model<'a> {
    policies: &'a [Policy],
    hooks: &'a [Hook],
    mirrors: [&'a Mirror; 2],
    fields: Fields,
    /// How often anybody changed the object.
    n_changes: usize,
    /// As each left it, of those who want to know whether it changed since.
    left: BTreeMap<&'a str, usize>,
    asked: Vec<&'a str>,
}

impl<'a> Model<'a> {
    fn become_(&mut self, after: Fields) {
        self.n_changes += usize::from(after != self.fields);
        self.fields = after;
    }

    /// Who is due, of those who want to know whether it changed since they had their turn.
    fn is_due(&self, name: &str, is_again: bool) -> bool {
        match self.left.get(name) {
            Some(left) => *left != self.n_changes,
            None => !is_again,
        }
    }

    /// Whether no policy failed that must not. Whom the object concerns is found before the first;
    /// who fails does not keep the others from their turn.
    fn apply(&mut self, is_again: bool) -> bool {
        let policies = self.policies;
        let concerned: Vec<&Policy> =
            policies.iter().filter(|it| it.matches(&self.fields)).collect();
        let mut is_fine = true;
        for policy in concerned {
            if !self.is_due(&policy.name, is_again) {
                continue;
            }
            match policy.to(&self.fields) {
                Some(after) => self.become_(after),
                None => is_fine &= policy.fails_open,
            }
            if policy.is_reinvoked {
                self.left.insert(&policy.name, self.n_changes);
            }
        }
        is_fine
    }

    /// Whether no webhook refused it.
    fn ask(&mut self, is_again: bool) -> bool {
        for hook in self.hooks {
            if !self.is_due(&hook.name, is_again) || !hook.matches(&self.fields) {
                continue;
            }
            self.asked.push(&hook.name);
            match hook.does.to(&self.fields) {
                Some(after) => self.become_(after),
                None if matches!(hook.does, Does::Garbage) && hook.fails_open => {}
                None => return false,
            }
            if hook.is_reinvoked {
                self.left.insert(&hook.name, self.n_changes);
            }
        }
        true
    }

    fn run(mut self) -> (Vec<&'a str>, Option<Fields>) {
        let [first, last] = self.mirrors;
        self.become_(first.to(&self.fields));
        let before = self.n_changes;
        if !self.apply(false) || !self.ask(false) {
            return (self.asked, None);
        }
        let is_changed = self.n_changes != before;
        self.become_(last.to(&self.fields));
        if is_changed {
            self.become_(first.to(&self.fields));
            if !self.apply(true) || !self.ask(true) {
                return (self.asked, None);
            }
            self.become_(last.to(&self.fields));
        }
        (self.asked, Some(self.fields))
    }
}

/// Configured in any order, to be asked by the names of configurations.
fn configure(webhooks: &Webhooks, random: &Random, hooks: &[Hook]) {
    let n_each = 1 + random.below(3) as usize;
    let mut parts: Vec<(usize, &[Hook])> = hooks.chunks(n_each).enumerate().collect();
    if random.below(2) == 0 {
        parts.reverse();
    }
    for (index, part) in parts {
        let all: Vec<Value> = part.iter().map(Hook::manifest).collect();
        let name = format!("c{index}");
        let manifest = json!({"metadata": {"name": name}, "webhooks": all});
        webhooks.set_mutating(&name, Some(&decode(&manifest)));
    }
}

fn check(runtime: &tokio::runtime::Runtime, seed: u64) -> usize {
    let random = Random::from_seed(seed);
    let hooks: Vec<Hook> =
        (0..1 + random.below(7)).map(|it| Hook::any(&random, it as usize)).collect();
    let present = KEYS.iter().filter(|_| random.below(2) == 0);
    let fields: Fields = present.map(|it| (*it, random.below(3).to_string())).collect();
    let key = || pick(&random, &KEYS);
    let mirrors = [(key(), key()), (key(), key())];
    let policies: Vec<Policy> =
        (0..random.below(6)).map(|it| Policy::any(&random, it as usize)).collect();

    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let caller = Caller::over(Others { hooks: hooks.clone(), asked: asked.clone() });
    let (world, configuration) = (World::simulated(seed), Configuration::default());
    let webhooks =
        Webhooks::new(caller, &world, &Registry::default(), Arc::new(Silent), &configuration);
    let webhooks = Arc::new(webhooks.unwrap());
    configure(&webhooks, &random, &hooks);
    let [first, last] = mirrors.map(|(from, to)| Mirror(from, to));
    let chain = Chain::new(vec![
        Arc::new(Mirror(first.0, first.1)),
        Arc::new(MutatingAdmissionPolicy(policies::configure(&policies))),
        Arc::new(MutatingWebhook(webhooks)),
        Arc::new(Mirror(last.0, last.1)),
    ]);
    let user = User::new("alice", &[]);
    let case = Case { name: "", ..Case::of(Operation::Create, "/configmaps", &user) };
    let object: ConfigMap = decode(&object_of(&fields));
    let namespaces = Objects::default().with("namespaces", &json!({"metadata": {"name": "ns"}}));
    let found = case.with((&namespaces, &Nobody), (Some(&object), None), |context| {
        let outcome = runtime.block_on(chain.mutate(context));
        outcome.ok().map(|_| fields_of(&encode(context.object().unwrap())))
    });

    let (n_changes, left, would) = Default::default();
    let mirrors = [&first, &last];
    let model = Model {
        policies: &policies,
        hooks: &hooks,
        mirrors,
        fields,
        n_changes,
        left,
        asked: would,
    };
    let (expected_asked, expected) = model.run();
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!(asked, expected_asked, "seed {seed}: {policies:#?} {hooks:#?}");
    assert_eq!(found, expected, "seed {seed}: {policies:#?} {hooks:#?}");
    for hook in &hooks {
        let n_asked = asked.iter().filter(|it| **it == hook.name).count();
        assert!(n_asked <= 1 + usize::from(hook.is_reinvoked), "seed {seed}: {n_asked} {hook:?}");
    }
    asked.len().saturating_sub(hooks.len())
}

#[test]
fn who_is_asked_again_and_what_comes_of_it_is_as_the_model_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let n_again: usize = (0..SEEDS).map(|seed| check(&runtime, seed)).sum();
    assert!(n_again > SEEDS as usize / 10, "it tries something: {n_again}");
}
