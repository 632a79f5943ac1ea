//! Others that change our table: the kernel tells of it, and we compare everything.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use linux::netlink::Error;
use linux::netlink::notices::{Notice, Notices};
use stdx::Backoff;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

const DELAY_FIRST: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Whoever was quiet for so long counts as a new one.
const FORGIVEN: Duration = Duration::from_secs(60);

pub(crate) struct Strangers {
    notices: AsyncFd<Notices>,
    table: String,
    /// Of the socket by which we change the table ourselves.
    own_port: u32,
    backoff: Backoff,
    /// Whoever keeps changing it is heard ever more seldom: not before this.
    heard_from: Instant,
}

impl Strangers {
    /// Hears of changes from now on, in the network namespace of the calling thread.
    pub(crate) fn listen(table: String, own_port: u32) -> Result<Self, Error> {
        let doing = || "wait for the kernel's notices".to_owned();
        let notices =
            watched(Notices::of_tables()?).map_err(|source| Error { doing: doing(), source })?;
        let backoff = Backoff::new(DELAY_FIRST, DELAY_MAX);
        Ok(Self { notices, table, own_port, backoff, heard_from: Instant::now() })
    }

    /// Returns when somebody else has changed the table. May be dropped and called again at any
    /// time.
    pub(crate) async fn changed(&mut self) -> Result<(), Error> {
        tokio::time::sleep_until(self.heard_from).await;
        loop {
            let waiting = |source| {
                let doing = "wait for the kernel's notices".to_owned();
                Error { doing, source }
            };
            let mut ready = self.notices.readable_mut().await.map_err(waiting)?;
            match ready.get_inner_mut().receive()? {
                None => ready.clear_ready(),
                Some(told) if told.iter().any(|it| self.is_by_others(it)) => break,
                Some(_) => {}
            }
        }
        let now = Instant::now();
        if now.duration_since(self.heard_from) > FORGIVEN {
            self.backoff.reset();
        }
        self.heard_from = now + self.backoff.step();
        Ok(())
    }

    fn is_by_others(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Table { name, port } => *name == self.table && *port != self.own_port,
            Notice::Missed => true,
            Notice::Link(_) | Notice::Address { .. } | Notice::Route(_) | Notice::Setting => false,
        }
    }
}

#[expect(
    deprecated,
    reason = "the new constructor is unsafe because the owner might close its descriptor; a socket of notices does not"
)]
fn watched<T: AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, Interest::READABLE)
}
