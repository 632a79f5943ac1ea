//! The places against the plain way: every change held against every watcher.

use std::sync::Arc;

use api::{Meta, Stored};
use apimachinery::ObjectKey;
use apimachinery::selector::{Fields, Labels};
use client::WatchEventKind;
use proptest::prelude::*;
use tokio::sync::mpsc;

use super::{Ticket, Watcher, Watchers};
use crate::cache::change::{Change, Event};
use crate::cache::selection::Selection;

struct Place<'a> {
    namespace: &'a str,
    name: &'a str,
    fields: &'a str,
    labels: &'a str,
}

fn selection(Place { namespace, name, fields, labels }: Place<'_>) -> Selection {
    let given = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
    Selection {
        namespace: given(namespace),
        name: given(name),
        labels: Labels::parse(labels).unwrap(),
        fields: Fields::parse(fields).unwrap(),
    }
}

/// `node` is the value of `spec.nodeName`, `phase` that of `status.phase`.
fn object(key: &ObjectKey, node: &str, phase: &str, label: &str) -> Arc<Stored> {
    let meta = Meta {
        key: key.clone(),
        labels: [("app", label)].into(),
        fields: [("spec.nodeName", node), ("status.phase", phase)].into(),
        ..Meta::default()
    };
    Arc::new(Stored::new(meta, bytes::Bytes::new()))
}

fn add(
    watchers: &mut Watchers,
    selection: Selection,
    room: usize,
) -> (Ticket, mpsc::Receiver<Event>) {
    let (queue, receiver) = mpsc::channel(room);
    (watchers.add(Watcher { selection, since: 0, queue }), receiver)
}

fn heard(queue: &mut mpsc::Receiver<Event>) -> Vec<(u64, WatchEventKind)> {
    std::iter::from_fn(|| queue.try_recv().ok()).map(|it| (it.change.revision, it.kind)).collect()
}

fn selections() -> impl Strategy<Value = Selection> {
    let namespace = prop::sample::select(vec!["", "", "a", "b"]);
    let name = prop::sample::select(vec!["", "", "x", "y"]);
    let fields = prop::sample::select(vec![
        "",
        "",
        "spec.nodeName=n1",
        "spec.nodeName=",
        "spec.nodeName=n2,status.phase=Running",
        "status.phase=Running,spec.nodeName=n1",
        "spec.nodeName!=n1",
        "metadata.name=x",
        "metadata.namespace=b,status.phase!=Running",
        "metadata.name=y,spec.nodeName=n1",
        "spec.nodeName=n1,spec.nodeName=n2",
        "unknown=",
        "unknown=z",
    ]);
    let labels = prop::sample::select(vec!["", "app=1", "app!=1"]);
    (namespace, name, fields, labels).prop_map(|(namespace, name, fields, labels)| {
        selection(Place { namespace, name, fields, labels })
    })
}

