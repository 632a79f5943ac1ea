//! What is kept for each open stream: its two windows, what waits to be sent, and what waits to be
//! read.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use bytes::Bytes;

use crate::wire::Status;

/// How an answer ends, once all of its data is out.
pub(super) enum Ending {
    Trailers(Result<(), Status>),
    /// With the last of the data: no gRPC.
    Data,
}

pub(super) struct Stream {
    /// What the peer may send before we say more.
    pub(super) window_in: i64,
    /// Taken by the reader, and not yet given back to the peer's window.
    pub(super) taken: u32,
    pub(super) window_out: i64,
    pub(super) inbox: VecDeque<Bytes>,
    pub(super) outbox: VecDeque<Bytes>,
    pub(super) ending: Option<Ending>,
    /// The peer has sent everything.
    pub(super) is_complete: bool,
    /// In the queue of those that have something to send.
    pub(super) is_queued: bool,
    pub(super) reader: Option<Waker>,
    pub(super) sender: Option<Waker>,
}

impl Stream {
    pub(super) fn new(window_in: i64, window_out: i64, is_complete: bool) -> Self {
        Self {
            window_in,
            taken: 0,
            window_out,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            ending: None,
            is_complete,
            is_queued: false,
            reader: None,
            sender: None,
        }
    }

    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.sender.take()).for_each(Waker::wake);
    }
}

pub(super) type Streams = HashMap<u32, Stream>;
