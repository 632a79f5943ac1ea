//! Two connections that were taken over from HTTP, joined byte by byte.

use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lifecycle::Shutdown;
use tokio::io::{AsyncWriteExt as _, copy, split};

/// How long one direction may go on after the other has ended.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Until both have ended, or a while after one has.
pub(crate) async fn join(client: OnUpgrade, node: OnUpgrade, shutdown: Shutdown) {
    let upgraded = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        upgraded = async { tokio::try_join!(client, node) } => upgraded,
    };
    let (client, node) = match upgraded {
        Ok((client, node)) => (TokioIo::new(client), TokioIo::new(node)),
        Err(err) => {
            tracing::debug!(error = %err, "a stream could not be joined");
            return;
        }
    };
    let ((mut from_client, mut to_client), (mut from_node, mut to_node)) =
        (split(client), split(node));
    let up = async {
        let _ = copy(&mut from_client, &mut to_node).await;
        let _ = to_node.shutdown().await;
    };
    let down = async {
        let _ = copy(&mut from_node, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = &mut down => drop(tokio::time::timeout(CLOSE_MAX, up).await),
        () = &mut up => drop(tokio::time::timeout(CLOSE_MAX, down).await),
    }
}
