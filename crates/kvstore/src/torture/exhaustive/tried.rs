//! A store to be tried, whose every answer is there when a call returns.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::super::bench::{Bench, Engine};
use crate::embedded::torture::Inline;
use crate::memory::Memory;
use crate::{
    Batch, Error, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, Watch,
    WatchRequest,
};

pub(super) trait Tried: Sized {
    fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error>;
    fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Error>;
    fn watch(&mut self, request: WatchRequest) -> Result<Box<dyn Watch>, Error>;
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Batch, Error>;
    fn compact(&mut self, through: Revision) -> Result<(), Error>;
    /// What the next process finds, if this one keeps anything.
    fn restart(self) -> Self;
}

/// The memory engine.
pub(super) struct AtOnce(Memory);

impl AtOnce {
    pub(super) fn new() -> Self {
        Self(Memory::new())
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("this engine answers at once")
}

impl Tried for AtOnce {
    fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        now(self.0.txn(txn))
    }
    fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Error> {
        now(self.0.range(request))
    }
    fn watch(&mut self, request: WatchRequest) -> Result<Box<dyn Watch>, Error> {
        now(self.0.watch(request))
    }
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Batch, Error> {
        now(watch.next())
    }
    fn compact(&mut self, through: Revision) -> Result<(), Error> {
        now(self.0.compact(through))
    }
    fn restart(self) -> Self {
        self
    }
}

impl Tried for Inline {
    fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        Self::txn(self, txn)
    }
    fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Error> {
        Self::range(self, &request)
    }
    fn watch(&mut self, request: WatchRequest) -> Result<Box<dyn Watch>, Error> {
        Self::watch(self, request)
    }
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Batch, Error> {
        now(watch.next())
    }
    fn compact(&mut self, through: Revision) -> Result<(), Error> {
        Self::compact(self, through)
    }
    fn restart(self) -> Self {
        Self::restart(self)
    }
}

/// Any engine with what it needs to run.
pub(super) struct Blocking {
    bench: Bench,
    runtime: tokio::runtime::Runtime,
}

impl Blocking {
    pub(super) fn new(engine: Engine) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { bench: Bench::new(engine), runtime: runtime.expect("a runtime starts") }
    }

    fn wait<'a, F: Future>(&'a self, call: impl FnOnce(&'a Arc<dyn Store>) -> F) -> F::Output {
        self.runtime.block_on(call(self.bench.store()))
    }
}

impl Tried for Blocking {
    fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        self.wait(|it| it.txn(txn))
    }
    fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Error> {
        self.wait(|it| it.range(request))
    }
    fn watch(&mut self, request: WatchRequest) -> Result<Box<dyn Watch>, Error> {
        self.wait(|it| it.watch(request))
    }
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Batch, Error> {
        self.runtime.block_on(watch.next())
    }
    fn compact(&mut self, through: Revision) -> Result<(), Error> {
        self.wait(|it| it.compact(through))
    }
    fn restart(mut self) -> Self {
        self.bench.reopen();
        self
    }
}
