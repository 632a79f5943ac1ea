//! For port n of the query (from 0) channel 2n carries its bytes and 2n + 1 its problem. The first
//! message of each is the port's number, two bytes, low byte first.

use std::collections::BTreeSet;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Target;
use crate::server::chunk::{self, Output};
use crate::server::query::Query;
use crate::server::websocket::{Channels, Coding, Socket};

/// SPDY in messages, as kubectl since 1.31 speaks it.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// Channels are numbered by one byte, and 255 is taken.
const PORTS_MAX: usize = 127;

const PROTOCOLS: &[(&str, Coding)] = &[
    ("v4.channel.k8s.io", Coding::Binary),
    ("v4.base64.channel.k8s.io", Coding::Base64),
    ("", Coding::Binary),
];

/// The first of the client's that is known here. `None` in it: the tunnel.
pub(crate) fn protocol(offered: &[&str]) -> Option<(&'static str, Option<Coding>)> {
    let find = |name: &str| {
        if name == TUNNEL {
            return Some((TUNNEL, None));
        }
        PROTOCOLS.iter().find(|it| it.0 == name).map(|it| (it.0, Some(it.1)))
    };
    if offered.is_empty() { find("") } else { offered.iter().find_map(|it| find(it)) }
}

/// `port=80&port=81` or `ports=80,81`.
pub(crate) fn ports(query: &Query) -> Result<Vec<u16>, String> {
    let texts = query.all("port").chain(query.all("ports")).flat_map(|it| it.split(','));
    let mut ports = Vec::new();
    let mut seen = BTreeSet::new();
    for text in texts.map(str::trim).filter(|it| !it.is_empty()) {
        let port: u16 = text.parse().map_err(|_| format!("unable to parse {text:?} as a port"))?;
        if port == 0 {
            return Err("port must be between 1 and 65535".to_owned());
        }
        if seen.insert(port) {
            ports.push(port);
        }
    }
    match ports.len() {
        0 => Err("query parameter \"port\" is required".to_owned()),
        1..=PORTS_MAX => Ok(ports),
        n_ports => Err(format!("{n_ports} ports are more than {PORTS_MAX}")),
    }
}

impl Target {
    pub(crate) async fn over_websocket<T: AsyncRead + AsyncWrite + Unpin>(
        self,
        socket: Socket<T>,
        coding: Coding,
        ports: &[u16],
    ) -> Result<(), tokio_websockets::Error> {
        let (queue, chunks) = chunk::queue();
        let mut channels = Channels::new(socket, coding, chunks);
        let mut forwards = Vec::with_capacity(ports.len());
        for (data, port) in (0u8..).step_by(2).zip(ports) {
            let input = channels.input(data);
            let output = |channel: u8| Output::new(channel.into(), queue.clone());
            let (output, error) = (output(data), output(data + 1));
            forwards.push(async {
                for it in [&output, &error] {
                    let _ = it.send(Bytes::copy_from_slice(&port.to_le_bytes())).await;
                }
                self.forward(*port, input, output, error).await;
            });
        }
        // Channels do not end by themselves here, so that the connection stays until the client
        // hangs up or the last port's connection has ended.
        drop(queue);
        let mut connection = std::pin::pin!(channels.run());
        tokio::select! {
            biased;
            ended = &mut connection => return ended,
            _ = futures_util::future::join_all(forwards) => {}
        }
        connection.await
    }
}
