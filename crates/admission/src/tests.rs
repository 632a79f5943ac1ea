//! The chain with plugins of its own: who runs when, what is kept, what is said beside the answer.

use std::future::ready;
use std::sync::{Arc, Mutex};

use api::core::Pod;
use apimachinery::{ApiError, User};
use serde_json::{Value, json};
use telemetry::logs::AuditId;

use crate::plugins::fixture::{Case, Nobody, Objects, decode, now, pod};
use crate::{
    Admitting, Attributes, Chain, Context, Deletion, Notes, Operation, Options, Phase, Plugin,
    Reinvocation, Reservation, Valid, Validating,
};

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// Of the object, as the plugins below read and write it.
fn labels(context: &Context<'_>) -> Vec<String> {
    let pod = context.object_as::<Pod>().unwrap();
    pod.metadata.labels.iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// Sets a label, if it is not there.
struct Labels(Log, &'static str);

impl Plugin for Labels {
    fn name(&self) -> &'static str {
        self.1
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate && request.operation == Operation::Create
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        self.0.push(self.1);
        if !labels(context).iter().any(|it| it == self.1) {
            let pod = context.object_as_mut::<Pod>().unwrap();
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert(self.1.to_owned(), String::new());
        }
        Box::pin(ready(Ok(())))
    }
}

/// As webhooks are: `ask` makes a tree of a tree, and each is asked again if the object is not as
/// it left it.
struct Outside(Log, Vec<fn(&mut Value)>);

#[derive(Default)]
struct Asked(Vec<u64>);

impl Plugin for Outside {
    fn name(&self) -> &'static str {
        "Outside"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
    }

    fn reinvocation(&self) -> Reinvocation {
        Reinvocation::Outside
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        for (index, ask) in self.1.iter().enumerate() {
            let generation = context.generation();
            let left = context.memory::<Asked>().0.get(index).copied();
            if left == Some(generation) {
                continue;
            }
            self.0
                .push(format!("hook-{index}{}", if context.is_reinvocation() { "!" } else { "" }));
            let mut tree = context.draft().unwrap().tree().clone();
            ask(&mut tree);
            context.replace(&tree).unwrap();
            let generation = context.generation();
            let asked = &mut context.memory::<Asked>().0;
            asked.resize(asked.len().max(index + 1), u64::MAX);
            asked[index] = generation;
        }
        Box::pin(ready(Ok(())))
    }
}

fn mutate(plugins: Vec<Arc<dyn Plugin>>, operation: Operation) -> Vec<String> {
    let user = User::new("alice", &[]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    let case = Case::of(operation, "/pods", &user);
    case.with((&Objects::default(), &Nobody), (Some(&object), None), |context| {
        let _mutated = now(Chain::new(plugins).mutate(context)).unwrap();
        labels(context)
    })
}

#[test]
fn plugins_run_once_and_in_order_where_nobody_outside_changes_anything() {
    let log = Log::default();
    let plugins = || -> Vec<Arc<dyn Plugin>> {
        vec![
            Arc::new(Labels(log.clone(), "a")),
            Arc::new(Labels(log.clone(), "b")),
            Arc::new(Outside(log.clone(), vec![|_| {}])),
        ]
    };
    assert_eq!(mutate(plugins(), Operation::Create), ["a", "b"]);
    assert_eq!(log.take(), "a b hook-0");
    assert_eq!(mutate(plugins(), Operation::Update), [""; 0]);
    assert_eq!(log.take(), "hook-0", "what does not handle an operation is not run");
}

#[test]
fn a_change_from_outside_makes_the_others_look_again_once() {
    fn label(tree: &mut Value) {
        tree["metadata"]["labels"]["hook"] = json!("");
    }
    fn drop_a(tree: &mut Value) {
        tree["metadata"]["labels"].as_object_mut().unwrap().remove("a");
    }
    let log = Log::default();
    let a: Arc<dyn Plugin> = Arc::new(Labels(log.clone(), "a"));
    let last: Arc<dyn Plugin> = Arc::new(Labels(log.clone(), "last"));
    // The first hook is asked again because of the second, the second because of what `a` restored,
    // and what that removes stays removed: nobody is asked a third time. The last plugin finds the
    // object as it left it the first time changed.
    let hooks = Arc::new(Outside(log.clone(), vec![label, drop_a]));
    let left = mutate(vec![a.clone(), hooks, last.clone()], Operation::Create);
    assert_eq!(log.take(), "a hook-0 hook-1 last a hook-0! hook-1! last");
    assert_eq!(left, ["hook", "last"]);
    // What runs after the change and finds nothing to do has left the object as it is.
    let hooks = Arc::new(Outside(log.clone(), vec![label]));
    let quiet = Arc::new(Labels(log.clone(), "hook"));
    mutate(vec![hooks, quiet], Operation::Create);
    assert_eq!(log.take(), "hook-0 hook");
}

/// Counts what it reserves, as a quota does.
struct Quota(Log);

struct Taken(Log, bool);

impl Reservation for Taken {
    fn keep(&mut self) {
        self.0.push("kept");
        self.1 = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.1 {
            self.0.push("back");
        }
    }
}

impl Plugin for Quota {
    fn name(&self) -> &'static str {
        "Quota"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Validate
    }

    fn validate<'a>(&'a self, _: &'a Context<'_>) -> Validating<'a> {
        self.0.push("taken");
        let taken: Box<dyn Reservation> = Box::new(Taken(self.0.clone(), false));
        Box::pin(ready(Ok(Some(taken))))
    }
}

