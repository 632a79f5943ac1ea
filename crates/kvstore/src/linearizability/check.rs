//! The checker: first that no answer contradicts the order of calls and answers, then that a replay
//! in the order of revisions gives every answer. Where a revision has no known writer, writes
//! without an answer are tried.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::history::{Answer, Call, History, Operation};
use crate::reference::{self, Keys, Leases, Moment};
use crate::{Error, KeyValue, OpResult, Revision, Txn, TxnResponse};

/// How many places the search may visit. Only histories with very many writes without an answer
/// come near it.
const VISITS_MAX: usize = 1_000_000;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Violation {
    #[error("revision {} was given to two writes: {first:?} and {second:?}", revision.0)]
    RevisionReused { revision: Revision, first: Box<Operation>, second: Box<Operation> },
    #[error("revision {} had been answered before this was called, which went back: {operation:?}", seen.0)]
    WentBack { seen: Revision, operation: Box<Operation> },
    #[error(
        "what was written before cannot give this answer: {operation:?}; it would be {expected}"
    )]
    WrongAnswer { operation: Box<Operation>, expected: String },
    #[error("nobody can have written revision {}", revision.0)]
    NobodyWrote { revision: Revision },
    #[error("too many writes without an answer to decide")]
    Undecided,
}

/// That the history is linearizable.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut search = Search::new(history)?;
    check_order(&history.operations)?;
    let start = Position { revision: Revision(1), keys: Keys::new(), used: BTreeSet::new() };
    search.explore(start)
}

/// An operation that was answered, and not refused.
struct Answered<'a> {
    operation: &'a Operation,
    at: u64,
    answer: &'a Answer,
    revision: Revision,
}

fn answered(operation: &Operation) -> Option<Answered<'_>> {
    let (at, answer) = operation.answered.as_ref()?;
    Some(Answered { operation, at: *at, answer, revision: answer.revision()? })
}

/// A read that named its revision may be as old as it likes.
fn names_revision(operation: &Operation) -> bool {
    matches!(&operation.call, Call::Range(request) if request.at.is_some())
}

/// The highest revision that was answered before a moment.
struct Seen(BTreeMap<u64, Revision>);

impl Seen {
    fn new(operations: &[Operation]) -> Self {
        let mut answers: Vec<_> =
            operations.iter().filter_map(answered).map(|it| (it.at, it.revision)).collect();
        answers.sort();
        let mut highest = Revision(1);
        Self(
            answers
                .into_iter()
                .map(|(at, revision)| {
                    highest = highest.max(revision);
                    (at, highest)
                })
                .collect(),
        )
    }

    fn before(&self, moment: u64) -> Revision {
        self.0.range(..moment).next_back().map_or(Revision(1), |(_, it)| *it)
    }
}

fn check_order(operations: &[Operation]) -> Result<(), Violation> {
    let seen = Seen::new(operations);
    for Answered { operation, answer, revision, .. } in operations.iter().filter_map(answered) {
        let before = seen.before(operation.called);
        let goes_back = if answer.has_written() { revision <= before } else { revision < before };
        if goes_back && !names_revision(operation) {
            return Err(Violation::WentBack {
                seen: before,
                operation: Box::new(operation.clone()),
            });
        }
    }
    Ok(())
}

struct Search<'a> {
    writes: BTreeMap<Revision, Answered<'a>>,
    reads: BTreeMap<Revision, Vec<Answered<'a>>>,
    /// Writes without an answer, with the highest revision that was known when they were called.
    unanswered: Vec<(&'a Txn, Revision)>,
    /// What was seen of the writes of a revision.
    evidence: BTreeMap<Revision, BTreeMap<&'a Bytes, &'a Bytes>>,
    /// Where each value was seen last.
    values: BTreeMap<&'a Bytes, Revision>,
    last: Revision,
    may_skip: bool,
    failed: BTreeSet<Dead>,
    n_visits: usize,
    /// Of the path that came farthest.
    violation: Option<(Revision, Violation)>,
}

