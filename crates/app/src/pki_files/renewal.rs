//! Waits for the day on which a certificate is to be renewed, and exchanges it without a restart.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use authn::pki::Rotating;
use jiff::Timestamp;
use lifecycle::Shutdown;

use super::leaf::{Cabinet, Leaf, RENEW_BEFORE};

/// A machine that sleeps does not count the time, so that the calendar is looked at once a day.
const LOOK_MAX: Duration = Duration::from_secs(24 * 3600);
/// After a failure, such as a full disk. There are weeks left.
const RETRY: Duration = Duration::from_secs(3600);

pub(super) async fn run(
    cabinet: Cabinet,
    leaf: Leaf,
    current: Arc<Rotating>,
    mut end: Timestamp,
    shutdown: Shutdown,
) {
    loop {
        let wait = match time_left(end, cabinet.world.clock.now()) {
            Some(left) => left.min(LOOK_MAX),
            None => match renew(&cabinet, &leaf, &current) {
                Ok(new_end) => {
                    tracing::info!(certificate = leaf.file, until = %new_end, "renewed");
                    end = new_end;
                    continue;
                }
                Err(err) => {
                    let error = format!("{err:#}");
                    tracing::warn!(certificate = leaf.file, until = %end, error, "not renewed");
                    RETRY
                }
            },
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Until a certificate with this end is to be renewed; `None`: now.
pub(super) fn time_left(end: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = end.duration_since(now) - RENEW_BEFORE;
    Duration::try_from(left).ok().filter(|it| !it.is_zero())
}

/// Returns the new end.
pub(super) fn renew(cabinet: &Cabinet, leaf: &Leaf, current: &Rotating) -> Result<Timestamp> {
    let identity = cabinet.load_or_issue(leaf)?;
    current.replace(&identity)?;
    Ok(identity.not_after()?)
}
