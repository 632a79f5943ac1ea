//! Deciding what is queued, each command on top of the ones before it, until one needs the others
//! published first.

use std::collections::VecDeque;
use std::sync::{Arc, RwLockReadGuard};

use stdx::Random;

use super::reply::{Outcome, TxnReply};
use super::{Command, Reply};
use crate::embedded::core::{Core, Present};
use crate::embedded::log::BODY_BYTES_MAX;
use crate::embedded::record::commit_bytes;
use crate::state::{Commit, Drafted, Refused};
use crate::{Durability, Error, LeaseId, Op, RangeRequest, RangeResponse, Revision, Txn};

/// A batch that has as many bytes takes no more commands: it must fit into memory and into a
/// segment.
const BATCH_BYTES: usize = 16 << 20;

/// A read of an old revision, and what came of it.
type ReadPast = (RangeRequest, Result<RangeResponse, Error>);

#[derive(Default)]
pub(super) struct Batch {
    pub(super) commits: Vec<Arc<Commit>>,
    pub(super) answers: Vec<Answer>,
    /// Whether somebody waits for the disk.
    pub(super) is_durable: bool,
    /// What the commits take in the log.
    pub(super) bytes: usize,
    /// A commit was drafted that is not in the batch, so nothing more can be drafted on top of it.
    is_cut: bool,
}

pub(super) enum Answer {
    Txn(TxnReply, Outcome),
    Grant(Reply<LeaseId>, Result<LeaseId, Error>),
    Revoke(Option<Reply<Revision>>, Result<Revision, Error>),
}

impl Answer {
    pub(super) fn send(self) {
        match self {
            Self::Txn(reply, outcome) => reply.send(outcome),
            Self::Grant(reply, outcome) => drop(reply.send(outcome)),
            Self::Revoke(reply, outcome) => drop(reply.map(|it| it.send(outcome))),
        }
    }

    pub(super) fn fail(self, error: &Error) {
        match self {
            Self::Txn(reply, _) => Self::Txn(reply, Err(error.clone())),
            Self::Grant(reply, _) => Self::Grant(reply, Err(error.clone())),
            Self::Revoke(reply, _) => Self::Revoke(reply, Err(error.clone())),
        }
        .send();
    }
}

impl Batch {
    /// Takes commands from the front as long as they can share a sync: at least one.
    pub(super) fn decide(core: &Core, random: &Random, commands: &mut VecDeque<Command>) -> Self {
        let past = match commands.front() {
            Some(Command::Txn(txn, _)) => read_past(core, txn),
            _ => Vec::new(),
        };
        let mut batch = Self::default();
        let mut present = core.present();
        let mut drafted = Drafted::new(&present.state);
        drafted.keep_previous(core.hub.wants_previous());
        while !batch.is_full()
            && let Some(command) = commands.pop_front()
        {
            match command {
                // The past includes the transactions before it, so they come first.
                Command::Txn(txn, reply) if !batch.answers.is_empty() && reads_past(&txn) => {
                    commands.push_front(Command::Txn(txn, reply));
                    break;
                }
                Command::Txn(txn, reply) => {
                    present = batch.decide_txn(core, present, &mut drafted, (&txn, &past), reply);
                }
                Command::Grant(id, ttl, reply) => {
                    let id = id.unwrap_or_else(|| fresh_id(random, &present.state));
                    let commit = drafted.on(&present.state).grant(id, ttl);
                    let outcome =
                        commit.and_then(|it| batch.add(it, Durability::Durable)).map(|_| id);
                    batch.answers.push(Answer::Grant(reply, outcome));
                }
                Command::Revoke(id, reply) => {
                    let commit = drafted.on(&present.state).revoke(id);
                    let outcome = commit.and_then(|it| batch.add(it, Durability::Durable));
                    batch.answers.push(Answer::Revoke(reply, outcome));
                }
                command @ (Command::Txns(..)
                | Command::Compact(..)
                | Command::Reclaim(_)
                | Command::Close(_)) => {
                    commands.push_front(command);
                    break;
                }
            }
        }
        batch
    }

