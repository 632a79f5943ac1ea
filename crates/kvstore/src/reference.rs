//! The store as one would explain it: every revision's keys as a map of their own, and nothing
//! clever. What engines and histories are judged by, so it shares no code with them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Compare, Error, Event, KeyRange, KeyValue, LeaseId, Op, OpResult, Previous, Put, PutLease,
    PutValue, RangeRequest, RangeResponse, Relation, Revision, TXN_OPS_MAX, Target, Txn,
    TxnResponse, Want,
};

pub type Keys = BTreeMap<Bytes, KeyValue>;
pub type Leases = BTreeMap<LeaseId, Duration>;

/// All that ever was, from revision 1 on.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The keys at revision `n + 1`.
    states: Vec<Keys>,
    leases: Leases,
    oldest: Revision,
}

impl Default for Reference {
    fn default() -> Self {
        Self { states: vec![Keys::new()], leases: Leases::new(), oldest: Revision(1) }
    }
}

impl Reference {
    pub fn revision(&self) -> Revision {
        Revision(self.states.len() as u64)
    }

    pub fn oldest(&self) -> Revision {
        self.oldest
    }

    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    pub fn keys(&self) -> &Keys {
        &self.states[self.states.len() - 1]
    }

    /// The keys at a revision, which must be there.
    pub fn keys_at(&self, revision: Revision) -> &Keys {
        &self.states[usize::try_from(revision.0 - 1).expect("a revision is an index here")]
    }

    pub fn txn(&mut self, txn: &Txn) -> Result<TxnResponse, Error> {
        let mut past = |at: Revision| self.check_readable(at).map(|()| self.keys_at(at).clone());
        let now = Moment { keys: self.keys(), leases: &self.leases, revision: self.revision() };
        let (response, after) = apply(now, txn, &mut past)?;
        self.states.extend(after);
        Ok(response)
    }

    pub fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let at = request.at.unwrap_or_else(|| self.revision());
        self.check_readable(at)?;
        Ok(select(self.keys_at(at), request, at))
    }

    pub fn compact(&mut self, through: Revision) -> Result<(), Error> {
        self.check_readable(through)?;
        self.oldest = through;
        Ok(())
    }

    pub fn check_readable(&self, at: Revision) -> Result<(), Error> {
        let (oldest, current) = (self.oldest, self.revision());
        if at < oldest {
            return Err(Error::Compacted { requested: at, oldest });
        }
        if at > current {
            return Err(Error::Future { requested: at, current });
        }
        Ok(())
    }

    pub fn grant(&mut self, id: LeaseId, ttl: Duration) -> Result<(), Error> {
        if self.leases.contains_key(&id) {
            return Err(Error::LeaseExists { id });
        }
        self.leases.insert(id, ttl);
        Ok(())
    }

    pub fn revoke(&mut self, id: LeaseId) -> Result<Revision, Error> {
        self.leases.remove(&id).ok_or(Error::LeaseNotFound { id })?;
        let mut left = self.keys().clone();
        left.retain(|_, it| it.lease != Some(id));
        if left.len() < self.keys().len() {
            self.states.push(left);
        }
        Ok(self.revision())
    }

    pub fn lease_keys(&self, id: LeaseId) -> Vec<Bytes> {
        let bound = self.keys().values().filter(|it| it.lease == Some(id));
        bound.map(|it| it.key.clone()).collect()
    }

    /// What happened at a revision, by key.
    pub fn events_at(&self, revision: Revision) -> Vec<Event> {
        changes(self.keys_at(Revision(revision.0 - 1)), self.keys_at(revision), revision)
    }

    /// What happened after a revision, by revision and key.
    pub fn events_after(&self, after: Revision) -> Vec<Event> {
        let revisions = after.0 + 1..=self.revision().0;
        revisions.flat_map(|it| self.events_at(Revision(it))).collect()
    }
}

/// What a transaction meets.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub keys: &'a Keys,
    pub leases: &'a Leases,
    pub revision: Revision,
}

