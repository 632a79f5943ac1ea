//! The engine without its threads, on a simulated disk: each call is carried out before it returns.
//! Small segments, and the cleaner runs after each compaction, so that history is rewritten on the
//! way.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use stdx::{Random, SystemClock, World};

use crate::embedded::core::Core;
use crate::embedded::disk::Simulated;
use crate::embedded::writer::Command;
use crate::embedded::{Options, Parts, open};
use crate::hub::{self, History, Wanted};
use crate::{Error, RangeRequest, RangeResponse, Revision, Txn, TxnResponse, Watch, WatchRequest};

/// A few transactions.
const SEGMENT_BYTES: u32 = 400;

/// What it keeps in memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) ring_commits: usize,
    pub(crate) value_bytes: usize,
}

pub(crate) struct Inline {
    disk: Simulated,
    memory: Memory,
    parts: Parts,
}

impl Inline {
    pub(crate) fn new(memory: Memory) -> Self {
        Self::reopen(Simulated::new(1), memory)
    }

    pub(crate) fn open(disk: Simulated, memory: Memory) -> Result<Self, open::Error> {
        let world = World { clock: Arc::new(SystemClock), random: Random::from_seed(7) };
        let Memory { ring_commits, value_bytes } = memory;
        let options = Options {
            segment_bytes: SEGMENT_BYTES,
            ring_commits,
            value_bytes,
            world,
            ..Options::default()
        };
        let parts = Parts::open(Path::new(""), Arc::new(disk.clone()), &options)?;
        Ok(Self { disk, memory, parts })
    }

    /// What must be sound.
    fn reopen(disk: Simulated, memory: Memory) -> Self {
        Self::open(disk, memory)
            .unwrap_or_else(|it| panic!("cannot open: {}", stdx::error_chain(&it)))
    }

    pub(crate) fn revision(&self) -> Revision {
        self.parts.core.revision()
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.parts.core.hub.oldest()
    }

    /// The process is killed, and the next one opens what it finds.
    pub(crate) fn restart(self) -> Self {
        let Self { disk, memory, parts } = self;
        drop(parts);
        Self::reopen(disk.kill(1), memory)
    }

    pub(crate) fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        self.parts.writer.carry_out(|reply| Command::Txn(txn, reply.into()))
    }

    pub(crate) fn compact(&mut self, through: Revision) -> Result<(), Error> {
        self.parts.writer.carry_out(|reply| Command::Compact(through, reply))?;
        self.parts.cleaner.clean();
        Ok(())
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        self.parts.core.range_at(request, request.at.unwrap_or_else(|| self.revision()))
    }

    pub(crate) fn watch(&self, request: WatchRequest) -> Result<Box<dyn Watch>, Error> {
        let past = Arc::new(Past(self.parts.core.clone()));
        self.parts.core.hub.watch(request, Some(past))
    }
}

/// History that is read in the thread that asks.
struct Past(Arc<Core>);

impl History for Past {
    fn commits(self: Arc<Self>, wanted: Wanted) -> BoxFuture<'static, Result<hub::Past, Error>> {
        Box::pin(ready(self.0.commits(&wanted)))
    }
}
