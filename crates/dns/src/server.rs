//! The sockets. One task reads datagrams and answers from memory itself; what must be forwarded gets a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lifecycle::{Shutdown, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::answer::{Answer, Answerer};
use crate::forward::Way;

const QUERY_MAX: usize = 4_096;
const CONNECTIONS_MAX: usize = 256;
/// A connection that asks nothing is closed.
const IDLE: Duration = Duration::from_secs(10);

/// Both sockets or none. Port 0 picks one that is free for both.
pub(crate) async fn start(
    listen: SocketAddr,
    tasks: &Tasks,
    answerer: Arc<Answerer>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let socket = Arc::new(UdpSocket::bind(address).await?);
    let (children, answering) = (tasks.clone(), answerer.clone());
    tasks.spawn_restarting("udp", move |shutdown| {
        serve_udp(socket.clone(), answering.clone(), children.clone(), shutdown)
    });
    let listener = Arc::new(listener);
    let children = tasks.clone();
    tasks.spawn_restarting("tcp", move |shutdown| {
        serve_tcp(listener.clone(), answerer.clone(), children.clone(), shutdown)
    });
    Ok(address)
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
        // ICMP errors of earlier answers come back here; they are no reason to stop.
        let Ok((length, from)) = received else { continue };
        let query = &buffer[..length];
        match answerer.answer(query, Way::Udp) {
            Some(Answer::Ready(reply)) => send(&socket, &reply, from).await,
            Some(Answer::Forward(question)) => {
                let (socket, answerer) = (socket.clone(), answerer.clone());
                let query = Bytes::copy_from_slice(query);
                tasks.spawn("forward", |shutdown| async move {
                    let asked = answerer.forward(&query, question, Way::Udp);
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
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // At the limit the newest is closed; clients try again.
        let Ok(seat) = seats.clone().try_acquire_owned() else { continue };
        let answerer = answerer.clone();
        tasks.spawn("connection", |shutdown| async move {
            let _seat = seat;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                // A broken connection is the client's to notice.
                _ = converse(stream, &answerer) => {}
            }
        });
    }
}

async fn converse(mut stream: TcpStream, answerer: &Answerer) -> std::io::Result<()> {
    loop {
        let Ok(length) = tokio::time::timeout(IDLE, stream.read_u16()).await else { return Ok(()) };
        let length = usize::from(length?);
        if length > QUERY_MAX {
            return Ok(());
        }
        let mut query = vec![0; length];
        let Ok(read) = tokio::time::timeout(IDLE, stream.read_exact(&mut query)).await else {
            return Ok(());
        };
        read?;
        let reply = match answerer.answer(&query, Way::Tcp) {
            Some(Answer::Ready(reply)) => Some(reply),
            Some(Answer::Forward(question)) => answerer.forward(&query, question, Way::Tcp).await,
            None => None,
        };
        let Some(reply) = reply else { return Ok(()) };
        let length = (reply.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], &reply].concat()).await?;
    }
}