/// The answer, and the keys afterwards if anything was written.
pub fn apply(
    now: Moment<'_>,
    txn: &Txn,
    past: &mut dyn FnMut(Revision) -> Result<Keys, Error>,
) -> Result<(TxnResponse, Option<Keys>), Error> {
    check_shape(txn)?;
    let mut after =
        After { now, keys: now.keys.clone(), has_written: false, previous: txn.previous };
    let mut response = after.run(txn, past)?;
    if !after.has_written {
        return Ok((response, None));
    }
    let revision = Revision(now.revision.0 + 1);
    name_revision(&mut response, revision);
    Ok((response, Some(after.keys)))
}

/// What differs between two successive states.
pub fn changes(before: &Keys, after: &Keys, revision: Revision) -> Vec<Event> {
    let mut keys: Vec<&Bytes> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| Event {
            key: key.clone(),
            value: after.get(key).cloned(),
            previous: before.get(key).cloned(),
            revision,
        })
        .collect()
}

pub fn select(keys: &Keys, request: &RangeRequest, revision: Revision) -> RangeResponse {
    let all: Vec<&KeyValue> = keys.values().filter(|it| request.range.contains(&it.key)).collect();
    let limit = if request.limit == 0 { all.len() } else { request.limit };
    let entries: Vec<KeyValue> = match request.want {
        Want::Count => Vec::new(),
        Want::Entries => all.iter().take(limit).map(|it| (*it).clone()).collect(),
        Want::Keys => all
            .iter()
            .take(limit)
            .map(|it| KeyValue { value: Bytes::new(), ..(*it).clone() })
            .collect(),
    };
    let has_more = request.want != Want::Count && entries.len() < all.len();
    RangeResponse { entries, has_more, count: all.len() as u64, revision }
}

struct After<'a> {
    now: Moment<'a>,
    keys: Keys,
    has_written: bool,
    previous: Previous,
}

impl After<'_> {
    fn run(
        &mut self,
        txn: &Txn,
        past: &mut dyn FnMut(Revision) -> Result<Keys, Error>,
    ) -> Result<TxnResponse, Error> {
        let succeeded = txn.compares.iter().all(|it| holds(self.now.keys, it));
        let mut results = Vec::new();
        for op in if succeeded { &txn.then } else { &txn.otherwise } {
            results.push(match op {
                Op::Put(put) => self.put(put)?,
                Op::Delete(range) => self.delete(range),
                Op::Range(request) => OpResult::Range(self.range(request, past)?),
                Op::Txn(nested) => OpResult::Txn(self.run(nested, past)?),
            });
        }
        Ok(TxnResponse { revision: self.now.revision, succeeded, results })
    }

    fn put(&mut self, put: &Put) -> Result<OpResult, Error> {
        let revision = Revision(self.now.revision.0 + 1);
        let previous = self.keys.get(&put.key).cloned();
        let missing = Error::KeyNotFound { key: put.key.clone() };
        let lease = match put.lease {
            PutLease::None => None,
            PutLease::Bound(id) if self.now.leases.contains_key(&id) => Some(id),
            PutLease::Bound(id) => return Err(Error::LeaseNotFound { id }),
            PutLease::Kept => previous.as_ref().ok_or_else(|| missing.clone())?.lease,
        };
        let value = match &put.value {
            PutValue::Bytes(bytes) => bytes.clone(),
            PutValue::Kept => previous.as_ref().ok_or(missing)?.value.clone(),
            PutValue::Stamped { bytes, at } => {
                let mut stamped = bytes.to_vec();
                let digits = revision.0.to_string().into_bytes();
                let at = (*at).min(stamped.len());
                stamped.splice(at..at, digits);
                Bytes::from(stamped)
            }
        };
        let (create_revision, version) = match &previous {
            Some(it) => (it.create_revision, it.version + 1),
            None => (revision, 1),
        };
        let key = put.key.clone();
        let entry = KeyValue {
            key: key.clone(),
            value,
            create_revision,
            mod_revision: revision,
            version,
            lease,
        };
        self.keys.insert(key, entry);
        self.has_written = true;
        Ok(OpResult::Put { previous: previous.map(|it| self.wanted(it)) })
    }

    fn delete(&mut self, range: &KeyRange) -> OpResult {
        let is_gone = |it: &&KeyValue| range.contains(&it.key);
        let previous: Vec<_> = self.keys.values().filter(is_gone).cloned().collect();
        self.keys.retain(|key, _| !range.contains(key));
        self.has_written |= !previous.is_empty();
        let previous = previous.into_iter().map(|it| self.wanted(it)).collect();
        OpResult::Delete { previous }
    }

    fn wanted(&self, previous: KeyValue) -> KeyValue {
        match self.previous {
            Previous::Entries => previous,
            Previous::Keys => KeyValue { value: Bytes::new(), ..previous },
        }
    }

    fn range(
        &self,
        request: &RangeRequest,
        past: &mut dyn FnMut(Revision) -> Result<Keys, Error>,
    ) -> Result<RangeResponse, Error> {
        match request.at {
            Some(at) => Ok(select(&past(at)?, request, at)),
            None => {
                let now = self.now.revision.0;
                let revision = Revision(if self.has_written { now + 1 } else { now });
                Ok(select(&self.keys, request, revision))
            }
        }
    }
}

