//! The one thread that writes. Takes whatever is queued, decides it in order, makes it durable with one
//! commit, publishes it, and only then answers: acknowledged means synced. Never waits for more work to
//! come, so a lone write costs one sync.

use std::sync::Arc;

use redb::Database;
use stdx::{Backoff, error_chain};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::core::Core;
use super::record::Record;
use super::slot::{io, read_commits};
use super::sweep;
use super::tables::LOG;
use crate::state::{Commit, Draft};
use crate::{Error, Revision, Txn, TxnResponse};

/// Commands that one commit may carry.
const BATCH_COMMANDS: usize = 1024;

pub(super) enum Command {
    Txn(Txn, oneshot::Sender<Result<TxnResponse, Error>>),
    Compact(Revision, oneshot::Sender<Result<(), Error>>),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    pub(super) core: Arc<Core>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) swept: Revision,
    pub(super) backoff: Backoff,
    /// Set while the disk refuses writes.
    pub(super) failure: Option<Failure>,
}

pub(super) struct Failure {
    why: String,
    retry_at: Instant,
}

type Reply = oneshot::Sender<Result<TxnResponse, Error>>;

impl Writer {
    pub(super) fn run(mut self) {
        let mut commands = Vec::new();
        let mut closing = None;
        while closing.is_none() && self.receive(&mut commands) {
            closing = self.execute(commands.drain(..));
        }
        // What was queued before the close came is still carried out.
        self.commands.close();
        while self.commands.blocking_recv_many(&mut commands, BATCH_COMMANDS) > 0 {
            self.execute(commands.drain(..));
        }
        drop(self);
        if let Some(reply) = closing {
            let _ = reply.send(());
        }
    }

