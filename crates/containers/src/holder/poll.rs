//! What the holder waits for: descriptors, each with a token and what it stands for.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::logs::Stream;

/// Never used twice, so that an event for what is gone is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Listener,
    Connection,
    Output {
        container: String,
        stream: Stream,
    },
    /// Where the child that sets a container up says why it could not.
    Setup {
        container: String,
    },
    ContainerExit {
        container: String,
    },
    ExecSetup {
        connection: Token,
    },
    ExecExit {
        connection: Token,
    },
    /// A TCP connection that is being made for this connection.
    Connecting {
        connection: Token,
    },
    /// The first process of the PID namespace that all containers share.
    PodInit,
}

pub(super) struct Poll {
    epoll: rustix::fd::OwnedFd,
    sources: BTreeMap<Token, Source>,
    next: u64,
}

/// At once; the rest comes with the next call.
const EVENTS_MAX: usize = 16;

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, sources: BTreeMap::new(), next: 1 })
    }

    pub(super) fn add(&mut self, descriptor: impl AsFd, source: Source) -> io::Result<Token> {
        self.add_for(descriptor, source, EventFlags::IN)
    }

    pub(super) fn add_for(
        &mut self,
        descriptor: impl AsFd,
        source: Source,
        flags: EventFlags,
    ) -> io::Result<Token> {
        let token = Token(self.next);
        epoll::add(&self.epoll, descriptor, EventData::new_u64(token.0), flags)?;
        self.next += 1;
        self.sources.insert(token, source);
        Ok(token)
    }

    pub(super) fn change(&self, token: Token, descriptor: impl AsFd, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, descriptor, EventData::new_u64(token.0), flags);
    }

    /// Before the descriptor is closed: a duplicate elsewhere would keep it in the kernel's set.
    pub(super) fn remove(&mut self, token: Token, descriptor: impl AsFd) {
        if self.sources.remove(&token).is_some() {
            let _ = epoll::delete(&self.epoll, descriptor);
        }
    }

    pub(super) fn source(&self, token: Token) -> Option<Source> {
        self.sources.get(&token).cloned()
    }

    /// Blocks until something is ready, or until `timeout` has passed: then there are no events.
    pub(super) fn wait(&self, timeout: Option<Timespec>) -> io::Result<Vec<(Token, EventFlags)>> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let room = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        Ok(events.iter().map(|it| (Token({ it.data }.u64()), { it.flags })).collect())
    }
}
