//! What the calls of one connection share, and what they may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifecycle::Tasks;
use tokio::sync::Semaphore;

use super::Front;
use super::link::Link;

/// Of requests that have begun to arrive. HTTP/2's window bounds what was not read; this bounds
/// what was.
const PARTIAL_BYTES: usize = 64 << 20;
/// Wide ranges that are read or whose answers wait for the client to read them.
const RANGES: usize = 32;

pub(super) struct Peer {
    pub(super) front: Arc<Front>,
    pub(super) tasks: Tasks,
    pub(super) link: Link,
    partial_bytes: AtomicUsize,
    n_calls: AtomicUsize,
    pub(super) ranges: Semaphore,
}

/// One call.
pub(super) struct UnderWay(Arc<Peer>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.n_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Peer {
    pub(super) fn new(front: Arc<Front>, tasks: Tasks, link: Link) -> Self {
        let (partial_bytes, n_calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { front, tasks, link, partial_bytes, n_calls, ranges: Semaphore::new(RANGES) }
    }

    /// Takes note of a call until what is returned is dropped; `None` when too many are under way.
    /// A call that the client has given up is under way until it has noticed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<UnderWay> {
        let under_way = UnderWay(self.clone());
        let n_calls = self.n_calls.fetch_add(1, Ordering::Relaxed);
        (n_calls < self.front.limits.streams as usize).then_some(under_way)
    }

    /// Takes note of bytes of a message that is not complete; false if there are too many.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        self.partial_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= PARTIAL_BYTES
    }

    pub(super) fn release(&self, bytes: usize) {
        self.partial_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
