//! What a connection's task and the tasks of its streams share: the session. Whoever leaves
//! something to be written wakes the connection's task, which alone reads and writes the socket.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;

use crate::http2::Session;

pub(super) struct Link {
    session: Mutex<Session>,
    writer: AtomicWaker,
}

impl Link {
    pub(super) fn new(session: Session) -> Self {
        Self { session: Mutex::new(session), writer: AtomicWaker::new() }
    }

    /// For the connection's task.
    pub(super) fn session(&self) -> MutexGuard<'_, Session> {
        // The protocol's state is whole between any two of its steps.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For any other task.
    pub(super) fn with<T>(&self, step: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.session();
        let result = step(&mut session);
        let has_output = session.has_output();
        drop(session);
        if has_output {
            self.writer.wake();
        }
        result
    }

    pub(super) fn register_writer(&self, waker: &Waker) {
        self.writer.register(waker);
    }
}
