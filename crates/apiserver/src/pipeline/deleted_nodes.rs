//! Which Nodes were deleted, kept in the store beside the objects: written in one transaction with
//! the removal, so that no certificate outlives its Node, whoever restarts
//! (docs/adr/0032-a-deleted-node-has-no-certificates.md).

use std::sync::Arc;
use std::time::Duration;

use authn::{ClientCertificate, Deletion};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use kvstore::{Compare, Op, Revision, Txn};
use lifecycle::Shutdown;
use tokio::sync::watch;

use super::Core;
use crate::cache::{DELETED_NODES, ROOT};

/// As long as an authority of ours lives: nothing that it signs holds for longer.
const KEPT: SignedDuration = SignedDuration::from_hours(24 * 3653);
/// What is longer ago than [`KEPT`] is looked for once in so long: clocks may jump.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 3600);
/// What goes at once; the rest has time.
const FORGOTTEN_MAX: usize = 1000;

fn key(node: &str) -> String {
    format!("{ROOT}{DELETED_NODES}{node}")
}

/// The revision of the write says when that was among all others.
pub(crate) fn put(node: &str, at: Timestamp) -> Op {
    Op::put(key(node), at.to_string())
}

/// What is known of them here.
pub(crate) struct DeletedNodes {
    known: Arc<authn::DeletedNodes>,
    changed: watch::Sender<()>,
}

impl Default for DeletedNodes {
    fn default() -> Self {
        Self { known: Arc::default(), changed: watch::Sender::new(()) }
    }
}

impl DeletedNodes {
    pub(crate) fn known(&self) -> &Arc<authn::DeletedNodes> {
        &self.known
    }

    pub(crate) fn follow(&self, key: &str, value: Option<(&Bytes, u64)>) {
        let Some(node) = key.strip_prefix(DELETED_NODES) else { return };
        let Some((at, revision)) = value else { return self.known.forget(node) };
        let at = std::str::from_utf8(at).ok().and_then(|it| it.parse().ok());
        // Without a time the revision says it all.
        let at = at.unwrap_or(Timestamp::MIN);
        self.known.note(node, Deletion { revision, at });
        self.changed.send_replace(());
    }

    /// Returns when the certificate, which is of a node, proves nothing any more.
    pub(crate) async fn wait(self: Arc<Self>, certificate: Arc<ClientCertificate>) {
        let mut changed = self.changed.subscribe();
        while !certificate.of_node().is_some_and(|it| self.known.refuses(it)) {
            if changed.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Forgets what no certificate is older than.
    pub(crate) async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let past = core.world.clock.now().checked_sub(KEPT).unwrap_or(Timestamp::MIN);
            for (node, deletion) in self.known.before(past).into_iter().take(FORGOTTEN_MAX) {
                let key = key(&node);
                let same = Compare::mod_revision(key.as_bytes(), Revision(deletion.revision));
                let gone = Op::delete(key.as_bytes());
                if let Err(err) = core.cache.store().txn(Txn::when(vec![same], vec![gone])).await {
                    tracing::debug!(error = %stdx::error_chain(&err), node, "not forgotten");
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