/// What an object is made to be: `None` deletes it.
type Wanted = (ObjectKey, Option<(&'static str, &'static str, &'static str)>);

fn wanted() -> impl Strategy<Value = Wanted> {
    let namespace = prop::sample::select(vec!["", "a", "b"]);
    let name = prop::sample::select(vec!["x", "y", "z"]);
    let state = (
        prop::sample::select(vec!["", "n1", "n2"]),
        prop::sample::select(vec!["Pending", "Running"]),
        prop::sample::select(vec!["1", "2"]),
    );
    (namespace, name, prop::option::weighted(0.8, state))
        .prop_map(|(namespace, name, state)| (ObjectKey::new(namespace, name), state))
}

proptest! {
    #[test]
    fn everybody_hears_what_they_would_if_all_were_asked(
        selections in prop::collection::vec(selections(), 1..40),
        wanted in prop::collection::vec(wanted(), 1..60),
        leaving in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut watchers = Watchers::default();
        let mut present: Vec<_> = selections
            .into_iter()
            .map(|it| (it.clone(), add(&mut watchers, it, 1_000), Vec::new()))
            .collect();
        for index in leaving {
            if !present.is_empty() {
                let (_, (ticket, _), _) = present.remove(index.index(present.len()));
                watchers.remove(&ticket);
            }
        }
        let mut objects = std::collections::BTreeMap::new();
        for (revision, (key, state)) in (1..).zip(wanted) {
            let object = state.map(|(node, phase, label)| object(&key, node, phase, label));
            let previous = match object.clone() {
                Some(object) => objects.insert(key.clone(), object),
                None => objects.remove(&key),
            };
            if object.is_none() && previous.is_none() {
                continue;
            }
            let change = Arc::new(Change::new(object, previous, revision));
            for (selection, _, expected) in &mut present {
                expected.extend(change.seen_by(selection).map(|it| (revision, it.kind)));
            }
            watchers.offer(&change);
        }
        for (selection, (_, queue), expected) in &mut present {
            prop_assert_eq!(&heard(queue), expected, "{:?}", selection);
        }
        for (_, (ticket, _), _) in present {
            watchers.remove(&ticket);
        }
        prop_assert!(watchers.everything.is_empty() && watchers.namespaces.is_empty());
        prop_assert!(watchers.objects.is_empty() && watchers.fields.is_empty());
    }
}

/// How many watchers a change is offered to.
fn n_asked(watchers: &Watchers, change: &Change) -> usize {
    let mut n_asked = 0;
    watchers.visit(change, |_, bucket| n_asked += bucket.len());
    n_asked
}

#[test]
fn a_change_is_offered_to_those_at_its_places_alone() {
    let mut watchers = Watchers::default();
    let mut queues = Vec::new();
    let mut watch = |namespace: &str, name: &str, fields: &str| {
        let place = Place { namespace, name, fields, labels: "" };
        queues.push(add(&mut watchers, selection(place), 1));
    };
    for n in 0..1_000 {
        watch("", "", &format!("spec.nodeName=n{n}"));
        // The phase is the same for all: they stand by their nodes all the same.
        watch("", "", &format!("status.phase=Running,spec.nodeName=n{n}"));
        watch("", "", &format!("metadata.name=p{n}"));
        watch(&format!("ns{n}"), "", "");
        // The same name in every namespace, as kubelets watch `kube-root-ca.crt`.
        watch(&format!("ns{n}"), "p7", "");
    }
    let check = |before: Option<&str>, now: Option<&str>, expected: usize| {
        let key = ObjectKey::new("ns3", "p7");
        let object = |node| object(&key, node, "Running", "1");
        let change = Change::new(now.map(object), before.map(object), 1);
        assert_eq!(n_asked(&watchers, &change), expected, "{before:?} -> {now:?}");
    };
    // Its name in all namespaces, its namespace, itself; one or two nodes with two watchers each;
    // and the first two of those with a phase, who stand by it.
    check(None, Some("n5"), 3 + 2 + 2);
    check(Some("n5"), Some("n5"), 3 + 2 + 2);
    check(Some("n5"), Some("n6"), 3 + 4 + 2);
    check(Some("n6"), None, 3 + 2 + 2);
    check(Some(""), Some(""), 3 + 2);
}

#[test]
fn who_falls_behind_is_let_go_after_what_is_in_the_queue() {
    let mut watchers = Watchers::default();
    let place = || selection(Place { namespace: "a", name: "", fields: "", labels: "" });
    let (_slow, mut slow) = add(&mut watchers, place(), 2);
    let (_quick, mut quick) = add(&mut watchers, place(), 10);
    let key = ObjectKey::new("a", "x");
    for revision in 1..=4 {
        let object = object(&key, "", "", "");
        watchers.offer(&Arc::new(Change::new(Some(object), None, revision)));
    }
    let added = |revision| (revision, WatchEventKind::Added);
    assert_eq!(heard(&mut quick), [1, 2, 3, 4].map(added));
    assert_eq!(heard(&mut slow), [1, 2].map(added));
    assert!(slow.is_closed() && !quick.is_closed());
}