fn holds(keys: &Keys, compare: &Compare) -> bool {
    let mut found: Vec<&KeyValue> =
        keys.values().filter(|it| compare.keys.contains(&it.key)).collect();
    let never = KeyValue {
        key: Bytes::new(),
        value: Bytes::new(),
        create_revision: Revision(0),
        mod_revision: Revision(0),
        version: 0,
        lease: None,
    };
    if found.is_empty() {
        if matches!(compare.target, Target::Value(_)) {
            return false;
        }
        found.push(&never);
    }
    let number = |it: Option<LeaseId>| it.map_or(0, |id| id.0.get());
    found.into_iter().all(|it| match &compare.target {
        Target::CreateRevision(target) => relates(compare.relation, &it.create_revision, target),
        Target::ModRevision(target) => relates(compare.relation, &it.mod_revision, target),
        Target::Version(target) => relates(compare.relation, &it.version, target),
        Target::Value(target) => relates(compare.relation, &it.value, target),
        Target::Lease(target) => relates(compare.relation, &number(it.lease), &number(*target)),
    })
}

fn relates<T: Ord>(relation: Relation, found: &T, target: &T) -> bool {
    match relation {
        Relation::Equal => found == target,
        Relation::NotEqual => found != target,
        Relation::Less => found < target,
        Relation::Greater => found > target,
    }
}

fn name_revision(response: &mut TxnResponse, revision: Revision) {
    response.revision = revision;
    for result in &mut response.results {
        if let OpResult::Txn(nested) = result {
            name_revision(nested, revision);
        }
    }
}

/// Every put and every delete that an operation might come to.
fn writes(op: &Op) -> (Vec<&Bytes>, Vec<&KeyRange>) {
    match op {
        Op::Put(put) => (vec![&put.key], vec![]),
        Op::Delete(range) => (vec![], vec![range]),
        Op::Range(_) => (vec![], vec![]),
        Op::Txn(txn) => {
            let parts = txn.then.iter().chain(&txn.otherwise).map(writes);
            parts.fold((vec![], vec![]), |mut all, (puts, deletes)| {
                all.0.extend(puts);
                all.1.extend(deletes);
                all
            })
        }
    }
}

fn check_shape(txn: &Txn) -> Result<(), Error> {
    let size = txn.compares.len().max(txn.then.len()).max(txn.otherwise.len());
    if size > TXN_OPS_MAX {
        return Err(Error::TooLarge { what: "transaction", size, max: TXN_OPS_MAX });
    }
    for branch in [&txn.then, &txn.otherwise] {
        for (n, op) in branch.iter().enumerate() {
            if let Op::Txn(nested) = op {
                check_shape(nested)?;
            }
            let (puts, deletes) = writes(op);
            for (other_puts, other_deletes) in branch[n + 1..].iter().map(writes) {
                let twice = puts.iter().find(|it| {
                    other_puts.contains(*it) || other_deletes.iter().any(|range| range.contains(it))
                });
                let deleted =
                    other_puts.iter().find(|it| deletes.iter().any(|range| range.contains(it)));
                if let Some(key) = twice.or(deleted) {
                    return Err(Error::DuplicateKey { key: (*key).clone() });
                }
            }
        }
    }
    Ok(())
}
