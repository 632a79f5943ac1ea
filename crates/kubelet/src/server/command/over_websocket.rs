//! The channels of exec and attach: 0 stdin, 1 stdout, 2 stderr, 3 how it ended, 4 sizes of the
//! terminal.

use std::sync::Arc;

use bytes::Bytes;
use node_api::Containers;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Command, Form, Remote};
use crate::server::chunk::{self, Output};
use crate::server::websocket::{Channels, Coding, Socket};

const STDIN: u8 = 0;
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const ERROR: u32 = 3;
const RESIZE: u8 = 4;

/// One subprotocol. The empty name is what clients get that ask for none.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    coding: Coding,
    form: Form,
    closes_channels: bool,
}

const fn older(name: &'static str, coding: Coding, form: Form) -> Protocol {
    Protocol { name, coding, form, closes_channels: false }
}

pub(crate) const PROTOCOLS: &[Protocol] = &[
    Protocol { closes_channels: true, ..older("v5.channel.k8s.io", Coding::Binary, Form::Json) },
    older("v4.channel.k8s.io", Coding::Binary, Form::Json),
    older("v4.base64.channel.k8s.io", Coding::Base64, Form::Json),
    older("channel.k8s.io", Coding::Binary, Form::Text),
    older("base64.channel.k8s.io", Coding::Base64, Form::Text),
    older("", Coding::Binary, Form::Text),
];

/// The first of the client's that is known here.
pub(crate) fn protocol(offered: &[&str]) -> Option<&'static Protocol> {
    let find = |name: &str| PROTOCOLS.iter().find(|it| it.name == name);
    if offered.is_empty() { find("") } else { offered.iter().find_map(|it| find(it)) }
}

impl Command {
    pub(crate) async fn over_websocket<T: AsyncRead + AsyncWrite + Unpin>(
        self,
        containers: Arc<dyn Containers>,
        socket: Socket<T>,
        protocol: &Protocol,
    ) -> Result<(), tokio_websockets::Error> {
        let request = self.request();
        let (queue, chunks) = chunk::queue();
        let mut channels = Channels::new(socket, protocol.coding, chunks);
        if protocol.closes_channels {
            channels = channels.with_closing();
        }
        let output = |channel| Output::new(channel, queue.clone());
        let remote = Remote {
            stdin: request.stdin.then(|| channels.input(STDIN)),
            resize: request.tty.then(|| channels.input(RESIZE)),
            stdout: request.stdout.then(|| output(STDOUT)),
            stderr: request.stderr.then(|| output(STDERR)),
            error: output(ERROR),
            form: protocol.form,
        };
        drop(queue);
        // An empty message tells the client that the connection stands, as upstream does.
        let first = remote.stdout.as_ref().or(remote.stderr.as_ref()).unwrap_or(&remote.error);
        let _ = first.send(Bytes::new()).await;
        let mut connection = std::pin::pin!(channels.run());
        tokio::select! {
            biased;
            ended = &mut connection => return ended,
            () = self.run(containers, remote) => {}
        }
        connection.await
    }
}
