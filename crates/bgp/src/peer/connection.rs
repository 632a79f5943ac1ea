//! One connection: what of a message has come, in which phase it is, and since when it is silent.

use std::time::Duration;

use super::Moment;
use crate::message::{DecodeError, Message, Open, length};

#[derive(Debug)]
pub(super) enum Phase {
    /// We said who we are.
    OpenSent,
    /// The peer did, and we agreed.
    OpenConfirm(Open),
    /// Both agreed: this is the session.
    Established(Open),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: super::ConnectionId,
    /// We dialed.
    pub(super) is_ours: bool,
    pub(super) phase: Phase,
    /// Silence that is longer ends it. `None`: they agreed that none is too long.
    pub(super) hold: Option<Duration>,
    pub(super) sent_at: Moment,
    heard_at: Moment,
    /// Never more than what was received at once, and one message that is not all there.
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(id: super::ConnectionId, is_ours: bool, now: Moment, hold: Duration) -> Self {
        Self {
            id,
            is_ours,
            phase: Phase::OpenSent,
            hold: Some(hold),
            sent_at: now,
            heard_at: now,
            buffer: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8], now: Moment) {
        self.buffer.extend(bytes);
        self.heard_at = now;
    }

    pub(super) fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        let Some(length) = length(&self.buffer)? else { return Ok(None) };
        let Some(bytes) = self.buffer.get(..length) else { return Ok(None) };
        let message = Message::decode(bytes)?;
        self.buffer.drain(..length);
        Ok(Some(message))
    }

    pub(super) fn is_silent(&self, now: Moment) -> bool {
        self.hold.is_some_and(|it| self.heard_at + it <= now)
    }

    pub(super) fn owes_keepalive(&self, now: Moment) -> bool {
        self.keepalive_at().is_some_and(|it| it <= now)
    }

    fn keepalive_at(&self) -> Option<Moment> {
        match self.phase {
            Phase::OpenSent => None,
            Phase::OpenConfirm(_) | Phase::Established(_) => {
                self.hold.map(|it| self.sent_at + it / 3)
            }
        }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.hold.map(|it| self.heard_at + it).into_iter().chain(self.keepalive_at()).min()
    }
}
