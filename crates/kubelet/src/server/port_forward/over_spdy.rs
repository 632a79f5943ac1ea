//! Pairs of streams with the headers `streamtype` (`data` or `error`), `port` and `requestid`.

use std::collections::BTreeMap;

use bytes::Bytes;
use lifecycle::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Target;
use crate::server::spdy::{self, Stream};

/// The value of `X-Stream-Protocol-Version`.
pub(crate) const PROTOCOL: &str = "portforward.k8s.io";
/// Halves of pairs that wait for the other.
const HALVES_MAX: usize = 256;

#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

impl Target {
    pub(crate) async fn over_spdy<T: AsyncRead + AsyncWrite + Send>(
        self,
        connection: T,
        tasks: &Tasks,
    ) -> Result<(), spdy::Error> {
        let (session, mut streams, _keep) = spdy::session(connection);
        // They end with the session, not with the server alone.
        let tasks = tasks.child("port-forward");
        let _guard = tasks.shutdown_signal().drop_guard();
        let mut session = std::pin::pin!(session.run());
        let mut halves: BTreeMap<String, Pair> = BTreeMap::new();
        loop {
            let stream = tokio::select! {
                biased;
                ended = &mut session => return ended,
                Some(stream) = streams.recv() => stream,
            };
            let header = |name: &str| stream.headers.get(name).cloned().unwrap_or_default();
            let (kind, port, id) = (header("streamtype"), header("port"), header("requestid"));
            // Clients from before request ids open the two streams one after the other.
            let id = if id.is_empty() { format!("port {port}") } else { id };
            let pair = halves.entry(id.clone()).or_default();
            match kind.as_str() {
                "data" => pair.data = Some(stream),
                "error" => pair.error = Some(stream),
                _ => tracing::debug!(kind, "a port-forward stream of unknown type"),
            }
            if let Pair { data: Some(_), error: Some(_) } = pair
                && let Some(Pair { data: Some(data), error: Some(error) }) = halves.remove(&id)
            {
                let target = self.clone();
                tasks.spawn("connection", |over| async move {
                    tokio::select! {
                        biased;
                        () = over.cancelled() => {}
                        () = target.pair(&port, data, error) => {}
                    }
                });
            }
            while halves.len() > HALVES_MAX {
                halves.pop_first();
            }
        }
    }

    async fn pair(self, port: &str, data: Stream, error: Stream) {
        let Ok(port) = port.parse() else {
            let _ = error.output.finish(format!("unable to parse port {port:?}").into()).await;
            let _ = data.output.finish(Bytes::new()).await;
            return;
        };
        tokio::select! {
            biased;
            () = data.reset.cancelled() => {}
            () = self.forward(port, data.input, data.output.clone(), error.output) => {}
        }
    }
}
