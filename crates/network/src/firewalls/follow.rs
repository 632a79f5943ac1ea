//! Whatever others do to their tables is looked at as soon as the kernel tells of it: a firewall that
//! was started later, a rule of ours that somebody removed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifecycle::{Shutdown, Tasks};
use linux::netlink::notices::{Notice, Notices};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::{Firewalls, nf_tables};
use crate::follow::{heard, watched};
use crate::network::lock;
use crate::patience::Patience;

/// What comes within it is looked at together: firewalls make many rules one after the other.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) fn follow(
    tasks: &Tasks,
    firewalls: &Arc<Mutex<Firewalls>>,
) -> Result<(), node_api::Error> {
    let opening = |err| node_api::Error::node("follow the rules of others", err);
    let locked = lock(firewalls);
    let own_port = locked.tables.port();
    let listening = locked.namespace.run(Notices::of_tables);
    drop(locked);
    let listening = listening.map_err(|err| opening(err.source))?;
    let notices = listening.map_err(|err| opening(err.source))?;
    let notices = watched(notices).map_err(opening)?;
    let firewalls = firewalls.clone();
    tasks.spawn("firewalls", move |shutdown| async move {
        let mut follower = Follower { notices, own_port, firewalls };
        if let Err(err) = follower.run(&shutdown).await {
            let error = stdx::error_chain(&err);
            tracing::error!(error, "the rules of others are not followed any more");
        }
    });
    Ok(())
}

struct Follower {
    notices: AsyncFd<Notices>,
    own_port: u32,
    firewalls: Arc<Mutex<Firewalls>>,
}

impl Follower {
    /// Until shutdown. Who keeps removing what we put there is followed ever more seldom.
    async fn run(&mut self, shutdown: &Shutdown) -> Result<(), node_api::Error> {
        let mut patience = Patience::default();
        let own_port = self.own_port;
        let is_by_others = |it: &Notice| match it {
            Notice::Table { name, port } => !name.starts_with(nf_tables::OURS) && *port != own_port,
            Notice::Missed => true,
            _ => false,
        };
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                told = heard(&mut self.notices, is_by_others) => told?,
            }
            let next = patience.due(Instant::now()).unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(next.max(Instant::now() + SETTLE)) => {}
            }
            patience.try_now(Instant::now());
            let firewalls = self.firewalls.clone();
            let look = move || lock(&firewalls).converge();
            if let Err(err) = tokio::task::spawn_blocking(look).await {
                return Err(node_api::Error::node("look at the rules of others", err));
            }
        }
    }
}
