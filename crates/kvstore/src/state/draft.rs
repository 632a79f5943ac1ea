//! Deciding transactions one after another, each on top of the ones before, without touching the state: what comes out is
//! made durable first and applied then.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::{Commit, LeaseChange, Page, Past, State, Undo, bounds, check_txn, merge};
use crate::{
    Compare, Error, Event, KeyRange, KeyValue, LeaseId, Op, OpResult, Put, PutLease, PutValue,
    RangeRequest, RangeResponse, Relation, Revision, Target, Txn, TxnResponse,
};

pub(crate) struct Draft<'a> {
    state: &'a State,
    revision: Revision,
    /// What the transactions so far made of their keys.
    changed: Undo,
    /// Leases that came (with their time) or went.
    leases: BTreeMap<LeaseId, Option<Duration>>,
}

/// What is decided before anything is changed, in the order of operations: which branches are taken, and what old revisions
/// say. After this nothing can fail.
#[derive(Default)]
struct Plan {
    branches: VecDeque<bool>,
    past: VecDeque<RangeResponse>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        let (changed, leases) = (BTreeMap::new(), BTreeMap::new());
        Self { state, revision: state.revision(), changed, leases }
    }

    fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        match self.changed.get(key) {
            Some(entry) => entry.as_ref(),
            None => self.state.get(key),
        }
    }

    fn visit<'s>(&'s self, range: &KeyRange, mut take: impl FnMut(&'s KeyValue)) {
        if let Some(key) = range.single() {
            self.get(key).into_iter().for_each(take);
        } else if let Some(bounds) = bounds(range) {
            let changed = self.changed.range::<[u8], _>(bounds);
            merge(self.state.entries(range), changed, &mut take);
        }
    }

    fn has_lease(&self, id: LeaseId) -> bool {
        match self.leases.get(&id) {
            Some(change) => change.is_some(),
            None => self.state.lease(id).is_some(),
        }
    }

    /// Decides one transaction. The commit is `None` when nothing changes.
    pub(crate) fn txn(
        &mut self,
        txn: &Txn,
        past: Past<'_>,
    ) -> Result<(TxnResponse, Option<Commit>), Error> {
        check_txn(txn)?;
        let mut plan = Plan::default();
        self.plan(txn, past, &mut plan)?;
        let mut events = Vec::new();
        let mut response = self.run(txn, &mut plan, &mut events);
        if events.is_empty() {
            return Ok((response, None));
        }
        self.revision = self.revision.next();
        set_revision(&mut response, self.revision);
        Ok((response, Some(Commit { revision: self.revision, events, leases: Vec::new() })))
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl: Duration) -> Result<Commit, Error> {
        if self.has_lease(id) {
            return Err(Error::LeaseExists { id });
        }
        self.leases.insert(id, Some(ttl));
        let leases = vec![LeaseChange::Granted { id, ttl }];
        Ok(Commit { revision: self.revision, events: Vec::new(), leases })
    }

    /// The lease goes with its keys.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Result<Commit, Error> {
        if !self.has_lease(id) {
            return Err(Error::LeaseNotFound { id });
        }
        let bound = self.state.lease(id).into_iter().flat_map(|it| &it.keys);
        let rebound = self.changed.keys();
        let mut keys: Vec<Bytes> = bound
            .chain(rebound)
            .filter(|key| self.get(key).is_some_and(|it| it.lease == Some(id)))
            .cloned()
            .collect();
        keys.sort();
        keys.dedup();
        let next = self.revision.next();
        let events: Vec<Event> = keys.iter().filter_map(|key| self.delete(key, next)).collect();
        if !events.is_empty() {
            self.revision = next;
        }
        self.leases.insert(id, None);
        let leases = vec![LeaseChange::Revoked { id }];
        Ok(Commit { revision: self.revision, events, leases })
    }

    fn plan(&self, txn: &Txn, past: Past<'_>, plan: &mut Plan) -> Result<(), Error> {
        let holds = txn.compares.iter().all(|it| self.holds(it));
        plan.branches.push_back(holds);
        for op in if holds { &txn.then } else { &txn.otherwise } {
            match op {
                Op::Put(put) => self.check_put(put)?,
                Op::Delete(_) => {}
                Op::Range(request) => match request.at {
                    None => {}
                    Some(at) if at > self.revision => {
                        let current = self.revision;
                        return Err(Error::Future { requested: at, current });
                    }
                    Some(at) if at == self.revision => plan.past.push_back(self.range(request)),
                    Some(at) => plan.past.push_back(past(request, at)?),
                },
                Op::Txn(nested) => self.plan(nested, past, plan)?,
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

    fn run(&mut self, txn: &Txn, plan: &mut Plan, events: &mut Vec<Event>) -> TxnResponse {
        let succeeded = plan.branches.pop_front().expect("a plan has a branch for each txn");
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let next = self.revision.next();
        let mut results = Vec::with_capacity(ops.len());
        for op in ops {
            results.push(match op {
                Op::Put(put) => {
                    let event = self.put(put, next);
                    let previous = event.previous.clone();
                    events.push(event);
                    OpResult::Put { previous }
                }
                Op::Delete(range) => {
                    let deleted = self.delete_range(range, next);
                    let previous = deleted.iter().filter_map(|it| it.previous.clone()).collect();
                    events.extend(deleted);
                    OpResult::Delete { previous }
                }
                Op::Range(request) => {
                    let past = request.at.and_then(|_| plan.past.pop_front());
                    OpResult::Range(past.unwrap_or_else(|| {
                        let revision = if events.is_empty() { self.revision } else { next };
                        RangeResponse { revision, ..self.range(request) }
                    }))
                }
                Op::Txn(nested) => OpResult::Txn(self.run(nested, plan, events)),
            });
        }
        TxnResponse { revision: self.revision, succeeded, results }
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let mut page = Page::new(request);
        self.visit(&request.range, |it| page.take(it));
        page.response(self.revision)
    }

    fn put(&mut self, put: &Put, revision: Revision) -> Event {
        let previous = self.get(&put.key).cloned();
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
        self.changed.insert(put.key.clone(), Some(entry.clone()));
        Event { key: put.key.clone(), value: Some(entry), previous, revision }
    }

    fn delete(&mut self, key: &Bytes, revision: Revision) -> Option<Event> {
        let previous = self.get(key)?.clone();
        self.changed.insert(key.clone(), None);
        Some(Event { key: key.clone(), value: None, previous: Some(previous), revision })
    }

    fn delete_range(&mut self, range: &KeyRange, revision: Revision) -> Vec<Event> {
        let mut keys = Vec::new();
        self.visit(range, |it| keys.push(it.key.clone()));
        keys.iter().filter_map(|key| self.delete(key, revision)).collect()
    }

    pub(super) fn holds(&self, compare: &Compare) -> bool {
        let (mut is_empty, mut holds) = (true, true);
        self.visit(&compare.keys, |entry| {
            is_empty = false;
            holds &= relates(compare, Some(entry));
        });
        if is_empty { relates(compare, None) } else { holds }
    }
}

/// `None` is a key that was never written.
fn relates(compare: &Compare, entry: Option<&KeyValue>) -> bool {
    let never = Revision(0);
    let ordering = match &compare.target {
        Target::CreateRevision(it) => entry.map_or(never, |e| e.create_revision).cmp(it),
        Target::ModRevision(it) => entry.map_or(never, |e| e.mod_revision).cmp(it),
        Target::Version(it) => entry.map_or(0, |e| e.version).cmp(it),
        Target::Lease(it) => {
            let number = |it: Option<LeaseId>| it.map_or(0, |id| id.0.get());
            number(entry.and_then(|e| e.lease)).cmp(&number(*it))
        }
        Target::Value(it) => match entry {
            Some(entry) => entry.value.cmp(it),
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