/// A place where all was tried: the next revision, the writes that were used, and the keys.
type Dead = (Revision, BTreeSet<usize>, Vec<(Bytes, Revision)>);

#[derive(Clone)]
struct Position {
    revision: Revision,
    keys: Keys,
    used: BTreeSet<usize>,
}

impl<'a> Search<'a> {
    fn new(history: &'a History) -> Result<Self, Violation> {
        let seen = Seen::new(&history.operations);
        let mut search = Self {
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            unanswered: Vec::new(),
            evidence: BTreeMap::new(),
            values: BTreeMap::new(),
            last: Revision(1),
            may_skip: history.may_skip,
            failed: BTreeSet::new(),
            n_visits: 0,
            violation: None,
        };
        for operation in &history.operations {
            if let Some(answered) = answered(operation) {
                search.add(answered)?;
            } else if let (None, Call::Txn(txn)) = (&operation.answered, &operation.call) {
                search.unanswered.push((txn, seen.before(operation.called)));
            }
        }
        Ok(search)
    }

    fn add(&mut self, answered: Answered<'a>) -> Result<(), Violation> {
        let revision = answered.revision;
        self.last = self.last.max(revision);
        match answered.answer {
            Answer::Txn(response) => self.note_txn(response),
            Answer::Range(response) => self.note(&response.entries),
            Answer::Current(_) | Answer::Refused => {}
        }
        if !answered.answer.has_written() {
            self.reads.entry(revision).or_default().push(answered);
        } else if let Some(first) = self.writes.get(&revision) {
            let first = Box::new(first.operation.clone());
            let second = Box::new(answered.operation.clone());
            return Err(Violation::RevisionReused { revision, first, second });
        } else {
            self.writes.insert(revision, answered);
        }
        Ok(())
    }

    fn note(&mut self, entries: &'a [KeyValue]) {
        for entry in entries.iter().filter(|it| !it.value.is_empty()) {
            let seen = self.evidence.entry(entry.mod_revision).or_default();
            seen.insert(&entry.key, &entry.value);
            self.values.insert(&entry.value, entry.mod_revision);
        }
    }

    fn note_txn(&mut self, response: &'a TxnResponse) {
        for result in &response.results {
            match result {
                OpResult::Put { previous } => self.note(previous.as_slice()),
                OpResult::Delete { previous } => self.note(previous),
                OpResult::Range(response) => self.note(&response.entries),
                OpResult::Txn(nested) => self.note_txn(nested),
            }
        }
    }

    /// Goes through all paths from a position, the deepest first.
    fn explore(&mut self, start: Position) -> Result<(), Violation> {
        let mut open = vec![start];
        while let Some(position) = open.pop() {
            self.n_visits += 1;
            if self.n_visits > VISITS_MAX {
                return Err(Violation::Undecided);
            }
            match self.follow(position) {
                Ok(choices) if choices.is_empty() => return Ok(()),
                Ok(choices) => open.extend(choices),
                Err((revision, violation)) => {
                    if self.violation.as_ref().is_none_or(|(farthest, _)| *farthest < revision) {
                        self.violation = Some((revision, violation));
                    }
                }
            }
        }
        let found = self.violation.take().map(|(_, violation)| violation);
        Err(found.unwrap_or(Violation::Undecided))
    }

    /// Replays until there is a choice: returns where it may go from there, nothing when it has
    /// come to the end.
    fn follow(&mut self, mut position: Position) -> Result<Vec<Position>, (Revision, Violation)> {
        loop {
            let here = position.revision;
            self.check_reads(&position).map_err(|it| (here, it))?;
            if here >= self.last {
                return Ok(Vec::new());
            }
            let next = Revision(here.0 + 1);
            if !self.writes.contains_key(&next) {
                return self.choices(&position);
            }
            let after = self.replay(&position, next).map_err(|it| (next, it))?;
            position = Position { revision: next, keys: after, used: position.used };
        }
    }

