//! One watch's wait for its next batch, which can be interrupted: to give the watch up, or to ask
//! it how far it is.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use kvstore::{Batch, Error, Watch as _, WatchId};

use crate::engine::watch::EtcdWatch;

const CANCELED: u8 = 1;
const PROGRESS: u8 = 2;

/// What the reader wants of a watch that waits.
#[derive(Default)]
pub(super) struct Control {
    wants: AtomicU8,
    waker: AtomicWaker,
}

impl Control {
    pub(super) fn cancel(&self) {
        self.ask(CANCELED);
    }

    pub(super) fn ask_progress(&self) {
        self.ask(PROGRESS);
    }

    fn ask(&self, what: u8) {
        self.wants.fetch_or(what, Ordering::AcqRel);
        self.waker.wake();
    }
}

pub(super) struct Turn {
    pub(super) id: WatchId,
    pub(super) watch: EtcdWatch,
    pub(super) control: Arc<Control>,
    /// `None`: canceled before anything came.
    pub(super) outcome: Result<Option<Batch>, Error>,
}

pub(super) type Waiting = BoxFuture<'static, Turn>;

pub(super) fn wait(id: WatchId, watch: EtcdWatch, control: Arc<Control>) -> Waiting {
    Box::pin(run(id, watch, control))
}

async fn run(id: WatchId, mut watch: EtcdWatch, control: Arc<Control>) -> Turn {
    loop {
        let wants = control.wants.swap(0, Ordering::AcqRel);
        if wants & CANCELED != 0 {
            return Turn { id, watch, control, outcome: Ok(None) };
        }
        if wants & PROGRESS != 0 {
            watch.request_progress();
        }
        let came = {
            let mut next = pin!(watch.next());
            std::future::poll_fn(|cx| {
                if let Poll::Ready(outcome) = next.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                // Registered before it is looked at, so that no wish is missed.
                control.waker.register(cx.waker());
                match control.wants.load(Ordering::Acquire) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(None),
                }
            })
            .await
        };
        if let Some(outcome) = came {
            return Turn { id, watch, control, outcome: outcome.map(Some) };
        }
    }
}
