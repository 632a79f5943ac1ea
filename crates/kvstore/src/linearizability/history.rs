//! What clients called and what they were answered, with the order of calls and answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Error, OpResult, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, txn_anywhere,
};

/// Operations in any order. The store was empty and at revision 1 before the first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub operations: Vec<Operation>,
    /// Whether revisions may be left out, as after a crash that lost relaxed writes.
    pub may_skip: bool,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub client: u32,
    /// A moment of a clock that all clients share.
    pub called: u64,
    /// `None`: it is not known whether it happened, nor when, if ever.
    pub answered: Option<(u64, Answer)>,
    pub call: Call,
}

#[derive(Clone, Debug)]
pub enum Call {
    Txn(Txn),
    Range(RangeRequest),
    Current,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Txn(TxnResponse),
    Range(RangeResponse),
    Current(Revision),
    /// It certainly did not happen.
    Refused,
}

impl Answer {
    /// Where the store was.
    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            Self::Txn(response) => Some(response.revision),
            Self::Range(response) => Some(response.revision),
            Self::Current(revision) => Some(*revision),
            Self::Refused => None,
        }
    }

    pub(super) fn has_written(&self) -> bool {
        matches!(self, Self::Txn(response) if has_written(response))
    }
}

fn has_written(response: &TxnResponse) -> bool {
    response.results.iter().any(|it| match it {
        OpResult::Put { .. } => true,
        OpResult::Delete { previous } => !previous.is_empty(),
        OpResult::Range(_) => false,
        OpResult::Txn(nested) => has_written(nested),
    })
}

/// Writes a history while clients use stores.
#[derive(Default)]
pub struct Recorder {
    clock: AtomicU64,
    operations: Mutex<Vec<Operation>>,
}

/// One caller of a store, one call at a time. A call that is given up is one without an answer.
pub struct Client {
    id: u32,
    store: Arc<dyn Store>,
    recorder: Arc<Recorder>,
}

impl Recorder {
    pub fn client(self: &Arc<Self>, id: u32, store: Arc<dyn Store>) -> Client {
        Client { id, store, recorder: self.clone() }
    }

    pub fn history(&self) -> History {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone();
        History { operations, may_skip: false }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn called(&self, client: u32, call: Call) -> usize {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.push(Operation { client, called: self.tick(), answered: None, call });
        operations.len() - 1
    }

    fn answered(&self, operation: usize, answer: Answer) {
        let answered = Some((self.tick(), answer));
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations[operation].answered = answered;
    }
}

impl Client {
    /// From now on it calls this one, as after a reconnect.
    pub fn turn_to(&mut self, store: Arc<dyn Store>) {
        self.store = store;
    }

    pub async fn txn(&self, txn: Txn) -> Result<TxnResponse, Error> {
        let operation = self.recorder.called(self.id, Call::Txn(txn.clone()));
        let result = txn_anywhere(&*self.store, txn).await;
        self.note(operation, &result, |it| Answer::Txn(it.clone()));
        result
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let operation = self.recorder.called(self.id, Call::Range(request.clone()));
        let result = self.store.range(request).await;
        self.note(operation, &result, |it| Answer::Range(it.clone()));
        result
    }

    pub async fn current(&self) -> Result<Revision, Error> {
        let operation = self.recorder.called(self.id, Call::Current);
        let result = self.store.current().await;
        self.note(operation, &result, |it| Answer::Current(*it));
        result
    }

    fn note<T>(&self, operation: usize, result: &Result<T, Error>, answer: fn(&T) -> Answer) {
        match result {
            Ok(response) => self.recorder.answered(operation, answer(response)),
            Err(error) if is_refusal(error) => self.recorder.answered(operation, Answer::Refused),
            Err(_) => {}
        }
    }
}

/// Whether the error says that nothing happened. A failed disk does not: what was written may turn
/// up later.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Compacted { .. }
        | Error::Future { .. }
        | Error::DuplicateKey { .. }
        | Error::KeyNotFound { .. }
        | Error::LeaseNotFound { .. }
        | Error::LeaseExists { .. }
        | Error::TooLarge { .. }
        | Error::Unavailable { .. } => true,
        Error::ReadOnly { .. } | Error::Uncertain { .. } | Error::Closed | Error::Io { .. } => {
            false
        }
    }
}
