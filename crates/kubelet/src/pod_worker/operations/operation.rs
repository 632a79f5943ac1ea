//! What every operation says of itself, and what is the same for all: it is under way by name from
//! its beginning to its end, and waits after a failure, longer each time.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use node_api::{ContainerId, SandboxId};

use super::{Action, Scene};
use crate::pod_worker::memory::Memory;
use crate::pod_worker::view::View;

/// All but `apply` is pure: the model that tests steps calls the rest as the task does.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    /// No two have the same.
    const NAME: &'static str;
    /// After a failure.
    const RETRY: Delays = Delays { first: Duration::from_secs(1), max: Duration::from_secs(120) };
    /// Whether there may be other sandboxes after it, however it ended.
    const CHANGES_SANDBOXES: bool = false;
    /// What it brings.
    type Done: Send;
    /// What its failure must say beyond what was told and logged already.
    type Failure: Send;

    fn on(&self) -> On;

    /// As a step asks for it.
    fn action(self) -> Action;

    /// What is known as soon as it is under way.
    fn begin(&self, _view: &mut View) {}

    fn apply(
        &self,
        scene: &Scene,
    ) -> impl Future<Output = Outcome<Self::Done, Self::Failure>> + Send;

    fn done(&self, _done: Self::Done, _memory: &mut Memory) {}

    fn failed(&self, _failure: Self::Failure, memory: &mut Memory, now: Timestamp) {
        memory.wait(self.op(), Self::RETRY, now);
    }

    fn op(&self) -> Op {
        Op::of::<Self>(self.on())
    }
}

/// What an operation works on. At most one of its name is under way on each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    Pod,
    Container(String),
    Run(ContainerId),
    /// An earlier time is another operation on the same run.
    RunUntil(ContainerId, Timestamp),
    Sandbox(SandboxId),
}

/// The name of an operation that is under way, or waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Op {
    name: &'static str,
    on: On,
}

impl Op {
    pub(crate) fn of<T: Operation>(on: On) -> Self {
        Self { name: T::NAME, on }
    }

    /// What it works on, if it is one of these.
    pub(crate) fn on<T: Operation>(&self) -> Option<&On> {
        (self.name == T::NAME).then_some(&self.on)
    }
}

/// They double from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

#[derive(Debug)]
pub(crate) enum Outcome<D = (), F = ()> {
    Done(D),
    /// To be tried again.
    Failed(F),
    /// The pod ends: nobody waits for it any more.
    Cancelled,
}

impl Outcome {
    /// Of a call that nobody hears of but the log.
    pub(super) fn of_node(result: Result<(), node_api::Error>) -> Self {
        match result {
            Ok(()) => Self::Done(()),
            Err(err) => {
                tracing::warn!(error = stdx::error_chain(&err), "the node refused");
                Self::Failed(())
            }
        }
    }
}

/// What the end of an operation changes in a worker's memory.
pub(crate) type Ended = Box<dyn FnOnce(&mut Memory, Timestamp) + Send>;

/// An operation with its types erased.
pub(crate) trait AnyOperation: Send {
    /// From here on it is under way.
    fn begin(&self, view: &mut View);
    fn work(self: Box<Self>, scene: Scene) -> BoxFuture<'static, Ended>;
}

impl<T: Operation> AnyOperation for T {
    fn begin(&self, view: &mut View) {
        view.memory.in_flight.insert(self.op());
        Operation::begin(self, view);
    }

    fn work(self: Box<Self>, scene: Scene) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            let outcome = self.apply(&scene).await;
            let ended = move |memory: &mut Memory, now| finish(&*self, outcome, memory, now);
            Box::new(ended) as Ended
        })
    }
}

pub(crate) fn finish<T: Operation>(
    operation: &T,
    outcome: Outcome<T::Done, T::Failure>,
    memory: &mut Memory,
    now: Timestamp,
) {
    memory.in_flight.remove(&operation.op());
    memory.is_sandbox_list_old |= T::CHANGES_SANDBOXES;
    match outcome {
        Outcome::Done(done) => {
            memory.retries.remove(&operation.op());
            operation.done(done, memory);
        }
        Outcome::Failed(failure) => operation.failed(failure, memory, now),
        Outcome::Cancelled => {}
    }
}
