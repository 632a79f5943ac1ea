//! Following the kernel: whatever others change in what is ours is looked at, and mended, as soon
//! as the kernel tells of it.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifecycle::{Shutdown, Tasks};
use linux::netlink::notices::{Notice, Notices};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::kernel::{Carried, Ours};
use crate::network::{State, lock};

/// What comes within it is looked at together: our own changes are told, too.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) fn spawn(tasks: &Tasks, state: &Arc<Mutex<State>>) -> Result<(), node_api::Error> {
    let state = state.clone();
    let (links, tables, ours) = lock(&state).kernel.listen()?;
    let carried = lock(&state).kernel.carried();
    let opening = |err| node_api::Error::node("follow the kernel's notices", err);
    let mut follower = Follower {
        links: watched(links).map_err(opening)?,
        tables: watched(tables).map_err(opening)?,
        ours,
        carried,
        state,
    };
    tasks.spawn("pod-network", |shutdown| async move {
        if let Err(err) = follower.run(&shutdown).await {
            let error = stdx::error_chain(&err);
            tracing::error!(
                error,
                "the kernel's notices cannot be read: the pod network is not followed any more"
            );
        }
    });
    Ok(())
}

struct Follower {
    links: AsyncFd<Notices>,
    tables: AsyncFd<Notices>,
    ours: Ours,
    /// By whom packets are, if by anybody.
    carried: Option<Carried>,
    state: Arc<Mutex<State>>,
}

impl Follower {
    /// Until shutdown.
    async fn run(&mut self, shutdown: &Shutdown) -> Result<(), node_api::Error> {
        // What happened before anybody listened.
        let mut due = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                told = heard(&mut self.links, |it| self.ours.concerns(it)) => told?,
                told = heard(&mut self.tables, |it| self.ours.concerns(it)) => told?,
                () = ended(&mut self.carried) => {}
                () = until(due) => {}
            }
            let state = self.state.clone();
            let look = move || lock(&state).look(Instant::now());
            due = match tokio::task::spawn_blocking(look).await {
                Ok(due) => due,
                Err(err) => return Err(node_api::Error::node("look at the pod network", err)),
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(SETTLE) => {}
            }
        }
    }
}

/// Returns when something was told that concerns us.
pub(crate) async fn heard(
    notices: &mut AsyncFd<Notices>,
    concerns: impl Fn(&Notice) -> bool,
) -> Result<(), node_api::Error> {
    let reading = |err| node_api::Error::node("wait for the kernel's notices", err);
    loop {
        let mut ready = notices.readable_mut().await.map_err(reading)?;
        let told = ready.get_inner_mut().receive();
        match told.map_err(|err| node_api::Error::node("read the kernel's notices", err))? {
            Some(told) if told.iter().any(&concerns) => return Ok(()),
            Some(_) => {}
            None => ready.clear_ready(),
        }
    }
}

/// Returns when who carried packets does so no more.
async fn ended(carried: &mut Option<Carried>) {
    match carried {
        Some(carried) => carried.ended().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[expect(
    deprecated,
    reason = "the new constructor is unsafe because the owner might close its descriptor; a socket of notices does not"
)]
pub(crate) fn watched<T: AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, Interest::READABLE)
}