    /// Waits for commands, and sweeps meanwhile if there is something to sweep. False: no more will come.
    fn receive(&mut self, commands: &mut Vec<Command>) -> bool {
        while self.failure.is_none() && self.swept < self.core.hub.oldest() {
            match self.commands.try_recv() {
                Ok(command) => {
                    commands.push(command);
                    while commands.len() < BATCH_COMMANDS
                        && let Ok(command) = self.commands.try_recv()
                    {
                        commands.push(command);
                    }
                    // A step per batch: writers do not wait for the end of a compaction, nor it for theirs.
                    self.sweep();
                    return true;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
                Err(mpsc::error::TryRecvError::Empty) => self.sweep(),
            }
        }
        self.commands.blocking_recv_many(commands, BATCH_COMMANDS) > 0
    }

    /// Carries out commands in order; the transactions between two compactions share a commit.
    fn execute(&mut self, commands: impl Iterator<Item = Command>) -> Option<oneshot::Sender<()>> {
        let mut closing = None;
        let mut txns = Vec::new();
        for command in commands {
            match command {
                Command::Txn(txn, reply) => txns.push((txn, reply)),
                Command::Compact(through, reply) => {
                    self.commit(std::mem::take(&mut txns));
                    let _ = reply.send(self.compact(through));
                }
                Command::Close(reply) => closing = Some(reply),
            }
        }
        self.commit(txns);
        closing
    }

    fn commit(&mut self, txns: Vec<(Txn, Reply)>) {
        if txns.is_empty() {
            return;
        }
        if let Err(error) = self.ensure_writable() {
            txns.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
            return;
        }
        let (commits, answers) = decide_all(&self.core, txns);
        let written = if commits.is_empty() { Ok(()) } else { self.write(&commits) };
        match written {
            Ok(()) => {
                self.core.publish(&commits);
                answers.into_iter().for_each(|(reply, outcome)| drop(reply.send(outcome)));
            }
            // A refusal may rest on a write of the same batch that did not happen, so all fail.
            Err(error) => {
                answers.into_iter().for_each(|(reply, _)| drop(reply.send(Err(error.clone()))));
            }
        }
    }

    fn write(&mut self, commits: &[Arc<Commit>]) -> Result<(), Error> {
        let result = match self.core.disk.database() {
            Some(database) => append(&database, commits),
            None => Err(redb::Error::DatabaseClosed),
        };
        result.map_err(|error| self.fail(&error))
    }

    fn compact(&mut self, through: Revision) -> Result<(), Error> {
        self.core.hub.check_readable(through)?;
        if through == self.core.hub.oldest() {
            return Ok(());
        }
        self.ensure_writable()?;
        let database = self.core.disk.database().ok_or(Error::Closed)?;
        sweep::mark(&database, through).map_err(|error| self.fail(&error))?;
        self.core.hub.compact(through);
        Ok(())
    }

    fn sweep(&mut self) {
        let Some(database) = self.core.disk.database() else { return };
        match sweep::step(&database, self.swept, self.core.hub.oldest()) {
            Ok(reached) => self.swept = reached,
            Err(error) => drop(self.fail(&error)),
        }
    }

    /// Turns read-only. The database is given up: redb works again only after it was opened anew.
    fn fail(&mut self, error: &redb::Error) -> Error {
        let why = error_chain(error);
        let delay = self.backoff.step();
        tracing::error!(error = %why, ?delay, "cannot write to the store; it is read-only for now");
        self.failure = Some(Failure { why: why.clone(), retry_at: Instant::now() + delay });
        Error::ReadOnly { why }
    }

    /// Tries again to write if the last attempt failed and its time has come.
    fn ensure_writable(&mut self) -> Result<(), Error> {
        let Some(failure) = &self.failure else { return Ok(()) };
        if Instant::now() < failure.retry_at {
            return Err(Error::ReadOnly { why: failure.why.clone() });
        }
        if let Err(error) = self.reopen() {
            let why = error_chain(&error);
            let retry_at = Instant::now() + self.backoff.step();
            self.failure = Some(Failure { why: why.clone(), retry_at });
            return Err(Error::ReadOnly { why });
        }
        tracing::info!("the store can be written again");
        self.failure = None;
        self.backoff.reset();
        Ok(())
    }

    /// Opens the file again. A failed commit may have reached the disk after all: then it is published
    /// now, because its revisions are taken.
    fn reopen(&mut self) -> Result<(), Reopen> {
        self.core.disk.replace(None);
        let database = self.core.disk.site.open()?;
        loop {
            let from = self.core.revision().next();
            let read = read_commits(&database, from, Revision(u64::MAX));
            let commits: Vec<_> =
                read.map_err(io("reading history"))?.into_iter().map(Arc::new).collect();
            if commits.is_empty() {
                break;
            }
            self.core.publish(&commits);
        }
        self.core.disk.replace(Some(database));
        Ok(())
    }
}

impl Drop for Writer {
    /// However the writer ends, by a panic too: watches are told, and the file is released.
    fn drop(&mut self) {
        self.core.hub.close();
        self.core.disk.replace(None);
    }
}

#[derive(Debug, thiserror::Error)]
enum Reopen {
    #[error(transparent)]
    Open(#[from] super::open::Error),
    #[error(transparent)]
    Read(#[from] Error),
}

fn append(database: &Database, commits: &[Arc<Commit>]) -> Result<(), redb::Error> {
    // redb syncs before `commit` returns unless told otherwise (`Durability::Immediate`).
    let txn = database.begin_write()?;
    {
        let mut log = txn.open_table(LOG)?;
        for commit in commits {
            for (index, event) in (0u32..).zip(&commit.events) {
                log.insert((commit.revision.0, index), Record::render(event).as_ref())?;
            }
        }
    }
    txn.commit()?;
    Ok(())
}

/// Decides the transactions in order, each on top of the ones before it.
fn decide_all(
    core: &Core,
    txns: Vec<(Txn, Reply)>,
) -> (Vec<Arc<Commit>>, Vec<(Reply, Result<TxnResponse, Error>)>) {
    let state = core.state();
    let mut draft = Draft::new(&state);
    let mut commits = Vec::new();
    let mut answers = Vec::with_capacity(txns.len());
    for (txn, reply) in txns {
        let mut past = |_: &_, _| Err(Error::Closed);
        let outcome = draft.txn(&txn, &mut past).map(|(response, commit)| {
            commits.extend(commit.map(Arc::new));
            response
        });
        answers.push((reply, outcome));
    }
    (commits, answers)
}
