//! Waiting for what an implementation tells. A promise that nothing polls is kept by not polling
//! here either.

use std::time::Duration;

use futures_util::StreamExt as _;

use crate::Events;

/// Only so that a broken implementation ends a test; never the reason for a result.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks now and after every event.
pub(super) async fn until<T>(
    what: &str,
    events: &mut Events,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        match tokio::time::timeout(PATIENCE, events.next()).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("events ended while waiting: {what}"),
            Err(_) => panic!("no event told: {what}"),
        }
    }
}

/// A call must come to an end.
pub(super) async fn within<T>(what: &str, call: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(result) => result,
        Err(_) => panic!("does not end: {what}"),
    }
}
