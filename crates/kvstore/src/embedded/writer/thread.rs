//! The writer's thread: waits for commands and for what becomes due, and never wakes for anything
//! else.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::embedded::core::Core;

use super::{BATCH_COMMANDS, Command, Seat};

/// `timer` is a runtime of this thread's own, for its time alone.
pub(in crate::embedded) fn run(
    core: Arc<Core>,
    seat: Arc<Seat>,
    mut commands: mpsc::Receiver<Command>,
    timer: &tokio::runtime::Runtime,
) {
    let ending = Ending { core, seat };
    let seat = &ending.seat;
    let mut closing: Option<oneshot::Sender<()>> = None;
    let mut taken = Vec::with_capacity(BATCH_COMMANDS);
    while closing.is_none() && receive(&mut commands, &mut taken, seat.look(), timer) {
        let written = seat.write(taken.len(), |writer| {
            let closing = writer.execute(taken.drain(..));
            writer.tick();
            closing
        });
        closing = written.flatten();
    }
    // What was queued before the close came is still carried out.
    commands.close();
    while commands.blocking_recv_many(&mut taken, BATCH_COMMANDS) > 0 {
        seat.write(taken.len(), |writer| writer.execute(taken.drain(..)));
    }
    if let Some(writer) = seat.clear() {
        writer.close();
    }
    if let Some(reply) = closing {
        let _ = reply.send(());
    }
}

/// Waits for commands or for a moment. False: no more will come.
fn receive(
    commands: &mut mpsc::Receiver<Command>,
    taken: &mut Vec<Command>,
    wake_at: Option<Instant>,
    timer: &tokio::runtime::Runtime,
) -> bool {
    while taken.len() < BATCH_COMMANDS {
        match commands.try_recv() {
            Ok(command) => taken.push(command),
            Err(mpsc::error::TryRecvError::Empty) => break,
            Err(mpsc::error::TryRecvError::Disconnected) => return !taken.is_empty(),
        }
    }
    if !taken.is_empty() {
        return true;
    }
    let Some(wake_at) = wake_at else {
        return commands.blocking_recv_many(taken, BATCH_COMMANDS) > 0;
    };
    timer.block_on(async {
        tokio::select! {
            biased;
            n = commands.recv_many(taken, BATCH_COMMANDS) => n > 0,
            () = tokio::time::sleep_until(wake_at) => true,
        }
    })
}

/// However the writer ends, by a panic too: watches are told, and what only it has is let go.
struct Ending {
    core: Arc<Core>,
    seat: Arc<Seat>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.seat.clear());
        self.core.hub.close();
    }
}
