//! Deciding transactions one after another, each on top of the ones before, without touching the
//! state: what comes out is made durable first and applied then.
//!
//! A value that is wanted and not in memory makes the transaction come back with what is to be
//! read. It is decided again then, from its beginning, as often as that leads to something new.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::{
    Commit, Entry, LeaseChange, Merged, Page, Past, State, Undo, bounds, check_txn, merge,
};
use crate::{
    Compare, Error, Event, KeyRange, KeyValue, LeaseId, Op, OpResult, Previous, Put, PutLease,
    PutValue, RangeRequest, RangeResponse, Relation, Revision, Target, Txn, TxnResponse,
};

/// A look at the state, with what is drafted on top of it.
pub(crate) struct Draft<'a> {
    state: &'a State,
    drafted: &'a mut Drafted,
}

/// What the transactions so far come to. Nothing here points into the state, so that one can let go
/// of it meanwhile.
pub(crate) struct Drafted {
    revision: Revision,
    /// What the transactions made of their keys.
    changed: Undo,
    /// Leases that came (with their time) or went.
    leases: BTreeMap<LeaseId, Option<Duration>>,
    /// Whether events tell what was before if it is in memory, though no transaction asks for it.
    keeps_previous: bool,
    /// Values that were not in memory, by the revision that wrote them. What a revision wrote never
    /// changes.
    read: BTreeMap<Revision, BTreeMap<Bytes, Result<Bytes, Error>>>,
}

/// The value that a key got at a revision, which is not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) key: Bytes,
    pub(crate) revision: Revision,
}

/// Why a transaction is not decided. Nothing of it is in the draft.
#[derive(Debug)]
pub(crate) enum Refused {
    For(Error),
    /// These values are needed first.
    Unread(Vec<Unread>),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

/// What is decided before anything is changed, in the order of operations: which branches are
/// taken, and what old revisions say. After this only a value that has to be read can stop a
/// transaction.
#[derive(Default)]
struct Plan {
    branches: VecDeque<bool>,
    past: VecDeque<RangeResponse>,
}

/// One transaction while it is decided.
struct Run {
    previous: Previous,
    events: Vec<Event>,
    lacks_previous: bool,
    /// What `changed` had of the keys that it wrote, so that it can be taken back.
    replaced: Vec<(Bytes, Option<Option<KeyValue>>)>,
    needs: Needs,
}

/// What stands between a transaction and its values.
#[derive(Default)]
struct Needs {
    unread: Vec<Unread>,
    failed: Option<Error>,
}

impl Needs {
    fn check(&mut self) -> Result<(), Refused> {
        match self.failed.take() {
            Some(error) => Err(Refused::For(error)),
            None if self.unread.is_empty() => Ok(()),
            None => Err(Refused::Unread(std::mem::take(&mut self.unread))),
        }
    }
}

/// A key as a draft finds it.
#[derive(Clone, Copy)]
enum Seen<'a> {
    Changed(&'a KeyValue),
    Stored(&'a Entry),
}

impl Seen<'_> {
    fn entry(self) -> Entry {
        match self {
            Self::Changed(entry) => Entry::of(entry),
            Self::Stored(entry) => *entry,
        }
    }
}

impl Drafted {
    pub(crate) fn new(state: &State) -> Self {
        let (changed, leases, read) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { revision: state.revision(), changed, leases, keeps_previous: true, read }
    }

    /// Whether somebody wants to know what was before.
    pub(crate) fn keep_previous(&mut self, is_wanted: bool) {
        self.keeps_previous = is_wanted;
    }

    /// Goes on. The state must be what it was at the beginning.
    pub(crate) fn on<'a>(&'a mut self, state: &'a State) -> Draft<'a> {
        Draft { state, drafted: self }
    }

