//! Connections of nodes: one request, one answer.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use linux::seqpacket::{Connection, Listener, Message};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::complaints::Complaints;
use super::state::State;
use crate::portals::Shared;
use crate::protocol::{Part, Reply, Request, decode, encode};
use crate::watched::watched;

/// More than a node has.
const CONNECTIONS_MAX: usize = 16;
/// Who started it comes at once, or has ended.
const PATIENCE: Duration = Duration::from_secs(30);

struct Worker {
    state: RefCell<State>,
    complaints: Rc<Complaints>,
    n_connections: Cell<usize>,
    /// Whoever ends looks by it whether anything is left.
    ended: Rc<Notify>,
}

/// Until there is nothing left to carry and nobody to say what is.
pub(super) async fn serve(listener: Listener, owner: u32, n_files: usize) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&listener, true)?;
    let listener = watched(listener, Interest::READABLE)?;
    let (complaints, ended) = (Rc::new(Complaints::default()), Rc::new(Notify::new()));
    let told = complaints.clone();
    let complain = Box::new(move |words: &str| told.tell(Part::Portals, words));
    let shared = Rc::new(Shared::new(n_files, complain, ended.clone()));
    let worker = Rc::new(Worker {
        state: RefCell::new(State::new(shared)),
        complaints,
        n_connections: Cell::new(0),
        ended,
    });
    let first = accept(&listener, owner);
    let Ok(first) = tokio::time::timeout(PATIENCE, first).await else { return Ok(()) };
    worker.welcome(first?);
    loop {
        tokio::select! {
            biased;
            accepted = accept(&listener, owner) => worker.welcome(accepted?),
            () = worker.ended.notified() => if worker.is_done() { return Ok(()) },
        }
    }
}

/// The next connection of who started this process.
async fn accept(listener: &AsyncFd<Listener>, owner: u32) -> io::Result<Connection> {
    loop {
        let mut ready = listener.readable().await?;
        match listener.get_ref().accept() {
            Ok(connection) if connection.peer()?.uid == owner => return Ok(connection),
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(err) => return Err(err),
        }
    }
}

impl Worker {
    fn is_done(&self) -> bool {
        self.n_connections.get() == 0 && self.state.borrow().is_idle()
    }

    fn welcome(self: &Rc<Self>, connection: Connection) {
        if self.n_connections.get() >= CONNECTIONS_MAX {
            return;
        }
        self.n_connections.set(self.n_connections.get() + 1);
        let worker = self.clone();
        tokio::task::spawn_local(async move {
            // Whatever went wrong, the node sees the end and comes again.
            let _ = worker.talk(connection).await;
            worker.n_connections.set(worker.n_connections.get() - 1);
            worker.ended.notify_one();
        });
    }

    async fn talk(&self, connection: Connection) -> io::Result<()> {
        let connection = Rc::new(watched(connection, Interest::READABLE)?);
        loop {
            let mut ready = connection.readable().await?;
            match connection.get_ref().receive() {
                Ok(None) => return Ok(()),
                Ok(Some(message)) => {
                    let reply = self.answer(message, &connection);
                    connection.get_ref().send(&encode(&reply), &[])?;
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(err) => return Err(err),
            }
        }
    }

    fn answer(&self, message: Message, connection: &Rc<AsyncFd<Connection>>) -> Reply {
        match decode(&message.bytes) {
            Ok(Request::Listen(part)) => {
                self.complaints.add(part, connection);
                Reply::Done
            }
            Ok(request) => self.state.borrow_mut().answer(request, message.descriptors),
            Err(err) => Reply::Refused(format!("a message makes no sense: {err}")),
        }
    }
}
