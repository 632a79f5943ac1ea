//! What was compiled of definitions that nobody uses any more is dropped. While nothing is compiled,
//! nothing happens here.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::Shutdown;
use tokio::sync::Notify;

use crate::registry::Registry;

/// What is not used for so long is dropped by the second sweep at the latest.
const EVERY: Duration = Duration::from_mins(5);

pub(super) async fn run(registry: Arc<Registry>, compiled: Arc<Notify>, shutdown: Shutdown) {
    let mut is_anything = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = compiled.notified(), if !is_anything => is_anything = true,
            () = tokio::time::sleep(EVERY), if is_anything => is_anything = sweep(&registry),
        }
    }
}

/// Whether anything is left.
fn sweep(registry: &Registry) -> bool {
    let kinds = registry.kinds();
    kinds.iter().for_each(|it| it.sweep());
    kinds.iter().any(|it| it.is_compiled())
}
