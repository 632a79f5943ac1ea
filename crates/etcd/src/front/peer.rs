//! What the calls of one connection share, and what they may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifecycle::Tasks;
use tokio::sync::Semaphore;

use super::Front;

/// Of requests that have begun to arrive. HTTP/2's window bounds what was not read; this bounds what was.
const PARTIAL_BYTES: usize = 64 << 20;
/// Wide ranges that are read or whose answers wait for the client to read them.
const RANGES: usize = 32;

pub(super) struct Peer {
    pub(super) front: Arc<Front>,
    pub(super) tasks: Tasks,
    partial_bytes: AtomicUsize,
    pub(super) ranges: Semaphore,
}

impl Peer {
    pub(super) fn new(front: Arc<Front>, tasks: Tasks) -> Self {
        let ranges = Semaphore::new(RANGES);
        Self { front, tasks, partial_bytes: AtomicUsize::new(0), ranges }
    }

    /// Takes note of bytes of a message that is not complete; false if there are too many.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        self.partial_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= PARTIAL_BYTES
    }

    pub(super) fn release(&self, bytes: usize) {
        self.partial_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