struct Refuses;

impl Plugin for Refuses {
    fn name(&self) -> &'static str {
        "Refuses"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Validate
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(Err(context.forbidden("no"))))
    }
}

fn validate(plugins: Vec<Arc<dyn Plugin>>) -> Result<Valid, ApiError> {
    let user = User::new("alice", &[]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    let case = Case::of(Operation::Create, "/pods", &user);
    case.with((&Objects::default(), &Nobody), (Some(&object), None), |context| {
        let chain = Chain::new(plugins);
        let mutated = now(chain.mutate(context))?;
        now(chain.validate(mutated, context))
    })
}

#[test]
fn what_was_reserved_is_kept_with_the_write_or_given_back() {
    let log = Log::default();
    let quota = || Arc::new(Quota(log.clone()));
    validate(vec![quota(), quota()]).unwrap().keep();
    assert_eq!(log.take(), "taken taken kept kept");
    drop(validate(vec![quota()]).unwrap());
    assert_eq!(log.take(), "taken back");
    assert!(validate(vec![quota(), Arc::new(Refuses)]).is_err());
    assert_eq!(log.take(), "taken back", "by a later plugin's refusal");
}

#[test]
fn warnings_are_said_once_and_within_bounds() {
    let notes = Notes::default();
    for text in ["a", "", "b", "a"] {
        notes.warn(text);
    }
    assert_eq!(notes.warnings(), ["a", "b"]);
    // Up to 4096 characters they are whole; beyond, each is cut.
    notes.warn(&"ä".repeat(4094));
    assert_eq!(notes.warnings()[2].chars().count(), 4094);
    notes.warn("c");
    assert_eq!(notes.warnings()[2].chars().count(), 256);
    assert_eq!(notes.warnings()[3], "c");
    for index in 0..10_000 {
        notes.warn(&format!("{index:0300}"));
    }
    let total: usize = notes.warnings().iter().map(|it| it.chars().count()).sum();
    assert!(notes.warnings().len() == 19 && total < 4096 + 256, "{total}");
}

#[test]
fn the_first_audit_annotation_of_a_key_stays() {
    let notes = Notes::new(AuditId::new("4f1c"));
    notes.annotate("a.example.com/why", "first");
    notes.annotate("a.example.com/why", "second");
    notes.annotate("no-prefix", "x");
    notes.annotate("a.example.com/large", &"x".repeat(1 << 20));
    let annotations: Vec<_> = notes.annotations().into_iter().collect();
    assert_eq!(annotations, [("a.example.com/why".to_owned(), "first".to_owned())]);
    assert_eq!(notes.audit_id().unwrap().to_string(), "4f1c");
}

#[test]
fn options_are_of_the_operations_kind() {
    let options = Options {
        is_dry_run: true,
        field_manager: Some("kubectl"),
        field_validation: Some("Strict"),
        deletion: None,
    };
    let expected = json!({
        "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
        "fieldManager": "kubectl", "fieldValidation": "Strict",
    });
    assert_eq!(options.to_value(Operation::Create), Some(expected));
    assert_eq!(options.to_value(Operation::Connect), None);
    let deletion = Deletion {
        grace_period_seconds: Some(0),
        propagation_policy: Some("Foreground"),
        uid: Some("u"),
        resource_version: None,
    };
    let options = Options { deletion: Some(deletion), ..Options::default() };
    let expected = json!({
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
    });
    assert_eq!(options.to_value(Operation::Delete), Some(expected));
    let kind = Options::default().to_value(Operation::Update).unwrap()["kind"].clone();
    assert_eq!(kind, "UpdateOptions");
}
