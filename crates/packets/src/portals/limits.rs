//! What all portals share: how much there may be at a time, pipes, and who is told of what went
//! wrong.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Where a process may have enough files.
const CONNECTIONS_MAX: usize = 16_384;
const FLOWS_MAX: usize = 16_384;
/// Pipes that are kept for the next who has something to move.
const PIPES_MAX: usize = 64;
/// The same complaint comes so seldom.
const QUIET: Duration = Duration::from_secs(10);
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;

pub(crate) struct Shared {
    connections: Cell<usize>,
    flows: Cell<usize>,
    connections_max: usize,
    flows_max: usize,
    pipes: RefCell<Vec<Pipe>>,
    pub(super) datagram: RefCell<Vec<u8>>,
    complain: Box<dyn Fn(&str)>,
    complained: RefCell<HashMap<&'static str, Instant>>,
    /// Somebody has less to do.
    ended: Rc<Notify>,
}

/// An empty one.
pub(super) struct Pipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
}

impl Shared {
    /// `n_files`: as many as this process may have open.
    pub(crate) fn new(n_files: usize, complain: Box<dyn Fn(&str)>, ended: Rc<Notify>) -> Self {
        // A connection has two files, and two pipes while it moves something; a flow has one.
        let share = n_files / 8;
        Self {
            connections: Cell::new(0),
            flows: Cell::new(0),
            connections_max: CONNECTIONS_MAX.min(share),
            flows_max: FLOWS_MAX.min(share),
            pipes: RefCell::new(Vec::new()),
            datagram: RefCell::new(vec![0; DATAGRAM_MAX]),
            complain,
            complained: RefCell::new(HashMap::new()),
            ended,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.connections.get() == 0 && self.flows.get() == 0
    }

    /// `None`, and says so: there are too many.
    pub(super) fn connection(self: &Rc<Self>) -> Option<Counted> {
        let max = self.connections_max;
        let counted = Counted::of(self, |it| &it.connections, max);
        if counted.is_none() {
            let words = format!(
                "a connection to a Service was closed: {max} connections are carried at a time"
            );
            self.complain("connections", &words);
        }
        counted
    }

    pub(super) fn flow(self: &Rc<Self>) -> Option<Counted> {
        let max = self.flows_max;
        let counted = Counted::of(self, |it| &it.flows, max);
        if counted.is_none() {
            let words =
                format!("a datagram to a Service was dropped: {max} flows are carried at a time");
            self.complain("flows", &words);
        }
        counted
    }

    pub(super) fn complain(&self, kind: &'static str, words: &str) {
        let now = Instant::now();
        let last = self.complained.borrow().get(kind).copied();
        if last.is_none_or(|it| now.saturating_duration_since(it) >= QUIET) {
            self.complained.borrow_mut().insert(kind, now);
            (self.complain)(words);
        }
    }

    pub(super) fn take_pipe(&self) -> io::Result<Pipe> {
        let kept = self.pipes.borrow_mut().pop();
        let make = || {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            Ok(Pipe { read, write })
        };
        kept.map_or_else(make, Ok)
    }

    pub(super) fn give_back(&self, pipe: Pipe) {
        let mut pipes = self.pipes.borrow_mut();
        if pipes.len() < PIPES_MAX {
            pipes.push(pipe);
        }
    }
}

/// Counts while it lives.
pub(super) struct Counted {
    shared: Rc<Shared>,
    count: fn(&Shared) -> &Cell<usize>,
}

impl Counted {
    fn of(shared: &Rc<Shared>, count: fn(&Shared) -> &Cell<usize>, max: usize) -> Option<Self> {
        let before = count(shared).get();
        (before < max).then(|| {
            count(shared).set(before + 1);
            Self { shared: shared.clone(), count }
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let count = (self.count)(&self.shared);
        count.set(count.get().saturating_sub(1));
        self.shared.ended.notify_one();
    }
}
