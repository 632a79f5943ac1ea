//! The streams of exec and attach over SPDY: one for each of stdin, stdout, stderr, how it ended
//! and sizes of the terminal, named by the header `streamtype`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use node_api::Containers;
use node_api::containers::ExecRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::{Command, Form, Remote};
use crate::server::spdy::{self, Stream};

/// How long a client may take to open its streams.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// Values of `X-Stream-Protocol-Version`, best first. The empty one is what clients get that ask
/// for none.
pub(crate) const PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io", ""];

impl Command {
    pub(crate) async fn over_spdy<T: AsyncRead + AsyncWrite + Send>(
        self,
        containers: Arc<dyn Containers>,
        connection: T,
        protocol: &str,
    ) -> Result<(), spdy::Error> {
        let (session, streams, keep) = spdy::session(connection);
        let (has_resize, form) = match protocol {
            "v4.channel.k8s.io" => (self.request().tty, Form::Json),
            "v3.channel.k8s.io" => (self.request().tty, Form::Text),
            _ => (false, Form::Text),
        };
        let wanted = wanted(self.request(), has_resize);
        let mut session = std::pin::pin!(session.run());
        let command = async move {
            let opened = tokio::time::timeout(OPEN_MAX, collect(streams, &wanted)).await;
            if let Ok(Some(remote)) = opened.map(|it| remote(it, form)) {
                self.run(containers, remote).await;
            }
            drop(keep);
        };
        tokio::select! {
            biased;
            ended = &mut session => return ended,
            () = command => {}
        }
        session.await
    }
}

fn wanted(request: &ExecRequest, has_resize: bool) -> Vec<&'static str> {
    let all = [
        ("error", true),
        ("stdin", request.stdin),
        ("stdout", request.stdout),
        ("stderr", request.stderr),
        ("resize", has_resize),
    ];
    all.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}

/// Waits for all of them. Streams that nobody asked for are left alone.
async fn collect(
    mut streams: mpsc::Receiver<Stream>,
    wanted: &[&'static str],
) -> BTreeMap<&'static str, Stream> {
    let mut found = BTreeMap::new();
    while found.len() < wanted.len() {
        let Some(stream) = streams.recv().await else { break };
        let kind = stream.headers.get("streamtype").map_or("", String::as_str);
        if let Some(kind) = wanted.iter().find(|it| **it == kind) {
            found.insert(*kind, stream);
        }
    }
    found
}

/// `None` if the client hung up before it had opened them all; the error stream is there in any
/// case.
fn remote(mut streams: BTreeMap<&'static str, Stream>, form: Form) -> Option<Remote> {
    let mut take = |name| streams.remove(name);
    Some(Remote {
        error: take("error")?.output,
        stdin: take("stdin").map(|it| it.input),
        stdout: take("stdout").map(|it| it.output),
        stderr: take("stderr").map(|it| it.output),
        resize: take("resize").map(|it| it.input),
        form,
    })
}
