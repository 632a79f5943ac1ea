//! Where the answer to a transaction goes: to one who waits for it, or to one who waits for
//! several.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Command, Reply};
use crate::{Error, Txn, TxnResponse};

pub(in crate::embedded) type Outcome = Result<TxnResponse, Error>;

pub(in crate::embedded) enum TxnReply {
    One(Reply<TxnResponse>),
    /// It is the one of this number.
    Of(Arc<Group>, usize),
}

/// Transactions that are answered together.
pub(in crate::embedded) struct Group(Mutex<Gathered>);

struct Gathered {
    outcomes: Vec<Outcome>,
    n_left: usize,
    /// `None` when it is answered.
    reply: Option<Reply<Vec<Outcome>>>,
}

impl From<Reply<TxnResponse>> for TxnReply {
    fn from(reply: Reply<TxnResponse>) -> Self {
        Self::One(reply)
    }
}

impl TxnReply {
    pub(super) fn send(self, outcome: Outcome) {
        match self {
            Self::One(reply) => drop(reply.send(outcome)),
            Self::Of(group, number) => group.note(number, outcome),
        }
    }
}

impl Group {
    fn note(&self, number: usize, outcome: Outcome) {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.outcomes[number] = outcome;
        gathered.n_left -= 1;
        if gathered.n_left == 0
            && let Some(reply) = gathered.reply.take()
        {
            let outcomes = std::mem::take(&mut gathered.outcomes);
            let _ = reply.send(Ok(outcomes));
        }
    }
}

/// One command for each.
pub(super) fn split(txns: Vec<Txn>, reply: Reply<Vec<Outcome>>) -> impl Iterator<Item = Command> {
    let n_left = txns.len();
    let outcomes = vec![Err(Error::Closed); n_left];
    let group = Arc::new(Group(Mutex::new(Gathered { outcomes, n_left, reply: Some(reply) })));
    let command = move |(number, txn)| Command::Txn(txn, TxnReply::Of(group.clone(), number));
    txns.into_iter().enumerate().map(command)
}
