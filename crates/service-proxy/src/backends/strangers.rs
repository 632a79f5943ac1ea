//! Others that change our tables: the kernel tells of it, and we compare everything.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use linux::netlink::Error;
use linux::netlink::notices::{Notice, Notices};
use stdx::Backoff;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Notices of our own changes are read long before so many more were made.
const OWN_PORTS_MAX: usize = 1024;
const DELAY_FIRST: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Whoever was quiet for so long counts as a new one.
const FORGIVEN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Strangers {
    /// Heard by nobody yet.
    opened: Option<Notices>,
    hearing: Option<Hearing>,
    /// By name, of all families.
    tables: Vec<String>,
    /// Of the sockets by which we change the tables ourselves.
    own_ports: VecDeque<u32>,
}

#[derive(Debug)]
struct Hearing {
    notices: AsyncFd<Notices>,
    backoff: Backoff,
    /// Whoever keeps changing it is heard ever more seldom: not before this.
    heard_from: Instant,
}

impl Strangers {
    /// Is told of changes from now on, in the network namespace of the calling thread.
    pub(super) fn listen(tables: Vec<String>, own_ports: Vec<u32>) -> Result<Self, Error> {
        let opened = Some(Notices::of_tables()?);
        Ok(Self { opened, hearing: None, tables, own_ports: own_ports.into() })
    }

    /// Changes by this socket, too, are our own.
    pub(super) fn add_own(&mut self, port: u32) {
        if self.own_ports.len() >= OWN_PORTS_MAX {
            self.own_ports.pop_front();
        }
        self.own_ports.push_back(port);
    }

    /// Returns when somebody else has changed a table. May be dropped and called again at any time.
    pub(super) async fn changed(&mut self) -> Result<(), Error> {
        let hearing = match (self.opened.take(), &mut self.hearing) {
            (Some(notices), none) => none.insert(Hearing::new(notices)?),
            (None, Some(hearing)) => hearing,
            (None, None) => return Err(waiting(io::ErrorKind::NotConnected.into())),
        };
        tokio::time::sleep_until(hearing.heard_from).await;
        loop {
            let mut ready = hearing.notices.readable_mut().await.map_err(waiting)?;
            let is_by_others = |it: &Notice| is_by_others(it, &self.tables, &self.own_ports);
            match ready.get_inner_mut().receive()? {
                None => ready.clear_ready(),
                Some(told) if told.iter().any(is_by_others) => break,
                Some(_) => {}
            }
        }
        let now = Instant::now();
        if now.duration_since(hearing.heard_from) > FORGIVEN {
            hearing.backoff.reset();
        }
        hearing.heard_from = now + hearing.backoff.step();
        Ok(())
    }
}

impl Hearing {
    fn new(notices: Notices) -> Result<Self, Error> {
        let notices = watched(notices).map_err(waiting)?;
        let backoff = Backoff::new(DELAY_FIRST, DELAY_MAX);
        Ok(Self { notices, backoff, heard_from: Instant::now() })
    }
}

fn waiting(source: io::Error) -> Error {
    Error { doing: "wait for the kernel's notices".to_owned(), source }
}

fn is_by_others(notice: &Notice, tables: &[String], own_ports: &VecDeque<u32>) -> bool {
    match notice {
        Notice::Table { name, port } => tables.contains(name) && !own_ports.contains(port),
        Notice::Missed => true,
        Notice::Link(_)
        | Notice::Address { .. }
        | Notice::Neighbor { .. }
        | Notice::Route(_)
        | Notice::Setting => false,
    }
}

#[expect(
    deprecated,
    reason = "the new constructor is unsafe because the owner might close its descriptor; a socket of notices does not"
)]
pub(crate) fn watched<T: AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, Interest::READABLE)
}
