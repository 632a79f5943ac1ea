//! The sockets. One task reads datagrams and answers from memory itself; what must be forwarded
//! gets a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lifecycle::{Shutdown, Tasks};
use serving::{Guest, Limits, Room, Share, Timeouts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use crate::answer::{Answer, Answerer};
use crate::forward::Way;

const QUERY_MAX: usize = 4_096;
/// After an error, so that it is not met again at once.
const DELAY: Duration = Duration::from_millis(20);
/// Of the process's descriptors, for questions over TCP.
const SHARE: Share = Share(16);
/// A connection that asks nothing is closed, as is one that takes no answer.
const TIMEOUTS: Timeouts = Timeouts {
    header: Duration::from_secs(10),
    idle: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    ..Timeouts::HTTPS
};

/// All sockets or none. Port 0 picks one that is free for both of an address.
pub(crate) async fn start(
    listen: &[SocketAddr],
    tasks: &Tasks,
    answerer: Arc<Answerer>,
) -> std::io::Result<Vec<SocketAddr>> {
    let mut bound = Vec::new();
    for address in listen {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        bound.push((address, listener, UdpSocket::bind(address).await?));
    }
    let serve = |(address, listener, socket): (SocketAddr, TcpListener, UdpSocket)| {
        serve(&tasks.child(&address.to_string()), (listener, socket), &answerer);
        address
    };
    Ok(bound.into_iter().map(serve).collect())
}

fn serve(tasks: &Tasks, (listener, socket): (TcpListener, UdpSocket), answerer: &Arc<Answerer>) {
    let (socket, answerer) = (Arc::new(socket), answerer.clone());
    let (children, answering) = (tasks.clone(), answerer.clone());
    tasks.spawn_restarting("udp", move |shutdown| {
        serve_udp(socket.clone(), answering.clone(), children.clone(), shutdown)
    });
    let listener = Arc::new(listener);
    let children = tasks.clone();
    tasks.spawn_restarting("tcp", move |shutdown| {
        serve_tcp(listener.clone(), answerer.clone(), children.clone(), shutdown)
    });
}

async fn serve_udp(
    socket: Arc<UdpSocket>,
    answerer: Arc<Answerer>,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let mut buffer = vec![0; QUERY_MAX];
    loop {
        let received = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        let (length, from) = match received {
            Ok(received) => received,
            Err(err) => {
                // Of earlier answers, or for want of memory: no reason to stop, nor to spin.
                tracing::debug!(error = %err, "no query received");
                tokio::time::sleep(DELAY).await;
                continue;
            }
        };
        let query = &buffer[..length];
        match answerer.answer(query, Way::Udp) {
            Some(Answer::Ready(reply)) => send(&socket, &reply, from).await,
            Some(Answer::Forward) => {
                let (socket, answerer) = (socket.clone(), answerer.clone());
                let query = Bytes::copy_from_slice(query);
                tasks.spawn("forward", |shutdown| async move {
                    let asked = answerer.forward(&query, from.ip(), Way::Udp);
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => {}
                        reply = asked => if let Some(reply) = reply {
                            send(&socket, &reply, from).await;
                        },
                    }
                });
            }
            None => {}
        }
    }
}

async fn send(socket: &UdpSocket, reply: &[u8], to: SocketAddr) {
    // A client that is gone asks again or not.
    if let Err(err) = socket.send_to(reply, to).await {
        tracing::debug!(client = %to, error = %err, "answer not sent");
    }
}

async fn serve_tcp(
    listener: Arc<TcpListener>,
    answerer: Arc<Answerer>,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let room = Room::new(Limits::of(SHARE, TIMEOUTS));
    serving::accept(&listener, &room, &tasks, &shutdown, |guest, shutdown| {
        let answerer = answerer.clone();
        async move {
            let meter = guest.meter.clone();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = meter.overdue(&TIMEOUTS) => {}
                // A broken connection is the client's to notice.
                _ = converse(guest, &answerer) => {}
            }
        }
    })
    .await;
}

async fn converse(guest: Guest, answerer: &Answerer) -> std::io::Result<()> {
    let Guest { mut stream, address, meter } = guest;
    loop {
        let length = usize::from(stream.read_u16().await?);
        if length > QUERY_MAX {
            return Ok(());
        }
        let mut query = vec![0; length];
        stream.read_exact(&mut query).await?;
        let _exchange = meter.begin();
        let reply = match answerer.answer(&query, Way::Tcp) {
            Some(Answer::Ready(reply)) => Some(reply),
            Some(Answer::Forward) => answerer.forward(&query, address.ip(), Way::Tcp).await,
            None => None,
        };
        let Some(reply) = reply else { return Ok(()) };
        let length = (reply.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], &reply].concat()).await?;
    }
}