    /// What came of reading an `Unread`.
    pub(crate) fn note_read(&mut self, it: Unread, value: Result<Bytes, Error>) {
        self.read.entry(it.revision).or_default().insert(it.key, value);
    }
}

impl Draft<'_> {
    fn get(&self, key: &[u8]) -> Option<Seen<'_>> {
        match self.drafted.changed.get(key) {
            Some(entry) => entry.as_ref().map(Seen::Changed),
            None => self.state.get(key).map(Seen::Stored),
        }
    }

    fn visit(&self, range: &KeyRange, mut take: impl FnMut(&[u8], Seen<'_>)) {
        if let Some(key) = range.single() {
            match self.drafted.changed.get_key_value(key.as_ref()) {
                Some((key, entry)) => {
                    entry.iter().for_each(|it| take(key, Seen::Changed(it)));
                }
                None => self.state.entries(range).for_each(|(key, it)| take(key, Seen::Stored(it))),
            }
        } else if let Some(bounds) = bounds(range) {
            let changed = self.drafted.changed.range::<[u8], _>(bounds);
            merge(self.state.entries(range), changed, |key, found| match found {
                Merged::Entry(entry) => take(key, Seen::Stored(entry)),
                Merged::Other(other) => {
                    other.iter().for_each(|it| take(key, Seen::Changed(it)));
                }
            });
        }
    }

    /// The whole entry, if its value is in memory.
    fn resident(&self, key: &[u8], seen: Seen<'_>) -> Option<KeyValue> {
        match seen {
            Seen::Changed(entry) => Some(entry.clone()),
            Seen::Stored(entry) => self.state.value(key, entry.mod_revision).cloned(),
        }
    }

    /// The whole entry. Without its value, when that could not be read yet: `needs` says so then.
    fn read(&self, key: &[u8], seen: Seen<'_>, needs: &mut Needs) -> KeyValue {
        if let Some(entry) = self.resident(key, seen) {
            return entry;
        }
        let (entry, key) = (seen.entry(), Bytes::copy_from_slice(key));
        let read = self.drafted.read.get(&entry.mod_revision).and_then(|it| it.get(&key));
        let value = match read {
            Some(Ok(value)) => value.clone(),
            Some(Err(error)) => {
                needs.failed.get_or_insert_with(|| error.clone());
                Bytes::new()
            }
            None => {
                let revision = entry.mod_revision;
                needs.unread.push(Unread { key: key.clone(), revision });
                Bytes::new()
            }
        };
        entry.with_value(key, value)
    }

    fn has_lease(&self, id: LeaseId) -> bool {
        match self.drafted.leases.get(&id) {
            Some(change) => change.is_some(),
            None => self.state.lease(id).is_some(),
        }
    }

    /// Decides one transaction. The commit is `None` when nothing changes.
    pub(crate) fn txn(
        &mut self,
        txn: &Txn,
        past: Past<'_>,
    ) -> Result<(TxnResponse, Option<Commit>), Refused> {
        check_txn(txn)?;
        let (mut plan, mut run) = (Plan::default(), Run::new(txn.previous));
        self.plan(txn, past, &mut plan, &mut run.needs)?;
        run.needs.check()?;
        let mut response = self.run(txn, &mut plan, &mut run);
        if let Err(refused) = run.needs.check() {
            self.take_back(run);
            return Err(refused);
        }
        if run.events.is_empty() {
            return Ok((response, None));
        }
        self.drafted.revision = self.drafted.revision.next();
        set_revision(&mut response, self.drafted.revision);
        Ok((response, Some(run.commit(self.drafted.revision, Vec::new()))))
    }

    fn take_back(&mut self, run: Run) {
        for (key, before) in run.replaced.into_iter().rev() {
            match before {
                Some(before) => drop(self.drafted.changed.insert(key, before)),
                None => drop(self.drafted.changed.remove(&key)),
            }
        }
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl: Duration) -> Result<Commit, Error> {
        if self.has_lease(id) {
            return Err(Error::LeaseExists { id });
        }
        self.drafted.leases.insert(id, Some(ttl));
        let leases = vec![LeaseChange::Granted { id, ttl }];
        Ok(Run::new(Previous::Keys).commit(self.drafted.revision, leases))
    }

    /// The lease goes with its keys.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Result<Commit, Error> {
        if !self.has_lease(id) {
            return Err(Error::LeaseNotFound { id });
        }
        let bound = self.state.lease(id).into_iter().flat_map(|it| &it.keys);
        let rebound = self.drafted.changed.keys();
        let mut keys: Vec<Bytes> = bound
            .chain(rebound)
            .filter(|key| self.get(key).is_some_and(|it| it.entry().lease == Some(id)))
            .cloned()
            .collect();
        keys.sort();
        keys.dedup();
        let next = self.drafted.revision.next();
        let mut run = Run::new(Previous::Keys);
        keys.into_iter().for_each(|key| self.delete(key, next, &mut run));
        if !run.events.is_empty() {
            self.drafted.revision = next;
        }
        self.drafted.leases.insert(id, None);
        Ok(run.commit(self.drafted.revision, vec![LeaseChange::Revoked { id }]))
    }

    fn plan(
        &self,
        txn: &Txn,
        past: Past<'_>,
        plan: &mut Plan,
        needs: &mut Needs,
    ) -> Result<(), Refused> {
        let holds = txn.compares.iter().all(|it| self.holds(it, needs));
        // Which branch it is cannot be told before.
        needs.check()?;
        plan.branches.push_back(holds);
        for op in if holds { &txn.then } else { &txn.otherwise } {
            match op {
                Op::Put(put) => self.check_put(put)?,
                Op::Delete(_) => {}
                Op::Range(request) => match request.at {
                    None => {}
                    Some(at) if at > self.drafted.revision => {
                        let current = self.drafted.revision;
                        return Err(Error::Future { requested: at, current }.into());
                    }
                    Some(at) if at == self.drafted.revision => {
                        plan.past.push_back(self.range(request, needs));
                    }
                    Some(at) => plan.past.push_back(past(request, at)?),
                },
                Op::Txn(nested) => self.plan(nested, past, plan, needs)?,
            }
        }
        Ok(())
    }

    fn check_put(&self, put: &Put) -> Result<(), Error> {
        match put.lease {
            PutLease::Bound(id) if !self.has_lease(id) => return Err(Error::LeaseNotFound { id }),
            _ => {}
        }
        let keeps = put.value == PutValue::Kept || put.lease == PutLease::Kept;
        if keeps && self.get(&put.key).is_none() {
            return Err(Error::KeyNotFound { key: put.key.clone() });
        }
        Ok(())
    }

    fn run(&mut self, txn: &Txn, plan: &mut Plan, run: &mut Run) -> TxnResponse {
        let succeeded = plan.branches.pop_front().expect("a plan has a branch for each txn");
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let next = self.drafted.revision.next();
        let mut results = Vec::with_capacity(ops.len());
        for op in ops {
            let n_before = run.events.len();
            results.push(match op {
                Op::Put(put) => {
                    self.put(put, next, run);
                    OpResult::Put { previous: run.previous_since(n_before).next() }
                }
                Op::Delete(range) => {
                    let mut keys = Vec::new();
                    self.visit(range, |key, _| keys.push(Bytes::copy_from_slice(key)));
                    keys.into_iter().for_each(|key| self.delete(key, next, run));
                    OpResult::Delete { previous: run.previous_since(n_before).collect() }
                }
                Op::Range(request) => {
                    let past = request.at.and_then(|_| plan.past.pop_front());
                    OpResult::Range(past.unwrap_or_else(|| {
                        let has_written = !run.events.is_empty();
                        let revision = if has_written { next } else { self.drafted.revision };
                        RangeResponse { revision, ..self.range(request, &mut run.needs) }
                    }))
                }
                Op::Txn(nested) => OpResult::Txn(self.run(nested, plan, run)),
            });
        }
        TxnResponse { revision: self.drafted.revision, succeeded, results }
    }

    fn range(&self, request: &RangeRequest, needs: &mut Needs) -> RangeResponse {
        let mut page = Page::new(request);
        self.visit(&request.range, |key, seen| {
            page.take(key, &seen.entry(), || self.read(key, seen, needs));
        });
        page.response(self.drafted.revision)
    }

    fn put(&mut self, put: &Put, revision: Revision, run: &mut Run) {
        let keeps = put.value == PutValue::Kept;
        let previous = self.get(&put.key).map(|it| self.before(&put.key, it, keeps, run));
        let value = match &put.value {
            PutValue::Bytes(bytes) => bytes.clone(),
            PutValue::Stamped { bytes, at } => stamped(bytes, *at, revision),
            PutValue::Kept => previous.as_ref().map(|it| it.value.clone()).unwrap_or_default(),
        };
        let lease = match put.lease {
            PutLease::None => None,
            PutLease::Bound(id) => Some(id),
            PutLease::Kept => previous.as_ref().and_then(|it| it.lease),
        };
        let entry = KeyValue {
            key: put.key.clone(),
            value,
            create_revision: previous.as_ref().map_or(revision, |it| it.create_revision),
            mod_revision: revision,
            version: previous.as_ref().map_or(1, |it| it.version.saturating_add(1)),
            lease,
        };
        self.change(put.key.clone(), Some(entry.clone()), run);
        run.events.push(Event { key: put.key.clone(), value: Some(entry), previous, revision });
    }

    fn delete(&mut self, key: Bytes, revision: Revision, run: &mut Run) {
        let Some(seen) = self.get(&key) else { return };
        let previous = Some(self.before(&key, seen, false, run));
        self.change(key.clone(), None, run);
        run.events.push(Event { key, value: None, previous, revision });
    }

    fn change(&mut self, key: Bytes, entry: Option<KeyValue>, run: &mut Run) {
        let before = self.drafted.changed.insert(key.clone(), entry);
        run.replaced.push((key, before));
    }

    /// What the event says was before it: with the value if that costs nothing, or if it is wanted.
    fn before(&self, key: &Bytes, seen: Seen<'_>, is_needed: bool, run: &mut Run) -> KeyValue {
        if is_needed || run.previous == Previous::Entries {
            return self.read(key, seen, &mut run.needs);
        }
        let resident = self.drafted.keeps_previous.then(|| self.resident(key, seen)).flatten();
        resident.unwrap_or_else(|| {
            run.lacks_previous = true;
            seen.entry().with_value(key.clone(), Bytes::new())
        })
    }

    fn holds(&self, compare: &Compare, needs: &mut Needs) -> bool {
        let (mut is_empty, mut holds) = (true, true);
        self.visit(&compare.keys, |key, seen| {
            is_empty = false;
            let value = match &compare.target {
                Target::Value(_) => self.read(key, seen, needs).value,
                _ => Bytes::new(),
            };
            holds &= relates(compare, Some((&seen.entry(), &value)));
        });
        if is_empty { relates(compare, None) } else { holds }
    }
}