    /// While nothing can be written: reads are answered, the rest is refused.
    pub(super) fn refuse(core: &Core, commands: &mut VecDeque<Command>, why: &str) -> Self {
        let read_only = || Error::ReadOnly { why: why.to_owned() };
        let mut batch = Self::default();
        match commands.pop_front() {
            Some(Command::Txn(txn, reply)) => {
                let past = read_past(core, &txn);
                let present = core.present();
                let mut drafted = Drafted::new(&present.state);
                drop(batch.decide_txn(core, present, &mut drafted, (&txn, &past), reply));
                if !batch.commits.is_empty() {
                    batch.commits.clear();
                    batch.answers.drain(..).for_each(|it| it.fail(&read_only()));
                }
            }
            Some(Command::Grant(_, _, reply)) => drop(reply.send(Err(read_only()))),
            Some(Command::Revoke(_, reply)) => drop(reply.map(|it| it.send(Err(read_only())))),
            Some(command) => commands.push_front(command),
            None => {}
        }
        batch
    }

    /// Lets go of the present while it reads values that are not in memory, so that readers and the
    /// cleaner go on. The state stays as it is meanwhile: nobody else changes it.
    fn decide_txn<'a>(
        &mut self,
        core: &'a Core,
        mut present: RwLockReadGuard<'a, Present>,
        drafted: &mut Drafted,
        (txn, past): (&Txn, &[ReadPast]),
        reply: TxnReply,
    ) -> RwLockReadGuard<'a, Present> {
        let mut read = |request: &RangeRequest, _| {
            let read = past.iter().find(|it| it.0 == *request).map(|it| it.1.clone());
            read.expect("what a transaction reads of the past was read before it")
        };
        let decided = loop {
            match drafted.on(&present.state).txn(txn, &mut read) {
                Ok(decided) => break Ok(decided),
                Err(Refused::For(error)) => break Err(error),
                Err(Refused::Unread(unread)) => {
                    drop(present);
                    core.read_values(unread, drafted);
                    present = core.present();
                }
            }
        };
        let outcome = decided.and_then(|(response, commit)| {
            if let Some(commit) = commit {
                self.add(commit, txn.durability)?;
            }
            Ok(response)
        });
        self.answers.push(Answer::Txn(reply, outcome));
        present
    }

    /// Refuses a commit that is too large for the log.
    fn add(&mut self, commit: Commit, durability: Durability) -> Result<Revision, Error> {
        let revision = commit.revision;
        let size = commit_bytes(&commit);
        if size > BODY_BYTES_MAX {
            self.is_cut = true;
            let what = "the number of bytes that a transaction writes";
            return Err(Error::TooLarge { what, size, max: BODY_BYTES_MAX });
        }
        self.bytes += size;
        self.is_durable |= durability == Durability::Durable;
        self.commits.push(Arc::new(commit));
        Ok(revision)
    }

    fn is_full(&self) -> bool {
        self.is_cut || self.bytes >= BATCH_BYTES
    }
}

fn visit_past<'a>(txn: &'a Txn, visit: &mut dyn FnMut(&'a RangeRequest, Revision)) {
    for op in txn.then.iter().chain(&txn.otherwise) {
        match op {
            Op::Range(request) => {
                if let Some(at) = request.at {
                    visit(request, at);
                }
            }
            Op::Txn(nested) => visit_past(nested, visit),
            Op::Put(_) | Op::Delete(_) => {}
        }
    }
}

fn reads_past(txn: &Txn) -> bool {
    let mut reads = false;
    visit_past(txn, &mut |_, _| reads = true);
    reads
}

/// Both branches' reads of old revisions, done before anything is locked. What is not of the past
/// after all is not looked at.
fn read_past(core: &Core, txn: &Txn) -> Vec<ReadPast> {
    let mut read = Vec::new();
    // A transaction that is refused for its shape is not read for.
    if crate::state::check_txn(txn).is_ok() {
        visit_past(txn, &mut |request, at| {
            read.push((request.clone(), core.range_at(request, at)));
        });
    }
    read
}

/// Positive, as etcd's are.
fn fresh_id(random: &Random, state: &crate::state::State) -> LeaseId {
    loop {
        let id = i64::try_from(random.next_u64() >> 1).ok().and_then(LeaseId::new);
        if let Some(id) = id.filter(|it| state.lease(*it).is_none()) {
            return id;
        }
    }
}
