//! Who watches a resource, and who of them may be concerned by a change.
//!
//! Each watcher stands at one place: that of the object, of the value of a field, or of the
//! namespace that its selection is confined to; else among those who watch everything. A change is
//! offered to those at the places that the object is at, and was at before, so that it costs what
//! they cost and not what all cost.
//!
//! Worked example: kubelets stand at `spec.nodeName=n1`, `=n2` and so on. A pod that is bound to n2
//! is offered to those at `spec.nodeName=` (where it was) and at `=n2`; the one kubelet finds that
//! the pod matches now, and did not before: ADDED.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Meta;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::change::{Change, Event};
use super::selection::{Selection, field_of};

pub(super) struct Watcher {
    pub(super) selection: Selection,
    /// What happened up to here it knows already, or gets by another way.
    pub(super) since: u64,
    pub(super) queue: mpsc::Sender<Event>,
}

/// By the order of their arrival.
type Bucket = BTreeMap<u64, Watcher>;
/// No map and no bucket in it is empty.
type Buckets = BTreeMap<String, BTreeMap<String, Bucket>>;

/// Ordered maps throughout: the order in which watchers are woken must repeat.
#[derive(Default)]
pub(super) struct Watchers {
    everything: Bucket,
    namespaces: BTreeMap<String, Bucket>,
    /// By namespace and name. The namespace is empty for one name in all of them, and in cluster
    /// scope.
    objects: Buckets,
    /// By field and value.
    fields: Buckets,
    next: u64,
}

/// Where a watcher stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Everything,
    Namespace(String),
    Object { namespace: String, name: String },
    Field { field: String, value: String },
}

/// One watcher among all.
#[derive(Debug)]
pub(super) struct Ticket {
    place: Place,
    id: u64,
}

impl Watchers {
    pub(super) fn add(&mut self, watcher: Watcher) -> Ticket {
        let place = self.place_for(&watcher.selection);
        let id = self.next;
        self.next += 1;
        self.bucket_mut(&place).insert(id, watcher);
        Ticket { place, id }
    }

    /// Nothing happens if it is gone already.
    pub(super) fn remove(&mut self, ticket: &Ticket) {
        let id = &ticket.id;
        match &ticket.place {
            Place::Everything => {
                self.everything.remove(id);
            }
            Place::Namespace(namespace) => remove_at(&mut self.namespaces, namespace, id),
            Place::Object { namespace, name } => remove_in(&mut self.objects, namespace, name, id),
            Place::Field { field, value } => remove_in(&mut self.fields, field, value, id),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    /// One object is the least that there is to watch. Among the other places that the selection is
    /// confined to, the one where the fewest stand: those of a node and a phase spread over the
    /// nodes by themselves.
    fn place_for(&self, selection: &Selection) -> Place {
        let namespace = selection.exact_namespace();
        if let Some(name) = selection.exact_name() {
            let namespace = namespace.unwrap_or_default().to_owned();
            return Place::Object { namespace, name: name.to_owned() };
        }
        let fields = selection.exact_fields().map(|(field, value)| {
            let n_watchers = find(&self.fields, field, value).map_or(0, Bucket::len);
            let (field, value) = (field.to_owned(), value.to_owned());
            (n_watchers, Place::Field { field, value })
        });
        let namespace = namespace.map(|it| {
            let n_watchers = self.namespaces.get(it).map_or(0, Bucket::len);
            (n_watchers, Place::Namespace(it.to_owned()))
        });
        let least = fields.chain(namespace).min_by_key(|(n_watchers, _)| *n_watchers);
        least.map_or(Place::Everything, |(_, place)| place)
    }

    fn bucket_mut(&mut self, place: &Place) -> &mut Bucket {
        match place.clone() {
            Place::Everything => &mut self.everything,
            Place::Namespace(namespace) => self.namespaces.entry(namespace).or_default(),
            Place::Object { namespace, name } => {
                self.objects.entry(namespace).or_default().entry(name).or_default()
            }
            Place::Field { field, value } => {
                self.fields.entry(field).or_default().entry(value).or_default()
            }
        }
    }

    /// Offers a change to everybody whom it may concern. Who falls behind is let go: the queue ends
    /// after what is in it, and the client resumes from there.
    pub(super) fn offer(&mut self, change: &Arc<Change>) {
        let mut gone = Vec::new();
        self.visit(change, |place, bucket| {
            let leaving = bucket.iter().filter(|(_, it)| !it.offer(change)).map(|(id, _)| *id);
            gone.extend(leaving.map(|id| Ticket { place: place.to_place(), id }));
        });
        for ticket in gone {
            self.remove(&ticket);
        }
    }

    /// Every bucket at which the object of the change is, or was, once.
    fn visit(&self, change: &Change, mut visit: impl FnMut(Spot<'_>, &Bucket)) {
        visit(Spot::Everything, &self.everything);
        let key = &change.latest().meta.key;
        if let Some(bucket) = self.namespaces.get(&key.namespace) {
            visit(Spot::Namespace(&key.namespace), bucket);
        }
        let in_all = Some("").filter(|_| !key.namespace.is_empty());
        for namespace in in_all.into_iter().chain([key.namespace.as_str()]) {
            if let Some(bucket) = find(&self.objects, namespace, &key.name) {
                visit(Spot::Object(namespace, &key.name), bucket);
            }
        }
        for (field, buckets) in &self.fields {
            let now = change.object.as_ref().map(|it| value_of(&it.meta, field));
            let before = change.previous.as_ref().map(|it| value_of(&it.meta, field));
            let before = before.filter(|it| now != Some(*it));
            for value in now.into_iter().chain(before) {
                if let Some(bucket) = buckets.get(value) {
                    visit(Spot::Field(field, value), bucket);
                }
            }
        }
    }
}

/// A place, as it is looked up.
#[derive(Clone, Copy)]
enum Spot<'a> {
    Everything,
    Namespace(&'a str),
    Object(&'a str, &'a str),
    Field(&'a str, &'a str),
}

impl Spot<'_> {
    fn to_place(self) -> Place {
        let owned = str::to_owned;
        match self {
            Self::Everything => Place::Everything,
            Self::Namespace(it) => Place::Namespace(owned(it)),
            Self::Object(namespace, name) => {
                Place::Object { namespace: owned(namespace), name: owned(name) }
            }
            Self::Field(field, value) => Place::Field { field: owned(field), value: owned(value) },
        }
    }
}

/// A field that is not there counts as empty, as it does for selectors.
fn value_of<'a>(meta: &'a Meta, field: &str) -> &'a str {
    field_of(meta, field).unwrap_or("")
}

fn find<'a>(buckets: &'a Buckets, outer: &str, inner: &str) -> Option<&'a Bucket> {
    buckets.get(outer)?.get(inner)
}

fn remove_at(buckets: &mut BTreeMap<String, Bucket>, at: &str, id: &u64) {
    let Some(bucket) = buckets.get_mut(at) else { return };
    bucket.remove(id);
    if bucket.is_empty() {
        buckets.remove(at);
    }
}

fn remove_in(buckets: &mut Buckets, outer: &str, inner: &str, id: &u64) {
    let Some(inside) = buckets.get_mut(outer) else { return };
    remove_at(inside, inner, id);
    if inside.is_empty() {
        buckets.remove(outer);
    }
}

impl Watcher {
    /// Whether the watcher stays.
    fn offer(&self, change: &Arc<Change>) -> bool {
        if change.revision <= self.since {
            return true;
        }
        let Some(event) = change.seen_by(&self.selection) else { return true };
        match self.queue.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        }
    }
}
