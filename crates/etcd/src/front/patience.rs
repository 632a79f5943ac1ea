//! How long a connection is waited for: for its first frames, for a sign of life when it is silent,
//! and for its calls to end when the server stops.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use super::Limits;
use super::link::Link;
use super::listen::TIMEOUT_HELLO;

pub(super) struct Patience {
    limits: Limits,
    phase: Phase,
    sleep: Pin<Box<Sleep>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Hello,
    Listening,
    /// Silent, and asked whether it is there.
    Asked,
    /// It is about to end.
    Leaving,
}

impl Patience {
    pub(super) fn new(limits: Limits) -> Self {
        let sleep = Box::pin(tokio::time::sleep(TIMEOUT_HELLO));
        Self { limits, phase: Phase::Hello, sleep }
    }

    /// The rest may take as long as calls may take to end.
    pub(super) fn limit_rest(&mut self) {
        if self.phase != Phase::Leaving {
            self.enter(Phase::Leaving);
        }
    }

    fn enter(&mut self, phase: Phase) {
        let delay = match phase {
            Phase::Hello => TIMEOUT_HELLO,
            Phase::Listening => self.limits.ping_interval,
            Phase::Asked => self.limits.timeout_ping,
            Phase::Leaving => self.limits.timeout_drain,
        };
        self.phase = phase;
        self.sleep.as_mut().reset(Instant::now() + delay);
    }

    /// Ready when it is at an end. `was_heard` says whether the peer has sent anything since it was
    /// last false.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        was_heard: &mut bool,
        link: &Link,
    ) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            let was_heard = std::mem::take(was_heard);
            match self.phase {
                Phase::Hello if !link.session().is_greeted() => return Poll::Ready(()),
                Phase::Asked if !was_heard => return Poll::Ready(()),
                Phase::Leaving => return Poll::Ready(()),
                Phase::Listening if !was_heard => {
                    // Wakes this very task, to write it.
                    link.with(|session| session.ping());
                    self.enter(Phase::Asked);
                }
                Phase::Hello | Phase::Listening | Phase::Asked => self.enter(Phase::Listening),
            }
        }
        Poll::Pending
    }
}