impl Run {
    fn new(previous: Previous) -> Self {
        let (events, replaced, needs) = (Vec::new(), Vec::new(), Needs::default());
        Self { previous, events, lacks_previous: false, replaced, needs }
    }

    fn commit(self, revision: Revision, leases: Vec<LeaseChange>) -> Commit {
        let Self { events, lacks_previous, .. } = self;
        Commit { revision, events, leases, lacks_previous }
    }

    /// What an operation took away, as far as the transaction wants to know.
    fn previous_since(&self, n_before: usize) -> impl Iterator<Item = KeyValue> {
        let wanted = |it: &KeyValue| match self.previous {
            Previous::Entries => it.clone(),
            Previous::Keys => Entry::of(it).with_value(it.key.clone(), Bytes::new()),
        };
        self.events[n_before..].iter().filter_map(move |it| it.previous.as_ref().map(wanted))
    }
}

/// `None` is a key that was never written.
fn relates(compare: &Compare, found: Option<(&Entry, &Bytes)>) -> bool {
    let never = Revision(0);
    let (entry, value) = found.unzip();
    let ordering = match &compare.target {
        Target::CreateRevision(it) => entry.map_or(never, |e| e.create_revision).cmp(it),
        Target::ModRevision(it) => entry.map_or(never, |e| e.mod_revision).cmp(it),
        Target::Version(it) => entry.map_or(0, |e| e.version).cmp(it),
        Target::Lease(it) => {
            let number = |it: Option<LeaseId>| it.map_or(0, |id| id.0.get());
            number(entry.and_then(|e| e.lease)).cmp(&number(*it))
        }
        Target::Value(it) => match value {
            Some(value) => value.cmp(it),
            None => return false,
        },
    };
    match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::NotEqual => ordering != Ordering::Equal,
        Relation::Less => ordering == Ordering::Less,
        Relation::Greater => ordering == Ordering::Greater,
    }
}

fn stamped(value: &Bytes, at: usize, revision: Revision) -> Bytes {
    let (before, after) = value.split_at_checked(at).unwrap_or((value, &[]));
    let digits = revision.0.to_string();
    Bytes::from([before, digits.as_bytes(), after].concat())
}

fn set_revision(response: &mut TxnResponse, revision: Revision) {
    response.revision = revision;
    for result in &mut response.results {
        if let OpResult::Txn(nested) = result {
            set_revision(nested, revision);
        }
    }
}
