//! Others that change our tables: the kernel tells of it, and everything is compared.

use std::io;
use std::time::Duration;

use linux::netlink::Error;
use linux::netlink::notices::{Notice, Notices};
use stdx::Backoff;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::follow::watched;

const DELAY_FIRST: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Whoever was quiet for so long counts as a new one.
const FORGIVEN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Strangers {
    /// Heard by nobody yet.
    opened: Option<Notices>,
    hearing: Option<AsyncFd<Notices>>,
    backoff: Backoff,
    /// Whoever keeps changing it is heard ever more seldom: not before this.
    heard_from: Option<Instant>,
    /// Of the tables of both families.
    table: String,
    /// Of the sockets by which we change the tables ourselves.
    own_ports: Vec<u32>,
}

impl Strangers {
    /// Is told of changes from now on, in the network namespace of the calling thread.
    pub(super) fn listen(table: String, own_ports: Vec<u32>) -> Result<Self, Error> {
        let opened = Some(Notices::of_tables()?);
        let backoff = Backoff::new(DELAY_FIRST, DELAY_MAX);
        Ok(Self { opened, hearing: None, backoff, heard_from: None, table, own_ports })
    }

    /// Returns when somebody else has changed a table. May be dropped and called again at any time.
    pub(super) async fn changed(&mut self) -> Result<(), Error> {
        if let Some(opened) = self.opened.take() {
            self.hearing = Some(watched(opened).map_err(waiting)?);
        }
        if let Some(from) = self.heard_from {
            tokio::time::sleep_until(from).await;
        }
        let (table, own_ports) = (&self.table, &self.own_ports);
        let is_by_others = |it: &Notice| match it {
            Notice::Table { name, port } => name == table && !own_ports.contains(port),
            Notice::Missed => true,
            Notice::Link(_)
            | Notice::Address { .. }
            | Notice::Neighbor { .. }
            | Notice::Route(_)
            | Notice::Setting => false,
        };
        let closed = || waiting(io::ErrorKind::NotConnected.into());
        let hearing = self.hearing.as_mut().ok_or_else(closed)?;
        loop {
            let mut ready = hearing.readable_mut().await.map_err(waiting)?;
            match ready.get_inner_mut().receive()? {
                None => ready.clear_ready(),
                Some(told) if told.iter().any(is_by_others) => break,
                Some(_) => {}
            }
        }
        let now = Instant::now();
        if self.heard_from.is_some_and(|it| now.duration_since(it) > FORGIVEN) {
            self.backoff.reset();
        }
        self.heard_from = Some(now + self.backoff.step());
        Ok(())
    }
}

fn waiting(source: io::Error) -> Error {
    Error { doing: "wait for the kernel's notices".to_owned(), source }
}