    fn check_reads(&self, position: &Position) -> Result<(), Violation> {
        for read in self.reads.get(&position.revision).into_iter().flatten() {
            let expected = match &read.operation.call {
                Call::Range(request) => {
                    Answer::Range(reference::select(&position.keys, request, position.revision))
                }
                Call::Current => Answer::Current(position.revision),
                Call::Txn(txn) => match run(position, txn) {
                    Ok((response, _)) => Answer::Txn(response),
                    Err(error) => return Err(wrong(read.operation, &error.to_string())),
                },
            };
            if expected != *read.answer {
                return Err(wrong(read.operation, &format!("{expected:?}")));
            }
        }
        Ok(())
    }

    fn replay(&self, position: &Position, revision: Revision) -> Result<Keys, Violation> {
        let write = &self.writes[&revision];
        let Call::Txn(txn) = &write.operation.call else {
            return Err(wrong(write.operation, "no write"));
        };
        match run(position, txn) {
            Ok((response, Some(after))) if Answer::Txn(response.clone()) == *write.answer => {
                Ok(after)
            }
            Ok((response, _)) => Err(wrong(write.operation, &format!("{response:?}"))),
            Err(error) => Err(wrong(write.operation, &error.to_string())),
        }
    }

    /// What may have happened at the next revision, the likeliest last.
    fn choices(&mut self, position: &Position) -> Result<Vec<Position>, (Revision, Violation)> {
        let next = Revision(position.revision.0 + 1);
        let summary = position.keys.values().map(|it| (it.key.clone(), it.mod_revision)).collect();
        if !self.failed.insert((next, position.used.clone(), summary)) {
            // It has been seen before what comes of this, and it says nothing new.
            return Err((Revision(0), Violation::NobodyWrote { revision: next }));
        }
        let nothing = BTreeMap::new();
        let evidence = self.evidence.get(&next).unwrap_or(&nothing);
        let mut choices = Vec::new();
        if self.may_skip && evidence.is_empty() {
            choices.push(Position { revision: next, ..position.clone() });
        }
        for (n, (txn, known)) in self.unanswered.iter().enumerate().rev() {
            if position.used.contains(&n) || next <= *known {
                continue;
            }
            let Ok((_, Some(keys))) = run(position, txn) else { continue };
            let agrees = |(key, value): (&&Bytes, &&Bytes)| {
                keys.get(*key).is_some_and(|it| it.mod_revision == next && it.value == **value)
            };
            if evidence.iter().all(agrees) {
                let mut used = position.used.clone();
                used.insert(n);
                let choice = Position { revision: next, keys, used };
                // What it writes was seen at another revision: then that is where it belongs,
                // unless values are not unique.
                match self.is_seen_elsewhere(&choice) {
                    true => choices.insert(0, choice),
                    false => choices.push(choice),
                }
            }
        }
        if choices.is_empty() {
            return Err((next, Violation::NobodyWrote { revision: next }));
        }
        Ok(choices)
    }
}

impl Search<'_> {
    fn is_seen_elsewhere(&self, choice: &Position) -> bool {
        let written = choice.keys.values().filter(|it| it.mod_revision == choice.revision);
        let is_seen = |entry: &KeyValue| {
            self.values.get(&entry.value).is_some_and(|it| *it != choice.revision)
        };
        written.into_iter().any(is_seen)
    }
}

/// Histories have no leases, and transactions that read the past are judged by their writes and
/// answers in the present.
fn run(position: &Position, txn: &Txn) -> Result<(TxnResponse, Option<Keys>), Error> {
    let leases = Leases::new();
    let now = Moment { keys: &position.keys, leases: &leases, revision: position.revision };
    let current = position.revision;
    reference::apply(now, txn, &mut |requested| Err(Error::Future { requested, current }))
}

fn wrong(operation: &Operation, expected: &str) -> Violation {
    Violation::WrongAnswer { operation: Box::new(operation.clone()), expected: expected.to_owned() }
}
